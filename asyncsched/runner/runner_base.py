"""What all parts of `Runner` share: the schedulers, the loop, closing, and statistics."""

from __future__ import annotations

import asyncio
import sys
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from asyncsched._loops import AsyncOnly, one_loop
from asyncsched._streams import for_one
from asyncsched._tasks import close_all
from asyncsched.clock import Clock
from asyncsched.errors import AsyncSchedError, ClosedError
from asyncsched.logs.stream import LogStream
from asyncsched.runner.backends import AnyScheduler, Backends
from asyncsched.runner.results import RunnerStatistics, SchedulerStatistics
from asyncsched.runner.watch import AppEventStream
from asyncsched.schedulers.arguments import check_session
from asyncsched.schedulers.registry import SchedulerFactory
from asyncsched.specs.dryrun import AppDryRunInfo
from asyncsched.specs.given import unexpected
from asyncsched.specs.handle import AppHandle
from asyncsched.specs.run_options import runopts

if TYPE_CHECKING:
    from asyncsched.runner.groups.host import Closable
    from asyncsched.runner.notebook import LogBoxes

CLOSE_TIMEOUT = 10.0
GROUPS_CLOSE_TIMEOUT = 60.0
"""Longer than for streams, because submits in progress undo what they created."""


class _RunnerBase(AsyncOnly):
    """Base class of the parts of `Runner`, which are the modules named ``runner_*``.

    Args:
        name: The session that submitted apps belong to.
        schedulers: The schedulers it may use, by name: factories, or scheduler objects, which it does not close. By
            default all installed ones.
        component_defaults: Default arguments by component, for calls that do not give them.
        scheduler_params: Parameters by scheduler, such as ``mine={"region": "eu-west-1"}``.

    Attributes:
        clock: The clock that `wait` and `wait_all` use.
    """

    def __init__(
        self,
        name: str = "",
        schedulers: Mapping[str, AnyScheduler | SchedulerFactory] | None = None,
        component_defaults: Mapping[str, Mapping[str, object]] | None = None,
        **scheduler_params: Mapping[str, object],
    ) -> None:
        from asyncsched.runner.call_log import CallLog  # loaded with the first runner
        from asyncsched.specs.last_seen import LastSeenApps

        check_session(name)
        if not isinstance(cast("object", component_defaults), (Mapping, type(None))):
            raise unexpected("component_defaults", component_defaults, "a mapping of arguments by component")
        self._name = name
        self._backends = Backends(name, schedulers, scheduler_params)
        self._component_defaults = component_defaults or {}
        self.clock = Clock()
        self._calls = CallLog(name)
        self._seen = LastSeenApps()
        self._log_streams: weakref.WeakSet[LogStream] = weakref.WeakSet()
        self._watches: weakref.WeakSet[AppEventStream] = weakref.WeakSet()
        self._groups: set[Closable] = set()
        self._log_boxes: LogBoxes | None = None  # made with the first log that is shown in a notebook
        self._planned: weakref.WeakKeyDictionary[AppDryRunInfo[Any], str] = weakref.WeakKeyDictionary()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        if "IPython" in sys.modules:
            from asyncsched._error_text import let_notebook_show

            let_notebook_show(AsyncSchedError)

    @property
    def name(self) -> str:
        """The session that submitted apps belong to."""
        return self._name

    def __repr__(self) -> str:
        state = "closed" if self._closed else "new" if self._loop is None else "open"
        return f"<Runner {self._name!r} {state}, {', '.join(self._backends.ready) or 'no scheduler used yet'}>"

    # Schedulers and statistics

    async def scheduler(self, name: str | None = None) -> AnyScheduler:
        """Return the scheduler of this name, by default the first. The runner closes schedulers that it created."""
        self._enter()
        return await self._backends.open(self._backends.chosen(name))

    async def scheduler_run_opts(self, scheduler: str | None = None) -> runopts:
        """Return the run options of a scheduler, by default the first."""
        self._enter()
        scheduler = self._backends.chosen(scheduler)
        with self._calls.call("scheduler_run_opts", scheduler):
            return await (await self._backends.open(scheduler)).run_opts()

    async def scheduler_backends(self) -> Sequence[str]:
        """Return the names of all schedulers that this runner can use, the default first."""
        self._enter()
        return await self._backends.names()

    def statistics(self) -> RunnerStatistics:
        """Return the runner's open streams and its call counts."""
        calls: Counter[str] = Counter()
        for (_, operation), count in self._calls.counts.items():
            calls[operation] += count
        return RunnerStatistics(
            log_streams=sum(not stream.closed for stream in self._log_streams),
            watches=sum(not stream.closed for stream in self._watches),
            calls=calls,
            schedulers={name: self._scheduler_statistics(name) for name in self._backends.ready},
        )

    def _scheduler_statistics(self, name: str) -> SchedulerStatistics:
        counts = self._calls.counts.items()
        return SchedulerStatistics(
            calls={operation: count for (scheduler, operation), count in counts if scheduler == name},
            feed=self._backends.ready[name].watch_statistics(),
        )

    # Closing

    async def close(self) -> None:
        """Close what this runner has opened; apps keep running. Never raises. Idempotent."""
        if self._closed:
            return
        self._closed = True
        closed = ClosedError(f"the runner {self._name!r} was closed")
        streams: list[LogStream | AppEventStream] = [*self._log_streams, *self._watches]
        try:
            await close_all([group.close(for_one(closed)) for group in self._groups], GROUPS_CLOSE_TIMEOUT)
            await close_all([stream.fail(for_one(closed)) for stream in streams if not stream.closed], CLOSE_TIMEOUT)
        finally:  # a cancelled close still closes everything
            await self._backends.close()

    async def __aenter__(self) -> Self:
        self._enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"the runner {self._name!r} is closed", fix="make a new one")

    def _enter(self) -> None:
        """Check that the runner is open and used on its own loop; every operation calls this first."""
        self._check_open()
        self._loop = one_loop(self._loop, f"the runner {self._name!r}")

    def _on(self, handle: str) -> AppHandle:
        """Do the same for an operation on one app, and parse its handle."""
        self._enter()
        return AppHandle(handle)
