"""What of a container's log was read before a connection broke."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from typing_extensions import override

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
    def note_new(self, lines: Sequence[tuple[int, Hashable, str | bytes]]) -> None:
        super().note_new(lines)
        if lines:
            self._begin(lines[0][0])
            self.last_ns = lines[-1][0]

    def give_up(self) -> None:
        """Expect nothing any more: the rest of the log cannot be had, which is told in another way."""
        self._replay = None

    def _begin(self, ns: int) -> None:
        if self._first is None:
            self._first = ns
