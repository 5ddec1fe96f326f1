"""What a group needs from its runner."""

from __future__ import annotations

from collections.abc import AsyncIterable, Collection, Mapping
from typing import Any, Protocol

from asyncsched.clock import Clock
from asyncsched.logs.query import LogArguments
from asyncsched.logs.stream import LogStream
from asyncsched.runner.backends import AnyScheduler
from asyncsched.runner.groups.settings import Cfg
from asyncsched.runner.watch import AppEventStream
from asyncsched.specs.app import AppDef
from asyncsched.specs.dryrun import AppDryRunInfo
from asyncsched.specs.handle import AppHandle

__all__ = ["Host"]


class Host(Protocol):
    """The interface of a runner to its groups."""

    @property
    def clock(self) -> Clock:
        """The runner's clock."""
        ...

    @property
    def session(self) -> str:
        """The runner's name."""
        ...

    def enter(self) -> None:
        """Check that the runner is open and used on its own loop."""
        ...

    def check(self, scheduler: str) -> None:
        """Raise UnknownSchedulerError if no scheduler has this name."""
        ...

    def ready(self, scheduler: str) -> AnyScheduler | None:
        """Return the scheduler of this name if it has been created."""
        ...

    async def open(self, name: str) -> AnyScheduler:
        """Return the scheduler of this name, created if necessary."""
        ...

    async def run(self, app: AppDef, scheduler: str, cfg: Cfg, workspace: str | None) -> AppHandle:
        """Launch an app."""
        ...

    async def plan(
        self, app: AppDef, scheduler: str, cfg: Cfg, workspace: str | None, key: str
    ) -> tuple[AppHandle, AppDryRunInfo[Any]]:
        """Return the handle that an app launched with this key would have, and its dry-run."""
        ...

    async def schedule(self, dryrun_info: AppDryRunInfo[Any]) -> AppHandle:
        """Launch a dry-run."""
        ...

    def watch(self) -> AppEventStream:
        """Return a watch without apps, which stays open for apps to be added."""
        ...

    def log_lines(self, handle: AppHandle, query: LogArguments) -> LogStream:
        """Return the lines of one app."""
        ...

    def log_lines_of(
        self, handles: AsyncIterable[AppHandle], schedulers: Collection[str], what: str, query: LogArguments
    ) -> LogStream:
        """Return the log lines of apps, whose handles may arrive over time."""
        ...

    async def cancel(self, handles: Collection[AppHandle]) -> Mapping[AppHandle, Exception]:
        """Cancel apps in as few calls as possible; return the errors of those that could not be cancelled."""
        ...

    async def is_called_off(self, group: str) -> bool:
        """Return whether another process has called off the group; it is told once."""
        ...

    def opened(self, engine: Closable, /) -> None:
        """Close this with the runner."""
        ...

    def closed(self, engine: Closable, /) -> None:
        """No longer close this with the runner."""
        ...


class Closable(Protocol):
    """Something that a runner closes when it is closed."""

    async def close(self, error: Exception) -> None:
        """End the group; callers that wait for it get this error."""
        ...
