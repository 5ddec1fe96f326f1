"""Call coroutines from code that cannot await, on a private event loop in a daemon thread.

::

    facade, iterators ──hold──> Bridge ──holds──> _LoopThread <──runs── thread

Nothing in the thread holds the `Bridge`, so that dropping the last facade and iterator ends the thread. Explicit close,
garbage collection and the interpreter's exit all call `_LoopThread.stop`, which is idempotent and never waits; close
and exit then join the thread, for a bounded time.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, InvalidStateError
from typing import Any, Generic, TypeVar

from asyncsched._tasks import outlast
from asyncsched.errors import ClosedError, UsageError

__all__ = ["Bridge"]

R = TypeVar("R")

CLEANUP_TIMEOUT = 11.0
"""Seconds that an interrupted call may take to clean up."""

LOOK_AGAIN = 1.0
"""Seconds after which a waiting caller looks for an interrupt: one just before the wait does not end it."""

EXIT_TIMEOUT = 30.0
"""The most seconds that `close`, and the interpreter's exit, wait for the thread."""


class _Call(Generic[R]):
    """One coroutine to run in the thread."""

    def __init__(self, make: Callable[[], Coroutine[Any, Any, R]]) -> None:
        self._make = make
        self._cancelled = False
        self.task: asyncio.Task[None] | None = None
        self.answer: Future[R] = Future()
        self.over: Future[None] = Future()  # done when the coroutine has ended, whatever the answer was

    def begin(self, tasks: set[asyncio.Task[None]]) -> None:
        """Start it, in the loop."""
        if self.answer.done() or self._cancelled:
            self._end()
            return
        self.task = asyncio.get_running_loop().create_task(self._run())
        tasks.add(self.task)
        self.task.add_done_callback(tasks.discard)
        self.task.add_done_callback(lambda _: self._end())

    async def _run(self) -> None:
        try:
            result = await self._make()
        except (KeyboardInterrupt, SystemExit) as error:
            self.fail(error)  # belongs to the caller, wherever it was raised: it must not end the loop of all callers
        except asyncio.CancelledError:
            self.fail(ClosedError("this call was cancelled"))
            raise
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            self.fail(error)
        else:
            with contextlib.suppress(InvalidStateError):
                self.answer.set_result(result)

    def fail(self, error: BaseException) -> None:
        """Raise an error in the caller, if it has no answer yet."""
        with contextlib.suppress(InvalidStateError):
            self.answer.set_exception(error)

    def cancel(self) -> None:
        """Cancel it, in the loop."""
        self._cancelled = True
        if self.task is None:
            self._end()
        else:
            self.task.cancel()

    def _end(self) -> None:
        with contextlib.suppress(InvalidStateError):
            self.over.set_result(None)

    def result(self) -> R:
        """Wait for the answer, in the caller's thread."""
        while not self.answer.done():
            with contextlib.suppress(TimeoutError):
                return self.answer.result(LOOK_AGAIN)
        return self.answer.result()  # which may be a TimeoutError of the coroutine's own


