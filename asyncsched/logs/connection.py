"""A log source that reconnects when its connection breaks."""

from __future__ import annotations

import abc
import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import ClassVar

from asyncsched._tasks import outlast
from asyncsched._typing import override
from asyncsched.clock import Clock, TimerHandle, wait_for_event
from asyncsched.errors import SchedulerError
from asyncsched.logs.backoff import Backoff
from asyncsched.logs.line import LogGap, LogLine, LogOrigin, gap_line, utc
from asyncsched.logs.resume import Hole, Resume
from asyncsched.logs.source import LogSource
from asyncsched.specs.state import ReplicaStatus

__all__ = ["ConnectionSource", "NotStarted"]

_log = logging.getLogger("asyncsched.logs")

SLICE = 16_384
"""Bytes to parse at a time, so that other streams on the loop get their turn."""
TURN = 4 * SLICE
"""Bytes to take from a connection that always has more, before other tasks of the loop get their turn."""
LEAST = 1024
"""How many bytes of a turn a chunk counts for at least: taking it costs time, however small it is."""
NOT_SENT_AGAIN = (
    "the service no longer has the last line that was read, nor any lines written after it "
    "(they were rotated or purged)"
)
PROGRESS_AFTER = 0.1
STOOD = 5.0
"""Seconds after which a connection counts as a success, even without lines."""
GRACE = 1.0
"""Seconds to wait for a connection to end by itself once nothing more will be written."""


class NotStarted(Exception):  # noqa: N818 - not an error: there is nothing to connect to yet
    """Raised by `ConnectionSource.connect` while its replica has not started: wait for `observe` or `finish`."""


