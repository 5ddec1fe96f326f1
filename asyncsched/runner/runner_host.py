"""What groups of jobs and monitors may use of a runner."""

from __future__ import annotations

from collections.abc import AsyncIterable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from asyncsched._tasks import finished_in_thread
from asyncsched.clock import Clock
from asyncsched.logs.query import LogArguments
from asyncsched.logs.stream import LogStream
from asyncsched.runner.backends import AnyScheduler
from asyncsched.runner.runner_launch import _LaunchingRunner
from asyncsched.runner.runner_streams import _StreamingRunner
from asyncsched.runner.watch import AppEventStream
from asyncsched.specs.app import AppDef
from asyncsched.specs.dryrun import AppDryRunInfo
from asyncsched.specs.handle import AppHandle, make_app_handle

if TYPE_CHECKING:
    from asyncsched.runner.groups.settings import Cfg

__all__ = ["RunnerHost"]


class _HostedRunner(_LaunchingRunner, _StreamingRunner):
    """The parts of a runner that groups of jobs and monitors need."""


class RunnerHost:
    """Gives groups of jobs and monitors access to a runner."""

    def __init__(self, runner: _HostedRunner) -> None:
        self._runner = runner
        self.enter = runner._enter
        self.open = runner._backends.open
        self.schedule = runner.schedule
        self.opened = runner._groups.add
        self.closed = runner._groups.discard

    @property
    def clock(self) -> Clock:
        """The runner's clock."""
        return self._runner.clock

    @property
    def session(self) -> str:
        """The runner's name."""
        return self._runner.name

    def check(self, scheduler: str) -> None:
        """Raise UnknownSchedulerError if no scheduler has this name."""
        self._runner._backends.check([scheduler])

    def ready(self, scheduler: str) -> AnyScheduler | None:
        """Return the scheduler of this name if it has been created."""
        return self._runner._backends.ready.get(scheduler)

    async def run(self, app: AppDef, scheduler: str, cfg: Cfg, workspace: str | None) -> AppHandle:
        """Launch an app."""
        return await self._runner.run(app, scheduler, cfg, workspace)

    def watch(self) -> AppEventStream:
        """Return a watch without apps, which stays open for apps to be added."""
        return self._runner._watch((), follow=True)

    def log_lines(self, handle: AppHandle, query: LogArguments) -> LogStream:
        """Return the lines of one app."""
        return self._runner.log_lines(handle, **query)

    def log_lines_of(
        self, handles: AsyncIterable[AppHandle], schedulers: Collection[str], what: str, query: LogArguments
    ) -> LogStream:
        """Return the log lines of apps, whose handles may arrive over time."""
        return self._runner._lines_of(handles, schedulers, what, **query)

    async def is_called_off(self, group: str) -> bool:
        """Return whether another process has called off the group; it is told once."""
        from asyncsched.runner.groups.calling_off import is_called_off  # loaded by the few who need it

        return await finished_in_thread(lambda: is_called_off(self.session, group))

    async def plan(
        self, app: AppDef, scheduler: str, cfg: Cfg, workspace: str | None, key: str
    ) -> tuple[AppHandle, AppDryRunInfo[Any]]:
        """Return the handle that an app launched with this key would have, and its dry-run."""
        info = await self._runner.dryrun(app, scheduler, cfg, workspace, key=key)
        return make_app_handle(scheduler, info.session, info.app_id), info

    async def cancel(self, handles: Collection[AppHandle]) -> Mapping[AppHandle, Exception]:
        """Cancel apps in as few calls as possible; return the errors of those that could not be cancelled."""
        by_scheduler: dict[str, list[AppHandle]] = {}
        for handle in handles:
            by_scheduler.setdefault(handle.scheduler, []).append(handle)
        failed: dict[AppHandle, Exception] = {}
        for scheduler, those in by_scheduler.items():
            backend = await self._runner._backends.open(scheduler)
            errors = await backend.cancel_many([handle.app_id for handle in those])
            failed |= {handle: error for handle in those if (error := errors.get(handle.app_id)) is not None}
        return failed
