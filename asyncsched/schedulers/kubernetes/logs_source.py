"""Read the lines of one replica: the logs of its pods' containers, run by run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from asyncsched._typing import NamedTuple, override
from asyncsched.errors import SchedulerError, UnavailableError
from asyncsched.logs.connection import ConnectionSource, NotStarted
from asyncsched.logs.line import LogGap, LogLine, LogOrigin, gap_line, utc
from asyncsched.schedulers.kubernetes import logs_gaps
from asyncsched.schedulers.kubernetes.errors import BACKEND, failure_of
from asyncsched.schedulers.kubernetes.logs_lines import JOINED_FROM, LineReader
from asyncsched.schedulers.kubernetes.logs_pods import AppPods, ReplicaKey
from asyncsched.schedulers.kubernetes.logs_resume import PodResume
from asyncsched.schedulers.kubernetes.logs_runs import Lost, Run, Runs, has_run, restarts
from asyncsched.schedulers.kubernetes.logs_streams import is_wanted, parameters
from asyncsched.schedulers.kubernetes.logs_table import Next, after_end, after_refusal, is_removed, is_unknown
from asyncsched.specs.state import AppState

if TYPE_CHECKING:
    from asyncsched.clock import Clock, TimerHandle
    from asyncsched.logs.query import LogQuery
    from asyncsched.schedulers.kubernetes.client import KubeClient
    from asyncsched.specs.state import ReplicaStatus

__all__ = ["LogRoom", "PodLog"]

BUFFER = 64 * 1024
"""Most bytes of a log that are buffered for the reader."""

SETTLES_WITHIN = 2.5
"""Seconds to wait, after a stream ends, for the pod's status to show the container's end; mostly one is enough."""

CUT_AFTER = 10.0
"""Seconds that a stream may stay open after its container's end; then it counts as hung and is requested again."""

_WAITS = (AppState.SUBMITTED, AppState.PENDING)
_FIRST_WAIT, _LONGEST_WAIT = 0.25, 8.0


class LogRoom(NamedTuple):
    """What all sources of a scheduler share.

    Attributes:
        client: The client of the cluster.
        clock: The time source for pauses.
        retry_for: Seconds of failures without progress after which a log fails.
        opening: Limits how many logs are opened at the same time.
    """

    client: KubeClient
    clock: Clock
    retry_for: float
    opening: asyncio.Semaphore


