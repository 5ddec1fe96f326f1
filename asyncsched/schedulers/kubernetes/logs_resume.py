"""What of a container's log was read before a connection broke."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from asyncsched._typing import override
from asyncsched.logs.resume import Resume

__all__ = ["PodResume"]

REMEMBERED = 2048
"""Lines that are told apart by what they are; those before them in the last seconds are counted."""


class PodResume(Resume):
    """Knows where the reading began, too.

    The API server cuts the time that a log is asked from to whole seconds, so that it sends what stands before the
    first line that was read (the last hundred were asked for): that was never wanted.
    """

    def __init__(self) -> None:
        super().__init__(REMEMBERED)
        self._first: int | None = None
        self.last_ns: int | None = None

    @override
    def note(self, ns: int, stream: Hashable, data: str | bytes) -> bool:
        if self._first is not None and ns < self._first:
            return False
        is_new = super().note(ns, stream, data)
        if is_new:
            self._begin(ns)
            self.last_ns = ns
        return is_new

    @override
    def note_new(self, stamps: Sequence[int], streams: Sequence[Hashable], data: Sequence[str | bytes]) -> None:
        super().note_new(stamps, streams, data)
        if stamps:
            self._begin(stamps[0])
            self.last_ns = stamps[-1]

    def give_up(self) -> None:
        """Expect nothing any more: the rest of the log cannot be had, which is told in another way."""
        self._replay = None

    def _begin(self, ns: int) -> None:
        if self._first is None:
            self._first = ns
