"""Where lines come from: the interface between the log engine and the backends."""

from __future__ import annotations

import abc
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from asyncsched._typing import override

if TYPE_CHECKING:
    from asyncsched.logs.line import LogLine
    from asyncsched.specs.state import ReplicaStatus

__all__ = ["LogSource", "QueueSource"]


class LogSource(abc.ABC):
    """Lines of one replica, or of many, in the order in which they are to be delivered.

    A source is pulled: the engine reads it when it has said that there is something, and at the pace at which its
    consumer takes lines. It runs on the loop of the stream that it was added to.

    Attributes:
        role: The role that it reads, for messages; empty if it reads several.
        replica: The replica's number in the role; -1 if it reads several.
    """

    role: str = ""
    replica: int = -1

    @abc.abstractmethod
    def start(self, wake: Callable[[], None]) -> None:
        """Begin, and call `wake` on the loop whenever `read` may have something again, or has ended.

        `wake` is cheap and may be called too often. It is owed only after a `read` that returned fewer lines than
        it was asked for.
        """

    @abc.abstractmethod
    def read(self, limit: int) -> Sequence[LogLine]:
        """Return what is ready, at most `limit` lines, without blocking; raise if no more can be had.

        Lines are built here and not before, so that what nobody reads costs nothing. What is returned must not be
        changed before the next call: it is handed on as it is.
        """

    @property
    @abc.abstractmethod
    def ended(self) -> bool:
        """Whether nothing more will come; looked at after a `read` that returned fewer lines than asked for."""

    @property
    def backlog(self) -> bool:
        """Whether it still delivers what had been written when it was started (`tail_lines` counts in that)."""
        return False

    def observe(self, status: ReplicaStatus) -> None:  # noqa: B027 - most sources need not know
        """Take note of the replica's newest state: a source that waits for it to start, or to restart, may go on."""

    def finish(self) -> None:  # noqa: B027 - a source that ends by itself need not be told
        """Deliver what is there by now, then end: nothing more will be written, or nobody wants it."""

    @abc.abstractmethod
    async def aclose(self) -> None:
        """Release every descriptor, connection and task; idempotent. The engine calls it once the stream is over."""


class QueueSource(LogSource):
    """A source that somebody else puts batches of finished lines into.

    Args:
        room: How many lines it holds at most; `put` refuses more.
    """

    def __init__(self, *, role: str = "", replica: int = -1, room: int = 10_000) -> None:
        self.role = role
        self.replica = replica
        self._room = room
        self._batches: deque[Sequence[LogLine]] = deque()
        self._lines = 0
        self._offset = 0  # lines of the first batch that have been read
        self._ended = False
        self._error: BaseException | None = None
        self._wake: Callable[[], None] | None = None
        self._drained: Callable[[], None] | None = None

    @override
    def start(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        if self._batches or self._ended:
            wake()

    @property
    def held(self) -> int:
        """The number of lines that wait to be read."""
        return self._lines

    @property
    @override
    def ended(self) -> bool:
        return self._ended and self._error is None and not self._lines

    def put(self, batch: Sequence[LogLine]) -> bool:
        """Add lines, which must not be changed any more; returns False and takes nothing when there is no room for all.

        A batch larger than the whole room is taken when the queue is empty: it could never go in otherwise.
        """
        if self._lines and self._lines + len(batch) > self._room:
            return False
        if batch and not self._ended:
            self._batches.append(batch)
            self._lines += len(batch)
            if self._wake is not None:
                self._wake()
        return True

    def on_room(self, callback: Callable[[], None] | None) -> None:
        """Call `callback` whenever no more than half of the room is taken after a read."""
        self._drained = callback

    def end(self, error: BaseException | None = None) -> None:
        """Say that nothing more will be put; with an error, what is held is delivered first."""
        if not self._ended:
            self._ended = True
            self._error = error
            if self._wake is not None:
                self._wake()

    @override
    def read(self, limit: int) -> Sequence[LogLine]:
        lines = self._take(limit)
        self._lines -= len(lines)
        if self._error is not None and not self._lines:
            if not lines:
                raise self._error
            if self._wake is not None:  # to be read once more: it has not ended, it has failed
                self._wake()
        if self._drained is not None and lines and self._lines * 2 <= self._room:
            self._drained()
        return lines

    def _take(self, limit: int) -> Sequence[LogLine]:
        batches = self._batches
        if (
            batches
            and not self._offset
            and len(batches[0]) <= limit
            and (len(batches) == 1 or len(batches[0]) == limit)
        ):
            return batches.popleft()  # the usual case: a whole batch, handed on as it is
        lines: list[LogLine] = []
        while batches and len(lines) < limit:
            batch = batches[0]
            end = min(self._offset + limit - len(lines), len(batch))
            lines += batch[self._offset : end]
            self._offset = end
            if end == len(batch):
                batches.popleft()
                self._offset = 0
        return lines

    @override
    async def aclose(self) -> None:
        self._wake = self._drained = None
        self._batches.clear()
        self._lines = self._offset = 0
        self._ended = True
        self._error = None
