"""The same verbs for code that cannot await.

::

    with SyncRunner("me") as runner:
        handle = runner.run(app, scheduler)
        for line in runner.log_lines(handle, should_tail=True):
            print(line, end="")
        print(runner.wait(handle))

Each runner has an event loop of its own in a daemon thread. It may be used from any thread, inside a running loop too
(which it then blocks, as every blocking call does); it ends when it is closed, dropped, or the interpreter exits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from asyncsched._bridge import Bridge
from asyncsched._facade import BlockingIterator, BlockingWatch, Facade, blocking, blocking_iter, blocking_watch, on_loop
from asyncsched.logs.line import LogLine
from asyncsched.runner.backends import close_schedulers
from asyncsched.runner.runner import Runner
from asyncsched.schedulers import registry
from asyncsched.schedulers.api import Scheduler
from asyncsched.schedulers.registry import SchedulerFactory, get_default_scheduler_name
from asyncsched.specs.stream import Stream

if TYPE_CHECKING:
    from asyncsched.specs.image_progress import ImageProgress

__all__ = [
    "BlockingIterator",
    "BlockingWatch",
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
        scheduler: The scheduler, which nothing else has used yet; it is closed with this.
    """

    def __init__(self, scheduler: Scheduler[Any, Any], *, bridge: Bridge | None = None) -> None:
        self._owner = bridge is None
        super().__init__(scheduler, bridge or Bridge(scheduler.close))

    @property
    def backend(self) -> str:
        """The name under which the scheduler is registered."""
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
    watch = blocking_watch(Scheduler.watch)
    watch_statistics = on_loop(Scheduler.watch_statistics)
    cancel = blocking(Scheduler.cancel)
    cancel_many = blocking(Scheduler.cancel_many)
    kill = blocking(Scheduler.kill)
    prune = blocking(Scheduler.prune)
    results = blocking(Scheduler.results)
    delete = blocking(Scheduler.delete)
    run_opts = blocking(Scheduler.run_opts)
    list_iter = blocking_iter(Scheduler.list_iter, ahead=100)
    _log_iter = blocking_iter(Scheduler.log_iter, ahead=_LINES_AHEAD)

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
    ) -> BlockingIterator[LogLine]:
        """Iterate over the lines of one replica, the first by default; ``k=None`` gives those of all, merged."""
        return self._log_iter(app_id, role_name, k, regex, since, until, should_tail, streams)

    def close(self) -> None:
        """End everything of this scheduler. One that belongs to a runner is closed with that, and not here."""
        if self._owner:
            super().close()

    list = blocking(Scheduler.list)


class SyncRunner(Facade[Runner]):
    """A `Runner` whose calls block.

    Args:
        name: The session that submitted apps are marked with.
        schedulers: What it may use, by name: factories, or schedulers that nothing else has used yet, which are closed
            with this. All that are installed by default.
        component_defaults: Arguments of components that are used where a call gives none, by component.
        scheduler_params: Parameters of schedulers by their names, such as ``aws_batch={"region": "eu-west-1"}``.
    """

    def __init__(
        self,
        name: str = "",
        schedulers: Mapping[str, Scheduler[Any, Any] | SchedulerFactory] | None = None,
        component_defaults: Mapping[str, Mapping[str, object]] | None = None,
        **scheduler_params: Mapping[str, object],
    ) -> None:
        runner = Runner(name, schedulers, component_defaults, **scheduler_params)
        given = [each for each in (schedulers or {}).values() if isinstance(each, Scheduler)]
        super().__init__(runner, Bridge(functools.partial(_close, runner, given)))

    @property
    def name(self) -> str:
        """The session that submitted apps are marked with."""
        return self._wrapped.name

    run = blocking(Runner.run)
    run_component = blocking(Runner.run_component)
    dryrun = blocking(Runner.dryrun)
    dryrun_component = blocking(Runner.dryrun_component)
    schedule = blocking(Runner.schedule)
    status = blocking(Runner.status)
    describe = blocking(Runner.describe)
    wait = blocking(Runner.wait)
    wait_all = blocking(Runner.wait_all)
    as_completed = blocking_iter(Runner.as_completed)
    watch = blocking_watch(Runner.watch)
    monitor = blocking(Runner.monitor)
    log_lines = blocking_iter(Runner.log_lines, ahead=_LINES_AHEAD)
    cancel = blocking(Runner.cancel)
    delete = blocking(Runner.delete)
    scheduler_run_opts = blocking(Runner.scheduler_run_opts)
    scheduler_backends = blocking(Runner.scheduler_backends)
    statistics = on_loop(Runner.statistics)
    _scheduler = blocking(Runner.scheduler)

    def scheduler(self, name: str) -> SyncScheduler:
        """Return the scheduler of this name, which shares this runner's loop and is closed with it."""
        return SyncScheduler(self._scheduler(name), bridge=self._bridge)

    list = blocking(Runner.list)


def create_scheduler(name: str, session_name: str, **kwargs: object) -> SyncScheduler:
    """Make the scheduler of this name."""
    return SyncScheduler(registry.get_scheduler(name, session_name, **kwargs))


def get_scheduler_factories() -> dict[str, Callable[..., SyncScheduler]]:
    """Return the factories of all schedulers by name, the default first; each takes a session's name."""
    return {name: functools.partial(create_scheduler, name) for name in registry.get_scheduler_factories()}


def get_runner(
    name: str = "",
    component_defaults: Mapping[str, Mapping[str, object]] | None = None,
    **scheduler_params: Mapping[str, object],
) -> SyncRunner:
    """Make a runner with all schedulers that are installed."""
    return SyncRunner(name, None, component_defaults, **scheduler_params)


def build_workspace_image(
    img: str,
    workspace: str,
    *,
    platform: str | None = None,
    on_progress: Callable[[ImageProgress], None] | None = None,
) -> str:
    """Do as `asyncsched.workspace.build_workspace_image` does, and block; `on_progress` is called in another thread."""
    from asyncsched.workspace import build_workspace_image as build  # few have a workspace

    async def nothing() -> None: ...

    bridge = Bridge(nothing)
    try:
        return bridge.call(lambda: build(img, workspace, platform=platform, on_progress=on_progress))
    finally:
        bridge.close()


async def _close(runner: Runner, given: Collection[Scheduler[Any, Any]]) -> None:
    await runner.close()
    await close_schedulers(given)
