"""Retry calls that failed for a temporary reason."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from asyncsched.clock import Clock
from asyncsched.errors import SchedulerError
from asyncsched.logs.backoff import Backoff

__all__ = ["retry"]

ResultT = TypeVar("ResultT")

_SHORTEST = 0.25


async def retry(
    call: Callable[[], Awaitable[ResultT]],
    *,
    clock: Clock,
    retry_for: float,
) -> ResultT:
    """Return the result of `call`; retry retryable errors for `retry_for` seconds.

    Cancelling this cancels the running try. The last error is raised, or becomes the cause of the CancelledError.

    Args:
        call: Makes one try.
        clock: The time source.
        retry_for: Seconds of failures after which it gives up.
    """
    with Backoff(clock, retry_for=retry_for, shortest=_SHORTEST) as backoff:
        while True:
            try:
                return await call()
            except SchedulerError as error:
                pause = backoff.failed(error)
            await clock.sleep(pause)