class ConnectionSource(LogSource):
    """Lines from a connection, which is made again when it breaks; no line is lost or repeated.

    A backend supplies `connect` and `parse`. At most `buffer_bytes` bytes wait here; then the connection is not read,
    which slows down the service. Bytes become lines only when the engine reads. Lines should have `ns`; those without
    are taken for new.

    Args:
        origin: The origin of the lines, for messages and gaps.
        clock: The time source for pauses.
        since_ns: Where to begin; None for the beginning of the log.
        follow: Whether to wait for more lines at the present end of the log.
        retry_for: Seconds of failures without progress after which the source fails.
        buffer_bytes: How many bytes may wait to be read, in addition to one chunk.
        resume: Finds the new lines after a reconnect.
    """

    def __init__(
        self,
        origin: LogOrigin,
        *,
        clock: Clock,
        since_ns: int | None = None,
        follow: bool = False,
        retry_for: float = 60.0,
        buffer_bytes: int = 256 * 1024,
        resume: Resume | None = None,
    ) -> None:
        self.role = origin.role
        self.replica = origin.replica
        self.origin = origin
        self._clock = clock
        self._since_ns = since_ns
        self._follow = follow
        self._buffer_bytes = buffer_bytes
        self._resume = resume if resume is not None else Resume()
        self._wake: Callable[[], None] = lambda: None
        self._chunks: deque[bytes] = deque()
        self._held = 0
        self._lines: deque[LogLine] = deque()  # lines of the last parsed slice that were not read yet
        self._changed = asyncio.Event()  # set when something was read: there may be room, or nothing left
        self._told = asyncio.Event()  # set by observe or finish: ends a pause
        self._ended = False
        self._error: BaseException | None = None
        self._fresh = 0
        self._backoff = Backoff(clock, retry_for=retry_for)
        self._task: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._cut: TimerHandle | None = None
        self._progress_timer: TimerHandle | None = None
        self._progress_due = False

    # What a backend supplies.

    why_hole: ClassVar[str] = NOT_SENT_AGAIN
    """The reason of a gap when the last line that was read is missing from the next connection."""

    @abc.abstractmethod
    def connect(self, since_ns: int | None) -> AsyncGenerator[bytes]:
        """Yield what the service sends, from `since_ns` on.

        Return when the service reports the end. Raise an AsyncSchedError when the connection breaks or cannot be made;
        if it is `retryable`, the source connects again. While `following` is False, request only what exists by now.
        Declare it with ``async def``.
        """

    @abc.abstractmethod
    def parse(self, data: bytes) -> Sequence[LogLine]:
        """Return the lines that are complete with these bytes, the next ones of the connection."""

    def restart(self) -> None:
        """Drop the unfinished line of a connection that has ended; a new one begins with a whole line."""

    def flush(self) -> Sequence[LogLine]:
        """Return the unfinished line at the end of the log."""
        return ()

    @property
    def holding(self) -> bool:
        """Whether `progress` may return lines."""
        return False

    def progress(self) -> Sequence[LogLine]:
        """Return an unfinished line that is progress output; called when it was held for 100 ms."""
        return ()

    async def over(self) -> bool:
        """Return, after a connection ended cleanly, whether the log has ended too."""
        return not self.following

    # What the engine sees.

    @property
    def following(self) -> bool:
        """Whether lines that are not written yet are wanted."""
        return self._follow

    @override
    def start(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        name = f"log of {self.origin.role}/{self.origin.replica}"
        self._task = asyncio.get_running_loop().create_task(self._pump(), name=name)

    @override
    def read(self, limit: int) -> Sequence[LogLine]:
        lines = self._lines
        while len(lines) < limit and self._chunks:
            self._parse_slice()
        if self._progress_due and not lines and not self._chunks:
            self._progress_due = False
            lines.extend(self._new(self.progress()))
        if len(lines) > limit:
            taken = [lines.popleft() for _ in range(limit)]
        else:
            taken = [*lines]
            lines.clear()
        if len(taken) < limit:
            self._watch_progress()
        self._changed.set()
        if self._error is not None and not taken:
            raise self._error
        return taken

    @property
    @override
    def ended(self) -> bool:
        return self._ended and self._error is None and self._drained

    @override
    def observe(self, status: ReplicaStatus) -> None:
        self._told.set()

    @override
    def finish(self) -> None:
        if self._follow:
            self._follow = False
            self._told.set()
            self._cut_later()

    @override
    async def aclose(self) -> None:
        self._stop_timers()
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await outlast([self._task], 10.0)
        self._chunks.clear()
        self._lines.clear()
        self._held = 0
        self._ended = True

    # Bytes come in: the source's own task.

    async def _pump(self) -> None:
        try:
            while not await self._one_connection():
                pass
        except Exception as error:  # noqa: BLE001 - the stream's reader gets any error of a backend
            await self._until(lambda: self._drained)
            self._error = error
        self._stop_timers()
        self._ended = True
        self._wake()

    async def _one_connection(self) -> bool:
        """Read one connection to its end; return whether the log has ended too."""
        since = self._resume.reconnect()  # everything is parsed by now, so it knows every line
        self.restart()
        began, fresh = self._clock.monotonic(), self._fresh
        failure: SchedulerError | None = None
        whole = False
        try:
            whole = await self._read_in_child(self._since_ns if since is None else since)
        except NotStarted:
            if not self.following:
                return True
            await self._pause(None)
            return False
        except SchedulerError as error:
            failure = error
        await self._until(lambda: self._drained)
        if fresh != self._fresh or self._clock.monotonic() - began >= STOOD:
            self._backoff.worked()
        if failure is not None:
            pause = self._backoff.failed(failure)
            _log.info("the log of %s/%s broke off, connecting again: %s", self.role, self.replica, failure)
            await self._pause(pause)
        elif whole and await self.over():
            self._finish_lines()
            return True
        elif whole:
            await self._pause(self._backoff.pause())
        return False

    async def _read_in_child(self, since_ns: int | None) -> bool:
        """Read one connection; return False if it was closed because nothing more was wanted."""
        # In a separate task, so that `finish` can end a connection that stays open, and nothing else.
        reading = asyncio.get_running_loop().create_task(self._read_connection(since_ns))
        self._reading = reading
        try:
            await asyncio.wait([reading])
        finally:
            self._reading = None
            if not reading.done():
                reading.cancel()
                await outlast([reading], 10.0)
            elif not reading.cancelled():
                reading.exception()  # who is cancelled in the step in which it failed does not ask for it
        if reading.cancelled():
            return False
        reading.result()
        return True

    async def _read_connection(self, since_ns: int | None) -> None:
        turn = 0  # bytes since the other tasks of the loop had theirs
        async with aclosing(self.connect(since_ns)) as chunks:
            async for chunk in chunks:
                if not chunk:
                    continue
                self._chunks.extend(chunk[at : at + SLICE] for at in range(0, len(chunk), SLICE))
                self._held += len(chunk)
                self._wake()
                if self._held >= self._buffer_bytes:
                    await self._until(lambda: self._held * 2 <= self._buffer_bytes)
                # A fast service must not hold the loop. The loop budget is not used here: each step is short, and
                # expensive ones would queue behind hundreds of connections.
                turn += max(len(chunk), LEAST)
                if turn >= TURN:
                    turn = 0
                    await asyncio.sleep(0)

    async def _pause(self, seconds: float | None) -> None:
        """Wait `seconds`, or until `observe` or `finish` is called; None waits for those only."""
        try:
            await wait_for_event(self._told, self._clock, seconds)
        finally:
            self._told.clear()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    @property
    def _drained(self) -> bool:
        return not self._chunks and not self._lines

    def _cut_later(self) -> None:
        reading = self._reading  # only this one, not a later one
        if reading is not None:
            self._cut = self._clock.call_later(GRACE, lambda: _cancel(reading))

    # Bytes become lines: the engine's step.

    def _parse_slice(self) -> None:
        chunk = self._chunks.popleft()
        self._held -= len(chunk)
        self._progress_due = False
        if lines := self.parse(chunk):
            self._forget_progress()  # the held line began after them
        self._lines.extend(self._new(lines))

    def _new(self, lines: Sequence[LogLine]) -> Sequence[LogLine]:
        """Return the lines that were not seen before, with a gap where lines are missing."""
        resume = self._resume
        if not resume.replaying:
            _note_new(resume, lines)
            self._fresh += len(lines)
            return lines
        fresh: list[LogLine] = []
        for line in lines:
            ns = line.ns
            if ns is None or resume.note(ns, line.source.stream.value, line):
                if (hole := resume.take_hole()) is not None:
                    fresh.append(self._gap(hole, line.source))
                fresh.append(line)
        self._fresh += len(fresh)
        return fresh

    def _finish_lines(self) -> None:
        self._lines.extend(self._new(self.flush()))
        self._resume.end_replay()
        if (hole := self._resume.take_hole()) is not None:
            self._lines.append(self._gap(hole, self.origin))

    def _gap(self, hole: Hole, source: LogOrigin) -> LogLine:
        before = None if hole.before is None else utc(hole.before)
        return gap_line(LogGap(utc(hole.after), before, self.why_hole), source, hole.after)

    def _watch_progress(self) -> None:
        if not self.holding or self._ended:
            self._forget_progress()
        elif (
            self._progress_timer is None
        ):  # counted from the first byte, not the last, so that a busy progress bar is shown too
            self._progress_timer = self._clock.call_later(PROGRESS_AFTER, self._hand_on_progress)

    def _forget_progress(self) -> None:
        if self._progress_timer is not None:
            self._progress_timer.cancel()
            self._progress_timer = None

    def _hand_on_progress(self) -> None:
        self._progress_timer = None
        self._progress_due = True
        self._wake()

    def _stop_timers(self) -> None:
        self._forget_progress()
        if self._cut is not None:
            self._cut.cancel()
            self._cut = None


def _note_new(resume: Resume, lines: Sequence[LogLine]) -> None:
    """Record new lines; it runs for every line of a log, so it handles them together."""
    stamps = [ns for line in lines if (ns := line.ns) is not None]
    if len(stamps) < len(lines):
        lines = [line for line in lines if line.ns is not None]
    if stamps:
        sources = [line.source for line in lines]
        # `_value_` skips the enum's property, which would cost as much as everything else here.
        if sources.count(sources[0]) == len(sources):
            streams = [sources[0].stream._value_] * len(sources)
        else:
            streams = [source.stream._value_ for source in sources]
        resume.note_new(stamps, streams, lines)


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
