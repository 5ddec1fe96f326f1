"""Log sources: the interface between the log engine and the backends."""

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
    """Lines of one or several replicas, in the order of delivery.

    The engine pulls lines: it reads a source after the source called `wake`, at the pace of the consumer. A source
    runs on the loop of its stream.

    Attributes:
        role: The role that it reads, for messages; empty if it reads several.
        replica: The replica's number in the role; -1 if it reads several.
    """

    role: str = ""
    replica: int = -1

    @abc.abstractmethod
    def start(self, wake: Callable[[], None]) -> None:
        """Begin, and call `wake` on the loop whenever `read` may return something again, or the source has ended.

        `wake` is cheap and may be called too often. It is required only after a `read` that returned fewer lines than
        `limit`.
        """

    @abc.abstractmethod
    def read(self, limit: int) -> Sequence[LogLine]:
        """Return at most `limit` ready lines, without blocking; raise if the source has failed.

        Build lines here, not earlier, so that unread lines cost nothing. Do not change the returned sequence before the
        next call: it is passed on without a copy.
        """

    @property
    @abc.abstractmethod
    def ended(self) -> bool:
        """Whether no more lines will come; checked after a `read` that returned fewer lines than `limit`."""

    @property
    def backlog(self) -> bool:
        """Whether it still delivers lines from before its start (the lines that `tail_lines` applies to)."""
        return False

    def observe(self, status: ReplicaStatus) -> None:  # noqa: B027 - most sources need not know
        """Receive the replica's newest state; a source that waits for a start or restart may continue."""

    def finish(self) -> None:  # noqa: B027 - a source that ends by itself need not be told
        """Deliver the lines that exist by now, then end: no more will be written, or none are wanted."""

    @abc.abstractmethod
    async def aclose(self) -> None:
        """Release every descriptor, connection and task; idempotent. The engine calls it at the stream's end."""


class QueueSource(LogSource):
    """A source into which other code puts batches of lines.

    Args:
        room: Most lines to hold; `put` refuses more.
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
        """The number of waiting lines."""
        return self._lines

    @property
    @override
    def ended(self) -> bool:
        return self._ended and self._error is None and not self._lines

    def put(self, batch: Sequence[LogLine]) -> bool:
        """Add lines, which must not change afterwards; return False, adding none, if there is no room for all.

        An empty queue takes a batch larger than its room, because it would never fit otherwise.
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
        """Call `callback` after each read that leaves the queue at most half full."""
        self._drained = callback

    def end(self, error: BaseException | None = None) -> None:
        """End the source; the held lines are delivered first, then `error` is raised, if given."""
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
            if self._wake is not None:  # to be read once more, which raises its error
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
            return batches.popleft()  # the usual case: a whole batch, without a copy
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
