"""Remember which part of a container's log was read before a connection broke."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from asyncsched._typing import override
from asyncsched.logs.resume import Resume

__all__ = ["PodResume"]

REMEMBERED = 2048
"""Lines that are compared by content; earlier lines of the last seconds are only counted."""


class PodResume(Resume):
    """A `Resume` that also knows where reading started.

    The API server truncates `sinceTime` to whole seconds. After a reader has started with the last hundred lines, a
    reconnect can therefore send lines before the first of them; those were never wanted.
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
        """Stop expecting known lines: the rest of the log is lost, and that is reported elsewhere."""
        self._replay = None

    def _begin(self, ns: int) -> None:
        if self._first is None:
            self._first = ns
