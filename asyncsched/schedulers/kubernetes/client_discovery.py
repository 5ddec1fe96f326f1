"""What the server is and has, by its own word: its version, kinds of objects, groups of them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from asyncsched.clock import Clock
from asyncsched.errors import NotFoundError
from asyncsched.schedulers.kubernetes.client_asked import Asked
from asyncsched.schedulers.kubernetes.client_json import as_object

__all__ = ["Discovery", "ServerVersion"]

ABSENT_FOR = 60.0
"""Seconds for which a kind of object that was not installed is not asked for again."""
PRESENT_FOR = 60.0
"""Seconds for which a group that was installed is not asked for again: no refusal would tell that it has gone."""


class ServerVersion(NamedTuple):
    """The server's version, such as 1.34."""

    major: int
    minor: int


class Discovery:
    """Asks what there is, each question once for all who ask it at a time.

    Args:
        get: Asks the server for a path, and returns the JSON of its answer.
        clock: Tells the time.
    """

    def __init__(self, get: Callable[[str], Coroutine[Any, Any, Any]], *, clock: Clock) -> None:
        self._get, self._clock = get, clock
        self._asked = Asked()
        self._version: ServerVersion | None = None
        self._found: dict[str, tuple[float, frozenset[str]]] = {}
        self._groups: dict[str, float] = {}  # those that were there, and until when that is believed

    async def version(self) -> ServerVersion:
        """Return the server's version, asked for once."""
        if self._version is None:
            told = await self._asked.once("/version", lambda: self._get("/version"))
            self._version = ServerVersion(_number(told, "major"), _number(told, "minor"))
        return self._version

    async def has(self, group_version: str, resource: str) -> bool:
        """Tell whether the server has a resource, such as ``jobs`` of ``batch.volcano.sh/v1alpha1``."""
        known = self._found.get(group_version)
        if known is None or known[0] <= self._clock.monotonic():
            found = await self._asked.once(group_version, lambda: self._resources(group_version))
            until = float("inf") if found else self._clock.monotonic() + ABSENT_FOR
            known = self._found[group_version] = (until, found)
        return resource in known[1]

    def lacks(self, group_version: str) -> bool:
        """Tell whether the server has said a moment ago that it does not have it."""
        until, found = self._found.get(group_version, (0.0, frozenset()))
        return not found and until > self._clock.monotonic()

    async def has_group(self, group: str) -> bool:
        """Tell whether the server has an API group, such as ``kueue.x-k8s.io``; a missing one is asked for anew."""
        if self._groups.get(group, 0.0) > self._clock.monotonic():
            return True
        is_there = await self._asked.once(group, lambda: self._is_there(group))
        if is_there:
            self._groups[group] = self._clock.monotonic() + PRESENT_FOR
        return is_there

    def forget(self, group_version: str) -> None:
        """Have it asked for again: the server has refused to know a kind of it."""
        self._found.pop(group_version, None)

    async def close(self) -> None:
        """Ask no more."""
        await self._asked.close()

    async def _resources(self, group_version: str) -> frozenset[str]:
        try:
            told = await self._get(f"/apis/{group_version}")
        except NotFoundError:
            return frozenset()
        resources: list[object] = as_object(told).get("resources") or []
        return frozenset(str(as_object(each).get("name")) for each in resources)

    async def _is_there(self, group: str) -> bool:
        try:
            await self._get(f"/apis/{group}")
        except NotFoundError:
            return False
        return True


def _number(told: object, name: str) -> int:
    """Read ``34`` of what may be ``34+``."""
    text = str(as_object(told).get(name, ""))
    digits = "".join(sign for sign in text if sign.isdigit())
    return int(digits) if digits else 0
