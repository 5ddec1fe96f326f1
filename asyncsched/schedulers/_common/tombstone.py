"""Delete apps on services that cannot remove them, by marking them as deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

__all__ = ["Tombstone"]

RowT = TypeVar("RowT")


class Tombstone(Generic[RowT]):
    """A mark, such as a tag or a label, on an app that a service keeps listing; asyncsched treats it as deleted.

    `_delete` removes everything else first and sets the mark last, so that it can be repeated after a failure.
    `_describe`, `_list`, `_cancel` and the check for an existing app in `_schedule` pass what they read through
    `existing` or `all_existing`.

    Args:
        marks_of: Reads the marks of an app's row.
        key: The name of the mark, if the service does not accept the default.
    """

    def __init__(self, marks_of: Callable[[RowT], Mapping[str, object]], key: str = "asyncsched/deleted") -> None:
        self._marks_of = marks_of
        self._key = key

    def mark(self) -> dict[str, str]:
        """Return the mark to add to an app's other marks."""
        return {self._key: "true"}

    def existing(self, row: RowT | None) -> RowT | None:
        """Return an app's row; None if there is none, or the app was deleted."""
        return None if row is None or self._key in self._marks_of(row) else row

    def all_existing(self, rows: Iterable[RowT]) -> list[RowT]:
        """Return the rows of apps that were not deleted, in order."""
        return [row for row in rows if self.existing(row) is not None]
