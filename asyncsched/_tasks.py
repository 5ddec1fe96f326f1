"""End tasks reliably: in a cleanup that may itself be cancelled, and within a time limit."""

from __future__ import annotations

import asyncio
import contextvars
import errno
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Generic, TypeVar, cast

from asyncsched.errors import AsyncSchedError

__all__ = [
    "BackgroundTasks",
    "SharedTask",
    "close_all",
    "finished_in_thread",
    "gather_bounded",
    "made_in_thread",
    "outlast",
]

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

_log = logging.getLogger("asyncsched")

LONGEST_CALL = 60.0
STARTED_IN_A_STEP = 100
"""Tasks that are created before the loop runs again: a stream may have thousands of sources to close."""
# Here, below all modules that have tasks: without a handler Python would write our warnings to stderr in programs that
# have not set up logging.
_log.addHandler(logging.NullHandler())


async def outlast(tasks: Iterable[asyncio.Future[Any]], timeout: float) -> bool:
    """Wait until all `tasks` are done, for at most `timeout` seconds, and return whether they are.

    Being cancelled does not end the wait, because callers that cancel by level (anyio) cancel every await of a cleanup
    again. The cancellation is raised after the wait.
    """
    pending: set[asyncio.Future[Any]] = {task for task in tasks if not task.done()}
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    cancelled: asyncio.CancelledError | None = None
    while pending and (left := deadline - loop.time()) > 0:
        try:
            await asyncio.wait(pending, timeout=left)
        except asyncio.CancelledError as error:
            cancelled = error
        pending = {task for task in pending if not task.done()}
    if cancelled is not None:
        raise cancelled
    return not pending


