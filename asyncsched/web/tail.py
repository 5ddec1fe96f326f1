"""The merged log of some apps, read once for all pages that show it; it keeps the latest lines within bounds."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import islice

from asyncsched._streams import Waiter
from asyncsched._typing import NamedTuple
from asyncsched.errors import AsyncSchedError
from asyncsched.logs.loop_time import budget_of
from asyncsched.logs.stream import LogStream
from asyncsched.specs.to_plain import JsonValue
from asyncsched.web.wire import encoded, line_of, note_of, safe

__all__ = ["Tail", "TailLines", "TailReader"]

KEPT = 8 << 20
"""Bytes of lines that are kept for pages that come back."""
PIECES = 16
"""Full pieces of a log that are kept, for the other pages that get to the same position."""
AHEAD = 1 << 20
"""Bytes to read ahead of the slowest page; the rest of the kept bytes is for pages whose connection broke."""


class TailLines(NamedTuple):
    """Some lines of a log.

    Attributes:
        lines: The lines, as encoded JSON with commas between them.
        size: How many they are.
        number: The number of the last of them in the log, counted from 1.
        missed: How many lines before them are no longer kept.
    """

    lines: bytes
    size: int
    number: int
    missed: int


class TailReader:
    """One page's position in a log.

    Attributes:
        number: How many lines the page has.
    """

    def __init__(self, number: int) -> None:
        self.number = number


class Tail:
    """Reads a log while pages read it, at the pace of the slowest page that is not disconnected.

    Args:
        name: A name that no other log has.
        lines: The log.
        changed: Called when there are more lines.
        kept: Bytes of lines to keep.
        ahead: Bytes to read ahead of the slowest page.
    """

    def __init__(
        self, name: str, lines: LogStream, changed: Callable[[], None], *, kept: int = KEPT, ahead: int = AHEAD
    ) -> None:
        self.name = name
        self.ended = False
        self.readers: set[TailReader] = set()
        self._stream = lines
        self._changed = changed
        self._kept = kept
        self._ahead = ahead
        self._lines: deque[bytes] = deque()
        self._first = 0  # the number of the first kept line
        self._bytes = 0
        self._read_bytes = 0  # of all lines so far
        self._pieces: dict[int, TailLines] = {}
        self._left_at = 0  # the position of the last page that has left
        self._slowest = 0
        self._ends: deque[int] = deque()  # `_read_bytes` after each kept line
        self._room = Waiter()

    @property
    def number(self) -> int:
        """How many lines have been read."""
        return self._first + len(self._lines)

    @property
    def bytes(self) -> int:
        """How many bytes of lines are kept."""
        return self._bytes

    def has(self, number: int) -> bool:
        """Return whether a page can have read this many lines."""
        return 0 <= number <= self.number

    def join(self, number: int) -> TailReader:
        """Add a page that reads from a position."""
        reader = TailReader(number)
        self.readers.add(reader)
        self.advanced()
        return reader

    def leave(self, reader: TailReader) -> None:
        """Remove a page; the log is read no further than the page can resume."""
        self.readers.discard(reader)
        self._left_at = reader.number
        self.advanced()

    def after(self, number: int, most: int) -> TailLines:
        """Return the lines after a position: at most `most` bytes of them, but at least one line if there is one."""
        piece = self._pieces.get(number)
        if piece is not None:
            return piece
        missed = max(self._first - number, 0)
        start = number + missed - self._first
        found: list[bytes] = []
        size = 0
        for line in islice(self._lines, start, None):
            if found and size + len(line) > most:
                break
            found.append(line)
            size += len(line)
        piece = TailLines(b",".join(found), len(found), number + missed + len(found), missed)
        if piece.number < self.number and not missed:  # it is full: whoever asks next gets the same
            self._pieces[number] = piece
            if len(self._pieces) > PIECES:
                del self._pieces[next(iter(self._pieces))]
        return piece

    def advanced(self) -> None:
        """Continue, because a reader has advanced."""
        self._slowest = min((reader.number for reader in self.readers), default=self._left_at)
        self._room.wake()

    async def read(self) -> None:
        """Read the log to its end; an error becomes its last line."""
        budget = budget_of(asyncio.get_running_loop())
        try:
            async with self._stream as lines:
                async for line in lines:
                    budget.begin()
                    self._add(line_of(line))
                    await budget.breathe()
                    while self._unread() > self._ahead:
                        await self._room.wait()
        except AsyncSchedError as error:
            self._add(note_of(safe(str(error))))
        finally:
            self.ended = True
            self._changed()

    async def close(self) -> None:
        """Close the log: the task that reads it does not, if it is cancelled before its first step."""
        await self._stream.aclose()

    def _add(self, line: dict[str, JsonValue]) -> None:
        data = encoded(line)
        self._lines.append(data)
        self._bytes += len(data)
        self._read_bytes += len(data)
        self._ends.append(self._read_bytes)
        while self._bytes > self._kept and len(self._lines) > 1:
            self._bytes -= len(self._lines.popleft())
            self._ends.popleft()
            self._first += 1
        self._changed()

    def _unread(self) -> int:
        """Return how many bytes the slowest page has not read."""
        if self._slowest >= self.number:
            return 0
        index = self._slowest - self._first
        return self._read_bytes - (self._ends[index - 1] if index > 0 else self._read_bytes - self._bytes)
