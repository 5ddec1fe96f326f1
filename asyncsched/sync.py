"""The same API for code that cannot await.

::

    with SyncRunner("me") as runner:
        handle = runner.run(app, scheduler)
        for line in runner.log_lines(handle, should_tail=True):
            print(line, end="")
        print(runner.wait(handle))

Each runner has its own event loop in a daemon thread. It may be used from any thread, even inside a running loop (which
it then blocks, like every blocking call). It ends when it is closed or dropped, or the interpreter exits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from asyncsched._bridge import Bridge
from asyncsched._facade import BlockingIterator, BlockingWatch, Facade, blocking, blocking_iter, blocking_watch, on_loop
from asyncsched._sync_groups import SyncJob, SyncJobGroup, blocking_group, blocking_job, blocking_jobs
from asyncsched.logs.line import LogLine
from asyncsched.runner.backends import close_schedulers
from asyncsched.runner.convert import AppEvent
from asyncsched.runner.runner import Runner as _Runner
from asyncsched.schedulers import registry
from asyncsched.schedulers.api import Scheduler
from asyncsched.schedulers.registry import SchedulerFactory, get_default_scheduler_name
from asyncsched.schedulers.responses import ListAppResponse, StateEvent
from asyncsched.specs.handle import AppHandle
from asyncsched.specs.state import AppStatus
from asyncsched.specs.stream import Stream

if TYPE_CHECKING:
    from asyncsched.specs.image_progress import ImageProgress

__all__ = [
    "BlockingIterator",
    "BlockingWatch",
    "SyncJob",
    "SyncJobGroup",
    "SyncRunner",
    "SyncScheduler",
    "build_workspace_image",
    "create_scheduler",
    "get_default_scheduler_name",
    "get_runner",
    "get_scheduler_factories",
]

_LINES_AHEAD = 1024


class SyncScheduler(Facade[Scheduler[Any, Any]]):
    """A scheduler with the documents' blocking interface.

    Args:
        scheduler: The scheduler, which must be unused; it is closed with this object. Or a function that creates one,
            which is called again after a fork.
    """

    def __init__(self, scheduler: Scheduler[Any, Any] | Callable[[], Scheduler[Any, Any]]) -> None:
        self._owner = True
        if not callable(scheduler):
            super().__init__(scheduler, Bridge(scheduler.close))
        else:
            again = functools.partial(_make_scheduler, scheduler)
            super().__init__(*again(), again)

    @property
    def options(self) -> type[Any]:
        """The dataclass of the run options; needs no loop."""
        return self._wrapped.options

    @property
    def backend(self) -> str:
        """The name that the scheduler is registered under."""
        return self._wrapped.backend

    @property
    def session_name(self) -> str:
        """The session that submitted apps are marked with."""
        return self._wrapped.session_name

    warm_up = blocking(Scheduler.warm_up)
    submit = blocking(Scheduler[Any, Any].submit)
    submit_dryrun = blocking(Scheduler[Any, Any].submit_dryrun)
    schedule = blocking(Scheduler[Any, Any].schedule)
    describe = blocking(Scheduler.describe)
    describe_many = blocking(Scheduler.describe_many)
    exists = blocking(Scheduler.exists)
    watch = blocking_watch(Scheduler.watch, StateEvent)
    watch_statistics = on_loop(Scheduler.watch_statistics)
    cancel = blocking(Scheduler.cancel)
    cancel_many = blocking(Scheduler.cancel_many)
    kill = blocking(Scheduler.kill)
    prune = blocking(Scheduler.prune)
    results = blocking(Scheduler.results)
    delete = blocking(Scheduler.delete)
    run_opts = blocking(Scheduler.run_opts)
    list_iter = blocking_iter(Scheduler.list_iter, ListAppResponse, ahead=100)
    _log_iter = blocking_iter(Scheduler.log_iter, LogLine, ahead=_LINES_AHEAD)

    def log_iter(
        self,
        app_id: str,
        role_name: str | Collection[str] = "",
        k: int | Iterable[int] | None = 0,
        regex: str | None = None,
        since: datetime | timedelta | None = None,
        until: datetime | timedelta | None = None,
        should_tail: bool = False,
        streams: Stream | None = None,
        *,
        tail_lines: int | None = None,
        attempts: int | Iterable[int] | None = None,
        gaps: Literal["tell", "raise"] = "tell",
    ) -> BlockingIterator[LogLine]:
        """Iterate over the lines of one replica, by default the first; ``k=None`` merges those of all replicas."""
        return self._log_iter(
            app_id,
            role_name,
            k,
            regex,
            since,
            until,
            should_tail,
            streams,
            tail_lines=tail_lines,
            attempts=attempts,
            gaps=gaps,
        )

    def close(self) -> None:
        """End everything of this scheduler. A runner's scheduler is closed with the runner, not here."""
        if self._owner:
            super().close()

    list = blocking(Scheduler.list)


def _make_scheduler(make: Callable[[], Scheduler[Any, Any]]) -> tuple[Scheduler[Any, Any], Bridge]:
    scheduler = make()
    return scheduler, Bridge(scheduler.close)


