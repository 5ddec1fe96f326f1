"""Time as a parameter: real for users, virtual for tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio

__all__ = ["Clock", "Timeout", "TimerHandle", "wait_for_event"]


class TimerHandle(Protocol):
    """The result of `Clock.call_later`."""

    def cancel(self) -> None:
        """Cancel the call; does nothing if it has been made."""


class Clock:
    """The machine's clock and the running loop's timers.

    Everything in asyncsched that waits for time to pass (polling, back-off, deadlines) uses a clock, so that a test can
    pass one that does not wait.
    """

    def time_ns(self) -> int:
        """Return the wall-clock time in nanoseconds since the epoch."""
        return time.time_ns()

    def monotonic(self) -> float:
        """Return seconds that never go backwards; only differences are meaningful."""
        return time.monotonic()

    def call_later(self, delay: float, callback: Callable[[], None]) -> TimerHandle:
        """Call `callback` on the running loop in `delay` seconds."""
        import asyncio

        return asyncio.get_running_loop().call_later(delay, callback)

    def call_at_latest(self, delay: float, callback: Callable[[], None]) -> TimerHandle:
        """Like `call_later`, but for a deadline, which is cancelled when the guarded work ends.

        A self-advancing clock jumps to the next timer. It must not jump to a deadline, because the guarded work may
        only need real time to finish.
        """
        return self.call_later(delay, callback)

    async def sleep(self, delay: float) -> None:
        """Wait for `delay` seconds; cancelling it leaves nothing behind."""
        import asyncio

        if delay <= 0:
            await asyncio.sleep(0)
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.call_later(delay, lambda: _set(done))
        try:
            await done
        finally:
            timer.cancel()

    def timeout(self, seconds: float | None) -> Timeout:
        """Return an async context manager that raises TimeoutError if its body waits longer than this."""
        return Timeout(self.call_later, seconds)

    def deadline(self, seconds: float | None) -> Timeout:
        """Like `timeout`, but for work in progress, such as a request; see `call_at_latest`."""
        return Timeout(self.call_at_latest, seconds)


class Timeout:
    """Like `asyncio.timeout`, but timed by a `Clock`."""

    def __init__(self, call_later: Callable[[float, Callable[[], None]], TimerHandle], seconds: float | None) -> None:
        self._call_later = call_later
        self._seconds = seconds
        self.expired = False
        self._timer: TimerHandle | None = None
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0

    async def __aenter__(self) -> Timeout:
        import asyncio

        self._task = asyncio.current_task()
        if self._task is None:
            raise RuntimeError("a timeout works only inside a task")
        self._cancelling = self._task.cancelling()
        if self._seconds is not None:
            self._timer = self._call_later(self._seconds, self._expire)
        return self

    def _expire(self) -> None:
        self.expired = True
        if self._task is not None:
            self._task.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import asyncio

        if self._timer is not None:
            self._timer.cancel()
        task, self._task = self._task, None
        if not self.expired or task is None:
            return
        # Only our own cancellation becomes a TimeoutError: a second one came from outside and is raised.
        if task.uncancel() <= self._cancelling and isinstance(error, asyncio.CancelledError):
            raise TimeoutError(f"no answer within {self._seconds:g} s") from error


async def wait_for_event(event: asyncio.Event, clock: Clock, seconds: float | None) -> None:
    """Wait until `event` is set, and set it after `seconds`; None waits without a limit."""
    timer = None if seconds is None else clock.call_later(seconds, event.set)
    try:
        await event.wait()
    finally:
        if timer is not None:
            timer.cancel()


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