class _LoopThread:
    """An event loop in a daemon thread, started by the first call."""

    def __init__(self, aclose: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._aclose = aclose
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event = asyncio.Event()
        self._stopping = False
        self._calls: set[_Call[Any]] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def call(self, make: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """Run a coroutine and return its result; an exception in the caller's thread cancels it."""
        call = _Call(make)
        loop = self._enter(call)
        try:
            with contextlib.suppress(RuntimeError):  # the loop has ended since, and `stop` has failed this call
                loop.call_soon_threadsafe(call.begin, self._tasks)
            return call.result()
        except BaseException as error:
            if not call.answer.done():  # Ctrl-C, or another asynchronous exception: the coroutine must not continue
                loop.call_soon_threadsafe(call.cancel)
                with contextlib.suppress(TimeoutError):  # the coroutine is cleaning up
                    call.over.result(CLEANUP_TIMEOUT)
            if call.answer.done() and call.answer.exception() is None and isinstance(call.answer.result(), str):
                error.add_note(f"The call had succeeded when it was interrupted: {call.answer.result()}")
            raise
        finally:
            self._calls.discard(call)

    def _enter(self, call: _Call[Any]) -> asyncio.AbstractEventLoop:
        if self._stopping:
            raise ClosedError("this object is closed", fix="make a new one")
        if self._pid != os.getpid():  # checked before taking the lock, which a thread of the parent may hold
            raise UsageError(
                "this object belongs to the parent process", why="its thread was not forked", fix="make one after fork"
            )
        if threading.current_thread() is self._thread:
            raise UsageError(
                "a blocking call cannot run in the loop that it waits for", fix="await the coroutine there instead"
            )
        with self._lock:
            if self._stopping:
                raise ClosedError("this object is closed", fix="make a new one")
            if self._loop is None:
                self._loop = self._start()
            self._calls.add(call)
            return self._loop

    def post(self, make: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine soon, without waiting for it; do nothing if the loop has ended."""
        if self._pid == os.getpid() and self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has been closed, and everything in it has ended
                self._loop.call_soon_threadsafe(_Call(make).begin, self._tasks)

    def _start(self) -> asyncio.AbstractEventLoop:
        started: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name="asyncsched", daemon=True)
        self._thread.start()
        atexit.register(self._at_exit)
        return started.result()

    def _run(self, started: Future[asyncio.AbstractEventLoop]) -> None:
        # While the interpreter exits no thread can be started, not even one of the loop's own executor to wait for.
        with contextlib.suppress(RuntimeError), asyncio.Runner() as runner:
            runner.run(self._serve(started))
        atexit.unregister(self._at_exit)

    async def _serve(self, started: Future[asyncio.AbstractEventLoop]) -> None:
        started.set_result(asyncio.get_running_loop())
        await self._stop.wait()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await outlast(tasks, CLEANUP_TIMEOUT)
        await self._aclose()

    def stop(self) -> None:
        """End everything: callers get an error at once, the thread ends by itself. From any thread, without waiting."""
        if self._pid != os.getpid():
            return
        with self._lock:
            stopping, self._stopping = self._stopping, True
            calls = list(self._calls)
        if stopping or self._loop is None:
            return
        for call in calls:
            call.fail(ClosedError("this object was closed during the call"))
        self._loop.call_soon_threadsafe(self._stop.set)

    def join(self, timeout: float = EXIT_TIMEOUT) -> None:
        """Wait until the thread has ended, unless called from it."""
        if self._pid == os.getpid() and self._thread not in (None, threading.current_thread()):
            self._thread.join(timeout)

    def _at_exit(self) -> None:
        self.stop()
        self.join()

    @property
    def state(self) -> str:
        """The state in one word, for a repr."""
        return "closed" if self._stopping else "new" if self._loop is None else "open"


class Bridge:
    """Access to a private loop; the loop ends when this is closed or collected, or the interpreter exits.

    Args:
        aclose: Closes, in the loop, the object that the calls are made on.
    """

    def __init__(self, aclose: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._aclose = aclose
        self._thread = _LoopThread(aclose)
        # Garbage may be collected in any thread, holding any lock: the finalizer must not wait.
        weakref.finalize(self, self._thread.stop).atexit = False

    @property
    def state(self) -> str:
        """The state in one word, for a repr."""
        return self._thread.state

    def again(self) -> Bridge:
        """Return a new bridge that closes the same object."""
        return Bridge(self._aclose)

    def call(self, make: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """Run a coroutine in the loop and return its result; Ctrl-C cancels it and waits for its cleanup."""
        return self._thread.call(make)

    def post(self, make: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine in the loop without waiting for it."""
        self._thread.post(make)

    def close(self) -> None:
        """End the loop; calls of other threads get a ClosedError at once. Idempotent, never raises."""
        self._thread.stop()
        self._thread.join()
