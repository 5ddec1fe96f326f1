"""Names for sets of apps: the handles of a thousand do not fit into the address of a stream."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable

from asyncsched.web.wire import safe

__all__ = ["NotSelected", "Selections"]


class NotSelected(Exception):  # noqa: N818 - the caller's
    """No selection of this name is remembered."""


class Selections:
    """The selections used last.

    Args:
        most: How many to remember.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._handles: OrderedDict[str, frozenset[str]] = OrderedDict()

    def add(self, handles: Iterable[str]) -> str:
        """Remember some apps, and return the selection's name; the same apps have the same name."""
        wanted = frozenset(handles)
        name = hashlib.sha256("\n".join(sorted(wanted)).encode()).hexdigest()[:32]
        self._handles[name] = wanted
        self._handles.move_to_end(name)
        while len(self._handles) > self._most:
            self._handles.popitem(last=False)
        return name

    def handles(self, name: str) -> frozenset[str]:
        """Return the apps of a selection.

        Raises:
            NotSelected: There is none of this name, or it was forgotten.
        """
        if name not in self._handles:
            raise NotSelected(
                f"no selection {safe(name, 40)}: the latest {self._most} are kept; POST its handles again"
            )
        self._handles.move_to_end(name)
        return self._handles[name]
