"""Groups of jobs for code that cannot await."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self

from asyncsched._facade import BlockingIterator, Facade, blocking, blocking_iter, set_return
from asyncsched._typing import override
from asyncsched.logs.line import LogLine
from asyncsched.runner.convert import AppEvent
from asyncsched.runner.groups.group import JobGroup
from asyncsched.runner.groups.job import Job, JobCounts

if TYPE_CHECKING:
    from asyncsched._bridge import Bridge
    from asyncsched.runner.groups.completed import CompletedJobs
    from asyncsched.specs.app import AppDef
    from asyncsched.specs.handle import AppHandle
    from asyncsched.specs.state import AppState, AppStatus

__all__ = ["SyncJob", "SyncJobGroup", "blocking_group", "blocking_job", "blocking_jobs"]

P = ParamSpec("P")

_LINES_AHEAD = 1024


class SyncJob(Facade[Job]):
    """A job of a group; `wait` replaces awaiting it. Leaving it as ``with`` before its end ends the job."""

    @property
    def name(self) -> str:
        """The job's name, unique in the group."""
        return self._wrapped.name

    @property
    def index(self) -> int:
        """The job's number in the group."""
        return self._wrapped.index

    @property
    def app(self) -> AppDef:
        """The app that it runs."""
        return self._wrapped.app

    @property
    def handle(self) -> AppHandle | None:
        """The handle of its last attempt; None before the first one."""
        return self._wrapped.handle

    @property
    def attempts(self) -> tuple[AppHandle, ...]:
        """The handles of all attempts."""
        return self._wrapped.attempts

    @property
    def status(self) -> AppStatus:
        """Its last known status."""
        return self._wrapped.status

    @property
    def state(self) -> AppState:
        """The state in `status`."""
        return self._wrapped.state

    def is_terminal(self) -> bool:
        """Tell whether the job has ended, or will never start."""
        return self._wrapped.is_terminal()

    @property
    def error(self) -> Exception | None:
        """The error of its launch, or None."""
        return self._wrapped.error

    @property
    def timed_out(self) -> bool:
        """Whether its last attempt exceeded its timeout."""
        return self._wrapped.timed_out

    def wait(self) -> AppStatus:
        """Wait until it is over and return its last status; a failure raises nothing."""
        return self._bridge.call(self._wrapped._wait)

    def raise_for_status(self) -> None:
        """Raise AppStatusError unless it has succeeded."""
        self._wrapped.raise_for_status()

    cancel = blocking(Job.cancel)
    results = blocking(Job.results)
    log_lines = blocking_iter(Job.log_lines, LogLine, ahead=_LINES_AHEAD)

    @override
    def close(self) -> None:
        """End it, unless it is over. The group continues."""
        self._bridge.call(functools.partial(self._wrapped.__aexit__, None, None, None))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SyncJob) and self._wrapped is other._wrapped

    def __hash__(self) -> int:
        return hash(self._wrapped)


def blocking_job(method: Callable[Concatenate[Any, P], Job]) -> Callable[Concatenate[Any, P], SyncJob]:
    """Return the blocking twin of a method that starts a job."""

    @functools.wraps(method)
    def twin(self: Facade[Any], /, *args: P.args, **kwargs: P.kwargs) -> SyncJob:
        async def call() -> Job:
            job: Job = getattr(self._wrapped, method.__name__)(*args, **kwargs)
            return job

        return SyncJob(self._bridge.call(call), self._bridge)

    set_return(twin, SyncJob)
    return twin


class SyncJobGroup(Facade[JobGroup]):
    """A `JobGroup` whose calls block; use it as ``with``."""

    @property
    def name(self) -> str:
        """The group's name, which its jobs carry."""
        return self._wrapped.name

    @property
    def jobs(self) -> Sequence[SyncJob]:
        """The group's jobs, in the order in which they were started."""
        return self._blocking(self._wrapped.jobs)

    @property
    def failed(self) -> Sequence[SyncJob]:
        """The jobs that have failed for good."""
        return self._blocking(self._wrapped.failed)

    @property
    def left_running(self) -> Sequence[SyncJob]:
        """The jobs whose end was not confirmed, or that were left running."""
        return self._blocking(self._wrapped.left_running)

    @property
    def lost_logs(self) -> Mapping[AppHandle, Exception]:
        """The apps whose logs in the files of `keep_logs` are incomplete, with the reason."""
        return self._wrapped.lost_logs

    @property
    def counts(self) -> JobCounts:
        """The numbers of its jobs by state."""
        return self._wrapped.counts

    def _blocking(self, jobs: Sequence[Job]) -> Sequence[SyncJob]:
        return tuple(SyncJob(job, self._bridge) for job in jobs)

    def as_completed(self) -> BlockingIterator[SyncJob]:
        """Iterate over the jobs in the order in which they end."""
        return BlockingIterator(self._bridge, lambda: _Ends(self._wrapped.as_completed(), self._bridge), 1)

    start = blocking_job(JobGroup.start)
    wait = blocking(JobGroup.wait)
    cancel = blocking(JobGroup.cancel)
    log_lines = blocking_iter(JobGroup.log_lines, LogLine, ahead=_LINES_AHEAD)
    events = blocking_iter(JobGroup.events, AppEvent | LogLine, ahead=100)
    monitor = blocking(JobGroup.monitor)

    @override
    def close(self) -> None:
        """End the group: no more jobs start, and running ones are ended or left, as `on_leave` says."""
        self._bridge.call(self._wrapped.aclose)

    @override
    def __enter__(self) -> Self:
        self._bridge.call(self._wrapped.__aenter__)
        return self

    @override
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bridge.call(functools.partial(self._wrapped.__aexit__, kind, error, trace))

    def __str__(self) -> str:
        return str(self._wrapped)


class _Ends:
    """The ends of jobs, as blocking jobs."""

    def __init__(self, jobs: CompletedJobs, bridge: Bridge) -> None:
        self._jobs = jobs
        self._bridge = bridge

    def __aiter__(self) -> AsyncIterator[SyncJob]:
        return self

    async def __anext__(self) -> SyncJob:
        return SyncJob(await anext(self._jobs), self._bridge)

    def aclose(self) -> Awaitable[None]:
        return self._jobs.aclose()


def blocking_group(method: Callable[Concatenate[Any, P], JobGroup]) -> Callable[Concatenate[Any, P], SyncJobGroup]:
    """Return the blocking twin of a method that creates a group."""

    @functools.wraps(method)
    def twin(self: Facade[Any], /, *args: P.args, **kwargs: P.kwargs) -> SyncJobGroup:
        group: JobGroup = getattr(self._wrapped, method.__name__)(*args, **kwargs)
        return SyncJobGroup(group, self._bridge)

    set_return(twin, SyncJobGroup)
    return twin


def blocking_jobs(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, list[Job]]],
) -> Callable[Concatenate[Any, P], list[SyncJob]]:
    """Return the blocking twin of a coroutine method that returns jobs."""

    @functools.wraps(method)
    def twin(self: Facade[Any], /, *args: P.args, **kwargs: P.kwargs) -> list[SyncJob]:
        own: Callable[P, Coroutine[Any, Any, list[Job]]] = getattr(self._wrapped, method.__name__)
        return [SyncJob(job, self._bridge) for job in self._bridge.call(functools.partial(own, *args, **kwargs))]

    set_return(twin, list[SyncJob])
    return twin
