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
    """The runner that owns a group, as the group sees it."""

    @property
    def clock(self) -> Clock:
        """What tells the time."""
        ...

    @property
    def session(self) -> str:
        """The runner's name."""
        ...

    def enter(self) -> None:
        """Check that the runner is open, and that this is its loop."""
        ...

    def check(self, scheduler: str) -> None:
        """Raise UnknownSchedulerError for a name that no scheduler has."""
        ...

    def ready(self, scheduler: str) -> AnyScheduler | None:
        """Return the scheduler of this name if it is there already."""
        ...

    async def open(self, name: str) -> AnyScheduler:
        """Return the scheduler of this name, made if need be."""
        ...

    async def run(self, app: AppDef, scheduler: str, cfg: Cfg, workspace: str | None) -> AppHandle:
        """Launch an app."""
        ...

    async def plan(
        self, app: AppDef, scheduler: str, cfg: Cfg, workspace: str | None, key: str
    ) -> tuple[AppHandle, AppDryRunInfo[Any]]:
        """Return what would be sent under a key, and the handle that it would have."""
        ...

    async def schedule(self, dryrun_info: AppDryRunInfo[Any]) -> AppHandle:
        """Launch what was planned."""
        ...

    def watch(self) -> AppEventStream:
        """Return a watch to which apps are added."""
        ...

    def log_lines(self, handle: AppHandle, query: LogArguments) -> LogStream:
        """Return the lines of one app."""
        ...

    def log_lines_of(
        self, handles: AsyncIterable[AppHandle], schedulers: Collection[str], what: str, query: LogArguments
    ) -> LogStream:
        """Return the lines of apps that become known as time goes on."""
        ...

    async def cancel(self, handles: Collection[AppHandle]) -> Mapping[AppHandle, Exception]:
        """Cancel apps in as few calls as there can be; return why some could not be cancelled."""
        ...

    async def is_called_off(self, group: str) -> bool:
        """Tell, once, whether another process has asked for the end of a whole group."""
        ...

    def opened(self, engine: Closable, /) -> None:
        """Close this with the runner."""
        ...

    def closed(self, engine: Closable, /) -> None:
        """Leave it out when the runner is closed."""
        ...


class Closable(Protocol):
    """What a runner ends when it is closed."""

    async def close(self, error: Exception) -> None:
        """End the group; callers that wait for it get this error."""
        ...
