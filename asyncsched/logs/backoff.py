"""Backoff: how long to wait before a retry, and when to give up."""

from __future__ import annotations

from asyncio import CancelledError

from asyncsched.clock import Clock
from asyncsched.errors import SchedulerError, ThrottledError

__all__ = ["Backoff", "pause_after"]


def pause_after(failures: int, *, shortest: float, longest: float) -> float:
    """Return the seconds to wait after `failures` failures in a row: doubled each time, with jitter."""
    import random  # imported late: only failures need it

    return min(shortest * 2.0 ** min(failures - 1, 16), longest) * random.uniform(0.5, 1.0)


class Backoff:
    """Pauses between retries that double, with jitter, until nothing has worked for `retry_for` seconds.

    Use it as a context manager around all tries: if they are cancelled, the last failure becomes the cause of the
    `CancelledError`, where a timeout around them can find it.

    Args:
        clock: The time source.
        retry_for: Seconds of failures without a success after which it gives up.
        shortest: The first pause in seconds.
        longest: The longest one.

    Attributes:
        retry_for: As given; it may change between two failures.
    """

    def __init__(self, clock: Clock, *, retry_for: float, shortest: float = 0.1, longest: float = 10.0) -> None:
        self._clock = clock
        self.retry_for = retry_for
        self._shortest = shortest
        self._longest = longest
        self._pauses = 0
        self._failing_since: float | None = None
        self._last: SchedulerError | None = None
        self.failures = 0

    def __enter__(self) -> Backoff:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and kind is CancelledError and error.__cause__ is None:
            error.__cause__ = self._last

    def worked(self) -> None:
        """Record a success."""
        self._pauses = self.failures = 0
        self._failing_since = self._last = None

    def failed(self, error: SchedulerError) -> float:
        """Record a failure and return the seconds to wait; raise it if a retry would not help."""
        self._last = error
        now = self._clock.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        if not error.retryable or now - self._failing_since > self.retry_for:
            raise error
        self.failures += 1
        asked = error.retry_after if isinstance(error, ThrottledError) else None
        return max(self.pause(), asked or 0.0)

    def pause(self) -> float:
        """Return the seconds to wait before the next try."""
        self._pauses += 1
        return pause_after(self._pauses, shortest=self._shortest, longest=self._longest)
