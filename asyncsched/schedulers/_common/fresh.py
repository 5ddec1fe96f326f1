"""New ids that cannot have been submitted yet, so that no call has to check."""

from __future__ import annotations

from collections import OrderedDict

__all__ = ["FreshIds"]

MOST = 10_000


class FreshIds:
    """Remembers the newest ids."""

    def __init__(self) -> None:
        self._ids: OrderedDict[str, None] = OrderedDict()

    def add(self, app_id: str) -> None:
        """Remember a new id."""
        self._ids[app_id] = None
        if len(self._ids) > MOST:
            self._ids.popitem(last=False)

    def take(self, app_id: str) -> bool:
        """Return whether an id is remembered, and forget it, because after a first try it may be submitted."""
        return self._ids.pop(app_id, True) is None
