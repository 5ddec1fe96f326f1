"""Find where the last lines of a log begin, without reading all of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from asyncsched._typing import NamedTuple
from asyncsched.schedulers.local.logs_files import LogFiles, Position
from asyncsched.schedulers.local.supervisor.formats import LINE_START, RECORD

__all__ = ["find_last"]

RECORDS = 256
MOST = 4 << 20
"""Most bytes to search, which takes a few milliseconds; each record of the index counts as `LOOK` bytes."""

LOOK = 4096


class _Chunk(NamedTuple):
    place: Position
    kind: int
    offset: int
    length: int
    at_line_start: bool


def find_last(files: LogFiles, kinds: Collection[int], lines: int) -> Position | None:
    """Return a place from which the last `lines` lines of these streams together can be read whole.

    An unfinished line of each stream can be read whole too. None if the place is the log's beginning, or so far back
    that searching from the beginning is better.
    """
    # Before the end is read, so that output written in between is seen as a chunk.
    unseen = {kind: _ends_whole(files, kind) for kind in kinds}
    first_end: dict[int, int] = {}  # by stream: how many seen lines end after its first seen end
    starts: dict[int, bool] = {}  # by stream: whether its first seen chunk begins with a line
    total, cost = 0, 0
    for chunk in _backwards(files):
        whole = all(starts[kind] or first_end.get(kind, 0) > lines for kind in starts)
        if total >= lines and whole and all(unseen.values()):
            return chunk.place  # one chunk too early, which is harmless
        cost += LOOK
        if chunk.kind in kinds:
            cost += chunk.length
            ends = _ends(files, chunk)
            total += ends
            if ends:
                first_end[chunk.kind] = total
            starts[chunk.kind] = chunk.at_line_start
            unseen[chunk.kind] = True
        if cost > MOST:
            return None
    return None


def _ends(files: LogFiles, chunk: _Chunk) -> int:
    """Return how many lines end in a chunk; 0 if its file is gone."""
    try:
        return files.output(chunk.kind, chunk.length, chunk.offset).count(b"\n")
    except FileNotFoundError:
        return 0


def _backwards(files: LogFiles) -> Iterator[_Chunk]:
    """Yield the chunks of a log, the last one first."""
    for segment in reversed(files.segments()):
        files.go_to(segment)
        end = files.size()
        while end:
            start = max(end - RECORDS * RECORD.size, 0)
            block = files.records(start, (end - start) // RECORD.size)
            for at in range(len(block) - RECORD.size, -1, -RECORD.size):
                _, offset, length, kind, flags, _ = RECORD.unpack_from(block, at)
                yield _Chunk(Position(segment, start + at), kind, offset, length, bool(flags & LINE_START))
            end = start


def _ends_whole(files: LogFiles, kind: int) -> bool:
    """Return whether the last line of a stream is finished."""
    for segment in reversed(files.segments()):
        files.go_to(segment)
        try:
            last = files.last_byte(kind)
        except FileNotFoundError:  # the stream has no file
            continue
        if last:
            return last == b"\n"
    return True
