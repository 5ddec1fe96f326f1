"""Ids that were made here and that nobody can have submitted yet, so that no call has to ask."""

from __future__ import annotations

from collections import OrderedDict

__all__ = ["FreshIds"]

MOST = 10_000


class FreshIds:
    """Remembers the ids that were made last."""

    def __init__(self) -> None:
        self._ids: OrderedDict[str, None] = OrderedDict()

    def add(self, app_id: str) -> None:
        """Remember an id that has just been made."""
        self._ids[app_id] = None
        if len(self._ids) > MOST:
            self._ids.popitem(last=False)

    def take(self, app_id: str) -> bool:
        """Tell whether an id is remembered, and forget it: after a first try it may have been submitted."""
        return self._ids.pop(app_id, True) is None
