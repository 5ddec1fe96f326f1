"""The last seen status of apps, for showing a handle without asking its scheduler."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from datetime import UTC, datetime

from asyncsched.specs.state import AppStatus

__all__ = ["LastSeen", "LastSeenApps", "last_seen"]


class LastSeen:
    """A status, and when it was true (aware, UTC)."""

    __slots__ = ("at", "status")

    def __init__(self, status: AppStatus, at: datetime) -> None:
        self.status = status
        self.at = at


class LastSeenApps:
    """The newest status of each app that its owner has seen; dropped with its owner.

    Args:
        room: The largest number of apps to remember; the one seen longest ago is forgotten first.
    """

    def __init__(self, room: int = 10_000) -> None:
        self._room = room
        self._seen: OrderedDict[str, LastSeen] = OrderedDict()
        _living.add(self)

    def note(self, handle: str, status: AppStatus) -> None:
        """Remember a status as the newest one of an app."""
        self._seen[handle] = LastSeen(status, datetime.now(UTC))
        self._seen.move_to_end(handle)
        if len(self._seen) > self._room:
            self._seen.popitem(last=False)

    def get(self, handle: str) -> LastSeen | None:
        """Return the last seen status of an app."""
        return self._seen.get(handle)


# A handle is a plain string without a runner; this set leads from a handle to what runners have seen.
_living: weakref.WeakSet[LastSeenApps] = weakref.WeakSet()


def last_seen(handle: str) -> LastSeen | None:
    """Return the newest status of an app that any living owner in this process has seen."""
    seen = [sighting for each in list(_living) if (sighting := each.get(handle)) is not None]
    return max(seen, key=lambda sighting: sighting.at, default=None)