class _RunnersScheduler(SyncScheduler):
    """A scheduler of a `SyncRunner`, whose loop it shares."""

    def __init__(self, runner: SyncRunner, name: str | None) -> None:
        def again() -> tuple[Scheduler[Any, Any], Bridge]:
            return runner._scheduler(name), runner._bridge

        self._owner = False
        super(SyncScheduler, self).__init__(*again(), again)  # without the parent class's own loop


class SyncRunner(Facade[_Runner]):
    """A `Runner` whose calls block.

    Args:
        name: The session to mark submitted apps with.
        schedulers: The schedulers to use, by name: factories, or unused schedulers, which are closed with this object.
            All installed schedulers by default.
        component_defaults: Default arguments of components, by component.
        scheduler_params: Parameters of schedulers by their names, such as ``aws_batch={"region": "eu-west-1"}``.
    """

    def __init__(
        self,
        name: str = "",
        schedulers: Mapping[str, Scheduler[Any, Any] | SchedulerFactory] | None = None,
        component_defaults: Mapping[str, Mapping[str, object]] | None = None,
        **scheduler_params: Mapping[str, object],
    ) -> None:
        given = [each for each in (schedulers or {}).values() if isinstance(each, Scheduler)]
        again = functools.partial(_make_runner, given, name, schedulers, component_defaults, **scheduler_params)
        super().__init__(*again(), None if given else again)

    @property
    def name(self) -> str:
        """The session that submitted apps are marked with."""
        return self._wrapped.name

    run = blocking(_Runner.run)
    run_component = blocking(_Runner.run_component)
    dryrun = blocking(_Runner.dryrun)
    dryrun_component = blocking(_Runner.dryrun_component)
    schedule = blocking(_Runner.schedule)
    status = blocking(_Runner.status)
    describe = blocking(_Runner.describe)
    group = blocking_group(_Runner.group)
    job = blocking_job(_Runner.job)
    run_all = blocking_jobs(_Runner.run_all)
    wait = blocking(_Runner.wait)
    wait_all = blocking(_Runner.wait_all)
    as_completed = blocking_iter(_Runner.as_completed, tuple[AppHandle, AppStatus | None])
    status_all = blocking(_Runner.status_all)
    events = blocking_iter(_Runner.events, AppEvent | LogLine, ahead=100)
    results = blocking(_Runner.results)
    watch = blocking_watch(_Runner.watch, AppEvent)
    monitor = blocking(_Runner.monitor)
    show_log = blocking(_Runner.show_log)
    log_lines = blocking_iter(_Runner.log_lines, LogLine, ahead=_LINES_AHEAD)
    cancel = blocking(_Runner.cancel)
    cancel_all = blocking(_Runner.cancel_all)
    delete = blocking(_Runner.delete)
    scheduler_run_opts = blocking(_Runner.scheduler_run_opts)
    scheduler_backends = blocking(_Runner.scheduler_backends)
    statistics = on_loop(_Runner.statistics)
    _scheduler = blocking(_Runner.scheduler)

    def scheduler(self, name: str | None = None) -> SyncScheduler:
        """Return the scheduler of this name, by default the first; it is closed with this runner."""
        return _RunnersScheduler(self, name)

    list = blocking(_Runner.list)


def create_scheduler(name: str, session_name: str, **kwargs: object) -> SyncScheduler:
    """Create the scheduler of this name."""
    return SyncScheduler(functools.partial(registry.get_scheduler, name, session_name, **kwargs))


def get_scheduler_factories() -> dict[str, Callable[..., SyncScheduler]]:
    """Return the factories of all schedulers by name, the default first; each takes a session's name."""
    return {name: functools.partial(create_scheduler, name) for name in registry.get_scheduler_factories()}


def get_runner(
    name: str = "",
    component_defaults: Mapping[str, Mapping[str, object]] | None = None,
    **scheduler_params: Mapping[str, object],
) -> SyncRunner:
    """Create a runner with all installed schedulers."""
    return SyncRunner(name, None, component_defaults, **scheduler_params)


def build_workspace_image(
    img: str,
    workspace: str,
    *,
    platform: str | None = None,
    on_progress: Callable[[ImageProgress], None] | None = None,
) -> str:
    """Like `asyncsched.workspace.build_workspace_image`, but blocking; `on_progress` is called in another thread."""
    from asyncsched.workspace import build_workspace_image as build  # rarely needed

    async def nothing() -> None: ...

    bridge = Bridge(nothing)
    try:
        return bridge.call(lambda: build(img, workspace, platform=platform, on_progress=on_progress))
    finally:
        bridge.close()


def _make_runner(
    given: Collection[Scheduler[Any, Any]],
    name: str,
    schedulers: Mapping[str, Scheduler[Any, Any] | SchedulerFactory] | None,
    component_defaults: Mapping[str, Mapping[str, object]] | None,
    **scheduler_params: Mapping[str, object],
) -> tuple[_Runner, Bridge]:
    runner = _Runner(name, schedulers, component_defaults, **scheduler_params)
    return runner, Bridge(functools.partial(_close, runner, given))


async def _close(runner: _Runner, given: Collection[Scheduler[Any, Any]]) -> None:
    await runner.close()
    await close_schedulers(given)


def __getattr__(name: str) -> object:
    """Raise AttributeError for unknown names; the async Runner is in `asyncsched`."""
    if name == "Runner":
        raise AttributeError("asyncsched.sync has no Runner: use SyncRunner, whose calls block")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
