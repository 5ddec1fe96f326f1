"""Trying again what failed for a reason that passes."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from asyncsched.clock import Clock
from asyncsched.errors import SchedulerError, ThrottledError

__all__ = ["Backoff", "retry"]

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How long to wait before each new try: twice as long each time, with jitter.

    Attributes:
        first: Seconds before the second try.
        longest: Seconds before any later one, at most.
        jitter: The part of a pause that is left to chance, so that many callers do not come back together.
    """

    first: float = 0.25
    longest: float = 10.0
    jitter: float = 0.5

    def pauses(self) -> Iterator[float]:
        """Yield the pauses, without end."""
        pause = self.first
        while True:
            yield pause * (1 - self.jitter * random.random())
            pause = min(self.longest, pause * 2)


async def retry(
    call: Callable[[], Awaitable[ResultT]],
    *,
    clock: Clock,
    retry_for: float,
    backoff: Backoff | None = None,
    may_retry: Callable[[SchedulerError], bool] = lambda error: error.retryable,
) -> ResultT:
    """Return the result of `call`, trying again for `retry_for` seconds in all.

    Cancelling it cancels the try that runs. The last error is raised as it is.

    Args:
        call: Makes one try.
        clock: Tells the time.
        retry_for: No try begins later than so many seconds after the first.
        backoff: The pauses; a pause that the service itself asks for is honoured where it is longer.
        may_retry: Whether another try may help.
    """
    end = clock.monotonic() + retry_for
    for pause in (backoff or Backoff()).pauses():
        try:
            return await call()
        except SchedulerError as error:
            if isinstance(error, ThrottledError) and error.retry_after:
                pause = max(pause, error.retry_after)
            if not may_retry(error) or clock.monotonic() + pause > end:
                raise
        await clock.sleep(pause)
    raise AssertionError("unreachable: the pauses have no end")
