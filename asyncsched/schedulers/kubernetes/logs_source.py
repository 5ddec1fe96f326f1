"""The lines of one replica: the logs of its pods' containers, one run after the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, NamedTuple

from asyncsched._typing import override
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
from asyncsched.schedulers.kubernetes.logs_table import Next, after_end, after_refusal, is_removed
from asyncsched.specs.state import AppState

if TYPE_CHECKING:
    from asyncsched.clock import Clock, TimerHandle
    from asyncsched.logs.query import LogQuery
    from asyncsched.schedulers.kubernetes.client import KubeClient
    from asyncsched.specs.state import ReplicaStatus

__all__ = ["LogRoom", "PodLog"]

BUFFER = 64 * 1024
"""Bytes of a log that may wait for the reader."""

SETTLES_WITHIN = 2.5
"""Seconds after the end of a stream in which the pod's status tells of its container's end: one, mostly."""

CUT_AFTER = 10.0
"""Seconds that a stream may stay open after its container's end: what hangs then is asked for again."""

_WAITS = (AppState.SUBMITTED, AppState.PENDING)
_FIRST_WAIT, _LONGEST_WAIT = 0.25, 8.0


class LogRoom(NamedTuple):
    """What all sources of a scheduler have in common.

    Attributes:
        client: Where the cluster is reached.
        clock: Tells the time of pauses.
        retry_for: Seconds of failures without any progress after which a log fails.
        opening: Limits how many logs are opened at a time.
    """

    client: KubeClient
    clock: Clock
    retry_for: float
    opening: asyncio.Semaphore


class PodLog(ConnectionSource):
    """Reads the log of one replica, over all its runs.

    Kubernetes keeps a log as long as there is the pod, and of a container that was started again only the run before.
    So a run is read as soon as it is there, and to its end before the next one; what nobody has read before it was
    deleted is a gap. A connection is a run's: it is looked at after it was opened whether it is still the same one,
    since a controller replaces a pod by another of its name.

    Args:
        room: What all sources have in common.
        pods: The pods of the app.
        replica: Whose log.
        query: What is asked for; the engine selects exactly, the server roughly.
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
        # Of one that had not begun when it was first looked at every pod is seen from then on, while the watch holds.
        self._waited = query.tail and replica.state in _WAITS and not replica.num_restarts
        self._lists = pods.lists
        self._runs = Runs()
        self._run: Run | None = None  # the one that is being read
        self._reader = LineReader(self.origin)
        self._past = query.tail_lines is not None
        self._cuts_soon = False  # whether the open stream is cut because nothing more is wanted
        self._follows = False  # the present connection
        self._last_look = False
        self._opened = self._ended_once = False  # a connection of the present run
        self._verdict: Next | None = None
        self._waits = 0
        self._settled = self._has_told_missing = self._came = False
        self._timer: TimerHandle | None = None
        self._unwatch: Callable[[], None] = lambda: None

    why_hole = logs_gaps.ROTATED

    # What the engine sees

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
        self._follow = False  # its stream comes to its end by itself
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
        """Return the run that is being read as it is known by now."""
        return None if self._run is None else self._runs.now(self._run)

    def _is_leaving(self, run: Run) -> bool:
        """Tell whether a run is being ended, and what it writes until then is wanted: the app may have ended before."""
        return self._query.tail and self._query.until_ns is None and run.pod.deleted_at is not None

    def _goes_on(self, run: Run) -> bool:
        """Tell whether a run writes more that is wanted."""
        return not run.ended and (self.following or self._is_leaving(run))

    def _keep_open(self, run: Run) -> None:
        """Leave the stream of a run that ends, or has ended, open until its end, unless it hangs."""
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
        if not self._opened:  # what the base asks from may be what was read of the run before
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
        """Make sure that what was opened is the log of this run: the pod, or the container, may be another by now."""
        found = await self._pods.look(run.pod)
        if found is None or (found.uid == run.pod.uid and restarts(found) == restarts(run.pod)):
            return
        await self._look_anew()
        raise UnavailableError(
            f"{run.pod.name} was replaced, or started again, while its log was opened",
            backend=BACKEND,
            operation="log_iter",
        )

    async def _refused(self, run: Run, error: SchedulerError) -> None:
        failure = failure_of(error)
        if (failure is None or failure.code >= 500) and not self._last_look:
            self._ended_once = False  # kubelet was away: what ended cleanly before was not the container's stream
        if failure is None:
            raise error
        if failure.code == 404:
            run = await self._looked(run)
        match after_refusal(failure, run, has_ended=self._ended_once, has_begun=self._opened or has_run(run.pod)):
            case Next.WAIT:
                if self._opened:  # the half of it is there: the rest will be
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
        """Wait until the pod has changed, or for a while: its status comes later than its first lines."""
        delay = min(_FIRST_WAIT * 2.0 ** min(self._waits, 16), _LONGEST_WAIT)
        self._waits += 1
        self._timer = self._clock.call_later(delay, self._told.set)
        self._leave_past()
        raise NotStarted

    # Which run

    async def _to_read(self) -> Run:
        """Return the run to read; raises NotStarted where there is none by now."""
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
            if not self._settled:  # what the reflector tells may be older than the app's end
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
                self._ended_once = False  # it was the kubelet's end, or the connection's
        else:
            self._finish_run(verdict)
        if verdict is not Next.AGAIN or read_past != self._past:
            self._told.set()  # no pause
        return False

    async def _after_end(self, run: Run) -> Next:
        notice = self._reader.take_notice()
        run = self._runs.now(run)
        self._came = self._came and not is_removed(notice, run)  # that is the whole answer
        if self._follows and not notice:
            self._ended_once = True
            deadline = self._clock.monotonic() + SETTLES_WITHIN
            while not run.ended and (left := deadline - self._clock.monotonic()) > 0:
                await self._pause(left)
                run = self._runs.now(run)
        elif self._past and self._goes_on(run) and not notice:
            self._leave_past()  # it goes on: what it writes from now on is followed
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

    # What cannot be read

    def _tell_lost(self, lost: Lost) -> None:
        query = self._query
        wanted = [n for n in range(lost.first, lost.last + 1) if query.attempts is None or n in query.attempts]
        before = lost.before
        too_early = query.since_ns is not None and before is not None and before.timestamp() * 1e9 <= query.since_ns
        if wanted and not too_early:
            self._tell(LogGap(None, before, logs_gaps.why_lost(lost, wanted)), self._make_origin(wanted[0]))

    def _tell_missing(self) -> None:
        """Say that lines are missing where a replica may have run, and no pod of it is left."""
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