class PodLog(ConnectionSource):
    """Reads the log of one replica, across all its runs.

    Kubernetes keeps a log as long as its pod exists, and for a restarted container only the previous run. So each run
    is read as soon as it exists, and to its end before the next one; a log that was deleted unread is a gap. Each
    connection belongs to one run. Once it is open, the run is checked again, because a controller may have replaced
    the pod by another of the same name.

    Args:
        room: What all sources share.
        pods: The pods of the app.
        replica: The replica to read.
        query: The query; the server selects roughly, the engine exactly.
    """

    def __init__(self, room: LogRoom, pods: AppPods, replica: ReplicaStatus, query: LogQuery) -> None:
        self._place: ReplicaKey = (replica.role, replica.id)
        self._make_origin: Callable[[int | None], LogOrigin] = lambda attempt: LogOrigin(
            query.app_id, replica.role, replica.id, query.streams, attempt
        )
        super().__init__(
            self._make_origin(0),
            clock=room.clock,
            since_ns=query.since_ns,
            follow=query.tail,
            retry_for=room.retry_for,
            buffer_bytes=BUFFER,
            resume=PodResume(),
        )
        self._room, self._pods, self._query = room, pods, query
        self._status = replica
        # If the replica had not started at first, every pod of it is seen from then on, while the watch holds.
        self._waited = query.tail and replica.state in _WAITS and not replica.num_restarts
        self._lists = pods.lists
        self._runs = Runs()
        self._run: Run | None = None  # the run being read
        self._reader = LineReader(self.origin)
        self._past = query.tail_lines is not None
        self._cuts_soon = False  # whether the open stream is cut because no more is wanted
        self._follows = False  # whether the current connection follows
        self._last_look = False
        self._opened = self._ended_once = False  # whether a connection of the current run did
        self._verdict: Next | None = None
        self._waits = 0
        self._settled = self._has_told_missing = self._came = False
        self._timer: TimerHandle | None = None
        self._unwatch: Callable[[], None] = lambda: None

    why_hole = logs_gaps.ROTATED

    # For the engine

    @property
    @override
    def backlog(self) -> bool:
        return self._past

    @override
    def start(self, wake: Callable[[], None]) -> None:
        self._unwatch = self._pods.watch(self._place, self._look_at_pods)
        self._runs.update(self._pods.of(self._place))
        super().start(wake)

    @override
    def observe(self, status: ReplicaStatus) -> None:
        self._status = status
        super().observe(status)

    @override
    def finish(self) -> None:
        run = self._now()
        if run is None or not (run.ended or self._is_leaving(run)):
            self._cuts_soon = True
            super().finish()
            return
        self._follow = False  # its stream ends by itself
        self._told.set()
        self._keep_open(run)

    @override
    async def aclose(self) -> None:
        self._unwatch()
        if self._timer is not None:
            self._timer.cancel()
        await super().aclose()

    def _look_at_pods(self) -> None:
        self._runs.update(self._pods.of(self._place))
        self._told.set()
        run = self._now()
        if run is not None and self._follows and (run.ended or self._is_leaving(run)):
            self._keep_open(run)

    def _now(self) -> Run | None:
        """Return the current state of the run being read."""
        return None if self._run is None else self._runs.now(self._run)

    def _is_leaving(self, run: Run) -> bool:
        """Return whether a run is terminating and its last lines are wanted; the app may have ended before."""
        return self._query.tail and self._query.until_ns is None and run.pod.deleted_at is not None

    def _goes_on(self, run: Run) -> bool:
        """Return whether a run will write more lines that are wanted."""
        return not run.ended and (self.following or self._is_leaving(run))

    def _keep_open(self, run: Run) -> None:
        """Keep the stream of an ending or ended run open until it ends, unless it hangs."""
        if self._cuts_soon and self._cut is not None:
            self._cut.cancel()
            self._cut = None
        self._cuts_soon = False
        if run.ended:
            self._cut_open_stream()

    def _cut_open_stream(self) -> None:
        reading = self._reading
        if reading is not None and self._cut is None:

            def cut() -> None:
                self._cut = None
                reading.cancel()

            self._cut = self._clock.call_later(CUT_AFTER, cut)

    # A connection

    @override
    async def connect(self, since_ns: int | None) -> AsyncGenerator[bytes]:
        self._came = False
        run = await self._to_read()
        if not self._opened:  # the base's `since_ns` may stem from the previous run
            since_ns = self._since_ns
        joins = await self._room.client.discovery.version() < JOINED_FROM
        self._reader = LineReader(self.origin, joins=joins)
        self._verdict = None
        self._last_look = self._last_look or run.ended
        self._follows = self._goes_on(run) and not self._last_look and not self._past
        asked = parameters(run, self._query, since_ns, follow=self._follows, tail=self._past and not self._opened)
        try:
            async with AsyncExitStack() as stack:
                async with self._room.opening:
                    path = f"{self._pods.path(run.pod)}/log"
                    stream = await stack.enter_async_context(self._room.client.stream(path, asked))
                    if stream.status == 204:
                        self._wait()
                    await self._check(run)
                self._opened, self._waits = True, 0
                while chunk := await stream.read_chunk():
                    self._came = True
                    yield chunk
        except SchedulerError as error:
            await self._refused(run, error)

    async def _check(self, run: Run) -> None:
        """Check that the opened log is of this run: the pod may have been replaced or the container restarted."""
        found = await self._pods.look(run.pod)
        if found is None or (found.uid == run.pod.uid and restarts(found) == restarts(run.pod)):
            return
        await self._look_anew()
        raise UnavailableError(
            f"{run.pod.name} was replaced or restarted while its log was opened",
            backend=BACKEND,
            operation="log_iter",
        )

    async def _refused(self, run: Run, error: SchedulerError) -> None:
        failure = failure_of(error)
        if (failure is None or failure.code >= 500) and not self._last_look:
            self._ended_once = False  # kubelet was down: the earlier clean end was kubelet's, not the container's
        if failure is None:
            raise error
        if is_unknown(failure):
            run = await self._looked(run)
        match after_refusal(failure, run, has_ended=self._ended_once, has_begun=self._opened or has_run(run.pod)):
            case Next.WAIT:
                if self._opened:  # part of the log was read, so the rest will come
                    raise logs_gaps.once_more(error)
                self._wait()
            case Next.OVER | Next.LOST as verdict:
                self._verdict = verdict
            case _:
                raise error

    async def _looked(self, run: Run) -> Run:
        found = await self._pods.look(run.pod)
        if found is None or found.uid != run.pod.uid:
            return Run(run.pod, run.number, run.attempt, gone=True)
        return Run(found, run.number, run.attempt)

    async def _look_anew(self) -> None:
        if not self._follow:
            await self._pods.list_again()
            self._runs.update(self._pods.of(self._place))

    def _wait(self) -> None:
        """Wait until the pod changes, or for a while: its status arrives after its first lines."""
        delay = min(_FIRST_WAIT * 2.0 ** min(self._waits, 16), _LONGEST_WAIT)
        self._waits += 1
        self._timer = self._clock.call_later(delay, self._told.set)
        self._leave_past()
        raise NotStarted

    # Which run

    async def _to_read(self) -> Run:
        """Return the run to read; raise NotStarted if there is none yet."""
        while True:
            if self._run is not None:
                run = self._run = self._runs.now(self._run)
                if not run.gone:
                    return run
                is_whole = self._ended_once or not (self._opened or has_run(run.pod))
                self._finish_run(Next.OVER if is_whole else Next.LOST)
                continue
            found = self._runs.next()
            if isinstance(found, Run):
                self._begin(found)
            elif found is not None:
                self._tell_lost(found)
            else:
                await self._nothing_to_read()

    async def _nothing_to_read(self) -> None:
        if not self.following:
            if not self._settled:  # the reflector may lag behind the app's end
                self._settled = True
                await self._pods.list_again()
                self._runs.update(self._pods.of(self._place))
                return
            self._tell_missing()
        self._leave_past()
        raise NotStarted

    def _begin(self, run: Run) -> None:
        if not is_wanted(run, self._query):
            self._runs.done(run)
            return
        self._run = run
        self._resume = PodResume()
        self.origin = self._make_origin(run.attempt)
        self._opened = self._ended_once = self._last_look = False

    # Bytes and ends

    @override
    def parse(self, data: bytes) -> Sequence[LogLine]:
        return self._reader.feed(data)

    @override
    def flush(self) -> Sequence[LogLine]:
        return self._reader.flush()

    @override
    async def over(self) -> bool:
        run = self._run
        if run is None:
            return False
        read_past = self._past
        verdict = self._verdict if self._verdict is not None else await self._after_end(run)
        self._told.clear()
        if verdict is Next.ONCE_MORE:
            self._last_look = True
        elif verdict is Next.AGAIN:
            if not self._last_look and self._runs.now(run).pod.deleted_at is None:
                self._ended_once = False  # the kubelet or the connection ended it
        else:
            self._finish_run(verdict)
        if verdict is not Next.AGAIN or read_past != self._past:
            self._told.set()  # no pause
        return False

    async def _after_end(self, run: Run) -> Next:
        notice = self._reader.take_notice()
        run = self._runs.now(run)
        self._came = self._came and not is_removed(notice, run)  # a removal is the whole answer
        if self._follows and not notice:
            self._ended_once = True
            deadline = self._clock.monotonic() + SETTLES_WITHIN
            while not run.ended and (left := deadline - self._clock.monotonic()) > 0:
                await self._pause(left)
                run = self._runs.now(run)
        elif self._past and self._goes_on(run) and not notice:
            self._leave_past()  # follow the lines that it writes from now on
            return Next.AGAIN
        return after_end(run, notice, follows=self._follows, is_last_look=self._last_look, has_ended=self._ended_once)

    def _finish_run(self, verdict: Next) -> None:
        run, self._run = self._run, None
        assert run is not None
        resume = self._resume
        assert isinstance(resume, PodResume)
        if verdict is Next.LOST or (self._ended_once and not self._came):
            resume.give_up()
        self._finish_lines()
        if verdict is Next.LOST:
            after = resume.last_ns
            self._tell(
                LogGap(None if after is None else utc(after), None, logs_gaps.why_broken(run, begun=after is not None)),
                self.origin,
                after,
            )
        self._runs.done(run)
        self._settled = False
        self._wake()

    # Gaps

    def _tell_lost(self, lost: Lost) -> None:
        query = self._query
        wanted = [n for n in range(lost.first, lost.last + 1) if query.attempts is None or n in query.attempts]
        before = lost.before
        too_early = query.since_ns is not None and before is not None and before.timestamp() * 1e9 <= query.since_ns
        if wanted and not too_early:
            self._tell(LogGap(None, before, logs_gaps.why_lost(lost, wanted)), self._make_origin(wanted[0]))

    def _tell_missing(self) -> None:
        """Report a gap if the replica may have run but none of its pods is left."""
        status = self._status
        if self._runs.seen or self._has_told_missing or not status.state.is_terminal():
            return
        self._has_told_missing = True
        was_watched = self._waited and status.state is AppState.CANCELLED and self._lists == self._pods.lists
        if status.cause not in logs_gaps.NEVER_BEGUN and not was_watched:
            self._tell(LogGap(reason=logs_gaps.why_missing(status)), self._make_origin(None))

    def _tell(self, gap: LogGap, origin: LogOrigin, ns: int | None = None) -> None:
        self._lines.append(gap_line(gap, origin, ns))
        self._wake()

    def _leave_past(self) -> None:
        if self._past:
            self._past = False
            self._wake()
