"""Follow plain files that another process writes: each line once, whole and in order.

A file may be on a network file system, which can be slow and gives no notices of changes. So files are read in threads,
and a file without notices from inotify is polled.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import CapacityLimiter, to_thread

from asyncsched._platform import WANTS
from asyncsched._tasks import finished_in_thread, outlast
from asyncsched._typing import override
from asyncsched.clock import Clock, TimerHandle
from asyncsched.errors import LogStreamError
from asyncsched.logs.file_reader import Cut, FileReader, Item, PastEnd
from asyncsched.logs.inotify import FileWatch, Follower, follower_of
from asyncsched.logs.line import LogGap, LogLine, LogOrigin, gap_line, label
from asyncsched.logs.source import LogSource
from asyncsched.logs.split import LineSplitter

if TYPE_CHECKING:
    from asyncsched.specs.state import ReplicaStatus

__all__ = ["FileSource"]

PROGRESS_AFTER = 0.1
THREADS = 8
"""Most files to read at the same time on one loop."""
FIRST_LOOK, LONGEST_LOOK = 0.25, 5.0
"""Seconds between two checks of a file with notices, in case one is missed."""
SHORTEST_LOOK, LONGEST_SILENT = 0.02, 1.0
"""Seconds between two checks of a file that grows without notices, as on a network file system."""

# One entry per living loop, dropped with the loop.
_limiters: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, CapacityLimiter] = weakref.WeakKeyDictionary()


async def _in_file_thread(read: Callable[[], list[Item]]) -> list[Item]:
    """Read in one of a few dedicated threads, so that a hanging network file system blocks no other threads."""
    loop = asyncio.get_running_loop()
    limiter = _limiters.get(loop)
    if limiter is None:
        limiter = _limiters[loop] = CapacityLimiter(THREADS)
    return await to_thread.run_sync(read, limiter=limiter)


class FileSource(LogSource):
    """Reads a file to its end, and follows it while it grows, until `finish`.

    It waits for a file that does not exist yet. If the file is replaced, it reads the old one to its end and then the
    new one; if it is truncated, a gap says so.

    Args:
        path: The file.
        origin: The origin of the lines.
        follow: Whether lines that are not written yet are wanted.
        tail_lines: The number of last lines to begin with; all by default.
        stamp: Splits a line's time, if any, from its text: returns nanoseconds, and the text without the time.
        buffer_bytes: How many bytes to read ahead of a slow consumer.
        clock: The time source for pauses.
        follower: Watches growing files; the loop's follower by default.
    """

    def __init__(
        self,
        path: str | Path,
        origin: LogOrigin,
        *,
        follow: bool = False,
        tail_lines: int | None = None,
        stamp: Callable[[str], tuple[int | None, str]] | None = None,
        buffer_bytes: int = 256 << 10,
        clock: Clock | None = None,
        follower: Follower | None = None,
    ) -> None:
        self.role = origin.role
        self.replica = origin.replica
        self._origin = origin
        self._follow = follow
        self._stamp = stamp
        self._buffer_bytes = max(buffer_bytes, 1)
        self._clock = clock if clock is not None else Clock()
        self._follower = follower
        self._file = FileReader(path, tail_lines)
        self._splitter = LineSplitter()
        self._items: deque[Item] = deque()
        self._held = 0
        self._lines: deque[LogLine] = deque()  # lines of the last item that were not read yet
        self._in_past = True
        self._read_all = False
        self._error: LogStreamError | None = None
        self._wake: Callable[[], None] = lambda: None
        self._room = asyncio.Event()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._progress: TimerHandle | None = None
        self._pause = FIRST_LOOK
        self._is_silent = False  # no notices come when it grows
        self._looked = False  # the last wait ended by its timeout
        self._watch: tuple[int, FileWatch] | None = None

    # What the engine sees.

    @override
    def start(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._task = asyncio.get_running_loop().create_task(
            self._pump(), name=f"log file of {self.role}/{self.replica}"
        )

    @override
    def read(self, limit: int) -> Sequence[LogLine]:
        lines = self._lines
        while len(lines) < limit and self._items:
            item = self._items.popleft()
            if isinstance(item, PastEnd):
                self._in_past = False
                if lines:
                    self._wake()  # lines of the past are returned separately from later ones
                    break
            else:
                self._take(item)
        self._room.set()
        taken = [lines.popleft() for _ in range(min(limit, len(lines)))]
        if self._error is not None and not (lines or self._items):
            if not taken:
                raise self._error
            self._wake()  # to be read once more, which raises its error
        if len(taken) < limit:
            self._watch_progress()
        return taken

    @property
    @override
    def ended(self) -> bool:
        return self._read_all and self._error is None and not self._items and not self._lines

    @property
    @override
    def backlog(self) -> bool:
        return self._in_past

    @override
    def observe(self, status: ReplicaStatus) -> None:
        self._changed.set()

    @override
    def finish(self) -> None:
        self._follow = False
        self._changed.set()

    @override
    async def aclose(self) -> None:
        self._wake = lambda: None
        self._forget_progress()
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await outlast([self._task], 10.0)
        self._items.clear()
        self._lines.clear()
        self._held = 0
        self._read_all = True

    # Bytes become lines: the engine's step.

    def _take(self, item: bytes | Cut) -> None:
        if isinstance(item, bytes):
            self._held -= len(item)
            texts = self._splitter.feed(item)
            if texts:
                self._forget_progress()  # the held line began after them
            self._add(texts)
            return
        self._add(self._splitter.flush())
        if item.why:
            self._lines.append(gap_line(LogGap(reason=item.why), self._origin))

    def _add(self, texts: Sequence[str]) -> None:
        if self._stamp is None:
            self._lines.extend(label(texts, self._origin, None))
            return
        for text in texts:
            ns, rest = self._stamp(text)
            self._lines.extend(label([rest], self._origin, ns))

    def _watch_progress(self) -> None:
        # Counted from the first byte, not the last, so that a bar that moves ten times a second is shown too.
        if self._splitter.held and self._progress is None and not self._read_all:
            self._progress = self._clock.call_later(PROGRESS_AFTER, self._hand_on_progress)

    def _hand_on_progress(self) -> None:
        self._progress = None
        self._add(self._splitter.progress())
        if self._lines:
            self._wake()

    def _forget_progress(self) -> None:
        if self._progress is not None:
            self._progress.cancel()
            self._progress = None

    # Bytes come in: the source's own task.

    async def _pump(self) -> None:
        try:
            while await self._read_more():
                pass
            self._put(Cut())  # the unfinished last line
        except OSError as error:
            where = f"{self.role}/{self.replica}"
            self._error = LogStreamError(
                f"the log file of {where} cannot be read", why=str(error), retryable=error.errno in WANTS
            )
            self._error.__cause__ = error
        finally:
            self._unwatch()
            self._read_all = True
            self._wake()
            self._file.close()

    async def _read_more(self) -> bool:
        """Read what there is, or wait for more; return False when no more is wanted."""
        self._changed.clear()
        is_last = not self._follow  # later lines are not wanted
        found = await finished_in_thread(self._file.read, _in_file_thread)
        self._put(*found)
        if found:
            self._learn()
            await self._until_room()
        elif is_last:
            return False
        elif not self._watched():  # read once more after the watch begins
            await self._until_changed()
        return True

    def _put(self, *items: Item) -> None:
        if items:
            self._items.extend(items)
            self._held += sum(len(item) for item in items if isinstance(item, bytes))
            self._wake()

    async def _until_room(self) -> None:
        while self._held > self._buffer_bytes:
            self._room.clear()
            await self._room.wait()

    def _watched(self) -> bool:
        """Watch the file if it exists and is not watched yet; return whether the watch is new."""
        if self._file.fd < 0 or (self._watch is not None and self._watch[0] == self._file.number):
            return False
        self._unwatch()
        follower = self._follower if self._follower is not None else follower_of(asyncio.get_running_loop())
        self._watch = (self._file.number, follower.watch(self._file.fd, self._on_notice))
        return True

    def _unwatch(self) -> None:
        if self._watch is not None:
            self._watch[1].close()
            self._watch = None

    # Polling a file without notices.

    async def _until_changed(self) -> None:
        """Wait for a notice of the file, or for the time of the next check."""
        timer = self._clock.call_later(self._pause, self._on_time)
        self._pause = min(2 * self._pause, LONGEST_SILENT if self._is_silent else LONGEST_LOOK)
        try:
            await self._changed.wait()
        finally:
            timer.cancel()

    def _on_notice(self) -> None:
        self._is_silent, self._looked = False, False
        self._changed.set()

    def _on_time(self) -> None:
        self._looked = True
        self._changed.set()

    def _learn(self) -> None:
        """Check a file more often if its growth was found by polling, not by a notice."""
        self._is_silent = self._is_silent or self._looked
        self._looked = False
        self._pause = SHORTEST_LOOK if self._is_silent else FIRST_LOOK