class SharedTask:
    """A task that serves several callers: it starts with the first of them and ends with the last."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._task: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()

    def begin(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start it, unless it runs; `run` is called once the previous run is over."""
        if self._task is None:
            work = self._after_the_last_one(run)
            context = contextvars.Context()  # not that of the first caller
            self._task = asyncio.get_running_loop().create_task(work, name=self._name, context=context)

    async def _after_the_last_one(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        await self.settle()
        await run()

    def end(self) -> None:
        """Cancel it; do nothing if it does not run."""
        if self._task is not None:
            self._task.cancel()
            self._ending.add(self._task)
            self._task.add_done_callback(self._ending.discard)
            self._task = None

    async def settle(self, timeout: float = 10.0) -> None:
        """Wait until an ended run is over."""
        others = [task for task in self._ending if task is not asyncio.current_task()]
        if others:
            await outlast(others, timeout)


async def close_all(closing: Iterable[Awaitable[object]], timeout: float) -> None:
    """Await all of `closing` at once, for at most `timeout` seconds; log failures and calls that hang."""
    tasks: list[asyncio.Future[Any]] = []
    cancelled: asyncio.CancelledError | None = None
    for each in closing:
        tasks.append(asyncio.ensure_future(each))
        if len(tasks) % STARTED_IN_A_STEP == 0:
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError as again:
                cancelled = again
    try:
        done = await outlast(tasks, timeout)
        if cancelled is not None:
            raise cancelled
        if not done:
            _log.warning("%d of %d did not close within %g s", sum(not t.done() for t in tasks), len(tasks), timeout)
    finally:
        for task in tasks:
            if not task.done():
                task.cancel()
            elif not task.cancelled() and (error := task.exception()) is not None:
                _log.warning("closing failed: %s", error, exc_info=error)


class BackgroundTasks:
    """Work in the background, until it ends or its owner is closed.

    No caller waits for it, so failures are logged. It does not inherit a caller's context, because it may serve
    several.

    Args:
        log: The logger for failures.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None], name: str | None = None) -> asyncio.Task[None]:
        """Run a coroutine in the background."""
        task = asyncio.get_running_loop().create_task(work, name=name, context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.warning("%s", error, exc_info=None if isinstance(error, AsyncSchedError) else error)

    async def close(self, timeout: float, *, patience: float = 0.0) -> None:
        """Wait `patience` seconds for the work to end by itself, then cancel it and wait at most `timeout` seconds."""
        if patience and self._tasks:
            await outlast(list(self._tasks), patience)
        for task in self._tasks:
            task.cancel()
        await outlast(list(self._tasks), timeout)


async def gather_bounded(
    work: Callable[[ItemT], Coroutine[Any, Any, ResultT]], items: Iterable[ItemT], at_once: int
) -> list[ResultT]:
    """Return the results of `work` over `items` in order, at most `at_once` at a time; a failure ends the others."""
    todo = list(items)
    results: list[ResultT | None] = [None] * len(todo)
    numbers = iter(range(len(todo)))

    async def worker() -> None:
        for number in numbers:
            results[number] = await work(todo[number])

    tasks: list[asyncio.Task[None]] = []
    try:
        for started in range(1, min(at_once, len(todo)) + 1):
            tasks.append(asyncio.create_task(worker()))
            if started % STARTED_IN_A_STEP == 0:
                await asyncio.sleep(0)
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await outlast(tasks, 10.0)
    return cast("list[ResultT]", results)


class _Handing(Generic[ResultT]):
    """A value that a thread makes for a caller that may leave first; the later of the two undoes it."""

    def __init__(self, make: Callable[[], ResultT], undo: Callable[[ResultT], object]) -> None:
        self._make = make
        self._undo = undo
        self._lock = threading.Lock()
        self._is_left = False
        self._made: list[ResultT] = []

    def make(self) -> ResultT:
        """Make the value, in a thread."""
        made = self._make()
        with self._lock:
            is_left = self._is_left
            if not is_left:
                self._made.append(made)
        if is_left:
            self._undo(made)
        return made

    def leave(self) -> None:
        """Undo the value, now or when it has been made."""
        with self._lock:
            self._is_left = True
        while self._made:
            self._undo(self._made.pop())


async def made_in_thread(
    make: Callable[[], ResultT], undo: Callable[[ResultT], object], *, waits: bool = False
) -> ResultT:
    """Call `make` in a thread and return its result; after a cancellation, pass the result to `undo`.

    A thread cannot be stopped: without this, a resource that it opens for a cancelled caller would stay open.

    Args:
        make: The function to call.
        undo: Releases the result, maybe in the thread.
        waits: Whether a cancellation is raised only once the result is released, as in `finished_in_thread`.
    """
    handing = _Handing(make, undo)
    try:
        return await (finished_in_thread(handing.make) if waits else _in_thread(handing.make))
    except BaseException:
        handing.leave()
        raise


async def finished_in_thread(
    call: Callable[[], ResultT], run: Callable[[Callable[[], ResultT]], Coroutine[Any, Any, ResultT]] | None = None
) -> ResultT:
    """Call a function in a thread and return its result; a cancellation is raised once the function has returned.

    Args:
        call: The function.
        run: Runs it in a thread; the loop's own pool by default.

    Raises:
        OSError: It hangs (ETIMEDOUT after `LONGEST_CALL` seconds); the thread cannot be stopped.
    """
    calling = asyncio.ensure_future((run or _in_thread)(call))
    try:
        is_done = await outlast([calling], LONGEST_CALL)
    finally:
        calling.cancel()  # it hangs; this does nothing if it has returned
    if not is_done:
        raise OSError(errno.ETIMEDOUT, f"no answer from the operating system within {LONGEST_CALL:g} s")
    return calling.result()


async def _in_thread(make: Callable[[], ResultT]) -> ResultT:
    """Call it in a thread, or directly while the interpreter exits, when no thread can be started."""
    has_begun = False

    def begin() -> ResultT:
        nonlocal has_begun
        has_begun = True
        return make()

    try:
        return await asyncio.to_thread(begin)
    except RuntimeError:
        if has_begun:
            raise
        return make()
