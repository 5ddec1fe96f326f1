"""When to paint: at most four times a second, however many changes there are."""

from __future__ import annotations

from collections.abc import Callable

from asyncsched.clock import Clock, TimerHandle

__all__ = ["EVERY", "TICK", "Painter"]

EVERY = 0.25
"""Minimum seconds between two paintings of changes."""

TICK = 1.0
"""Seconds after which ages are painted again if nothing has changed."""


class Painter:
    """Calls `paint` after changes, and once a second for the ages.

    Args:
        clock: The clock for its timer.
        paint: Paints the changes.

    Attributes:
        paints: How often `paint` was called.
    """

    def __init__(self, clock: Clock, paint: Callable[[], None]) -> None:
        self._clock = clock
        self._paint = paint
        self._last = clock.monotonic() - EVERY
        self._timer: TimerHandle | None = None
        self._is_soon = False
        self._closed = False
        self.paints = 0

    def changed(self) -> None:
        """Paint soon."""
        if not self._is_soon:
            self._is_soon = True
            self._set(max(self._last + EVERY - self._clock.monotonic(), 0.0))

    def now(self) -> None:
        """Paint immediately, after a key."""
        if self._closed:
            return
        self._is_soon = False
        self._last = self._clock.monotonic()
        self.paints += 1
        self._set(TICK)
        self._paint()

    def close(self) -> None:
        """Stop painting."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _set(self, delay: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._closed:
            self._timer = self._clock.call_later(delay, self.now)
