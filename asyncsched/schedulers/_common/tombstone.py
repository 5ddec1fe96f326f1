"""Deleting on services that cannot forget: what is marked as deleted does not exist."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

__all__ = ["Tombstone"]

RowT = TypeVar("RowT")


class Tombstone(Generic[RowT]):
    """A mark on what a service goes on telling of, such as a tag or a label, by which all of asyncsched goes.

    `_delete` removes everything else first and then leaves the mark, so that it can be done again where it breaks off.
    `_describe`, `_list`, `_cancel` and the look at what was submitted before, in `_schedule`, pass what they read
    through `existing` or `all_existing`.

    Args:
        marks_of: Reads the marks of what the service tells of an app.
        key: The name of the mark, where the service does not take this one.
    """

    def __init__(self, marks_of: Callable[[RowT], Mapping[str, object]], key: str = "asyncsched/deleted") -> None:
        self._marks_of = marks_of
        self._key = key

    def mark(self) -> dict[str, str]:
        """Return what is to be written beside an app's other marks."""
        return {self._key: "true"}

    def existing(self, row: RowT | None) -> RowT | None:
        """Return what the service tells of an app; None where that is nothing, or the app was deleted."""
        return None if row is None or self._key in self._marks_of(row) else row

    def all_existing(self, rows: Iterable[RowT]) -> list[RowT]:
        """Return, in order, what was not deleted."""
        return [row for row in rows if self.existing(row) is not None]
