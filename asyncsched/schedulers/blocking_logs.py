"""Read the lines of one replica from a blocking iterator."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from asyncsched._tasks import outlast
from asyncsched._typing import override
from asyncsched.logs.line import LogLine, LogOrigin, label
from asyncsched.logs.source import LogSource
from asyncsched.schedulers.blocking_threads import CallThreads
from asyncsched.schedulers.lines import split_lines

__all__ = ["ThreadLines"]

ROOM = 1000
"""Lines to read ahead of the consumer."""


class ThreadLines(LogSource):
    """Lines that a thread reads from an iterator, with a limited number read ahead.

    A thread that waits inside the iterator cannot be stopped. After `aclose`, it ends at the iterator's next step.

    Args:
        threads: Runs the thread.
        begin: Creates the iterator, in the thread.
        origin: The origin of the lines.
        follows: Whether the iterator continues after the existing lines.
        count: Returns the number of existing lines, if it is needed; called in the thread.
        room: Lines to read ahead.
    """

    def __init__(
        self,
        threads: CallThreads,
        begin: Callable[[], Iterable[object]],
        origin: LogOrigin,
        *,
        follows: bool,
        count: Callable[[], int] | None = None,
        room: int = ROOM,
    ) -> None:
        self.role, self.replica = origin.role, origin.replica
        self._threads = threads
        self._begin = begin
        self._origin = origin
        self._count = count
        self._room = room
        self._changed = threading.Condition()  # held only briefly
        self._texts: deque[str] = deque()
        # Lines that existed at the start and were not read yet; -1: unknown, or all are read.
        self._past = 0 if follows and count is None else -1
        self._stopped = False
        self._told = False
        self._over = False
        self._error: BaseException | None = None
        self._wake: Callable[[], None] = lambda: None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    @override
    def start(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run(), name=f"lines of {self.role}/{self.replica}")

    @override
    def read(self, limit: int) -> Sequence[LogLine]:
        with self._changed:
            most = limit if self._past <= 0 else min(limit, self._past)  # old and new lines are read separately
            texts = [self._texts.popleft() for _ in range(min(most, len(self._texts)))]
            if self._past > 0:
                self._past -= len(texts)
            self._told = bool(self._texts)
            self._changed.notify()
        if not texts and self._error is not None and self._over:
            raise self._error
        if self._texts or (texts and self._error is not None):
            self._wake()
        return label(texts, self._origin, None)

    @property
    @override
    def ended(self) -> bool:
        return self._over and self._error is None and not self._texts

    @property
    @override
    def backlog(self) -> bool:
        return self._past != 0 and not (self._over and not self._texts)

    @override
    async def aclose(self) -> None:
        with self._changed:
            self._stopped = True
            self._texts.clear()
            self._changed.notify()
        if self._task is not None:
            self._task.cancel()  # the task only waits for the thread
            await outlast([self._task], 10.0)

    async def _run(self) -> None:
        try:
            await self._threads.run(self._pump)
        except Exception as error:  # noqa: BLE001 - the engine raises it to the consumer
            self._error = error
        self._over = True
        self._wake()

    def _pump(self) -> None:
        """Read lines until the end, or until no more are wanted; runs in the thread."""
        if self._stopped:
            return
        if self._count is not None:
            past = self._count()
            with self._changed:
                self._past = past
            self._notify()
        lines = iter(self._begin())
        try:
            while self._put_all(islice(lines, 1)):
                pass
        finally:
            close = getattr(lines, "close", None)
            if callable(close):
                close()

    def _put_all(self, items: Iterable[object]) -> bool:
        """Add the next item; return whether there was one, and more are wanted."""
        there = False
        for item in items:
            there = True
            for text in _as_lines(item):
                self._put(text)
        return there and not self._stopped

    def _put(self, text: str) -> None:
        with self._changed:
            while len(self._texts) >= self._room and not self._stopped:
                self._changed.wait()
            if self._stopped:
                return
            self._texts.append(text)
            was_told, self._told = self._told, True
        if not was_told:
            self._notify()

    def _notify(self) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(self._wake)
        except RuntimeError:
            self._stopped = True  # the loop is closed


def _as_lines(item: object) -> Iterable[str]:
    text = item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item)
    return split_lines(text) if "\n" in text[:-1] else (text,)
