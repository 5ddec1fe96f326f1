"""Ask the server for its version, its API groups and their resources."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from asyncsched._typing import NamedTuple
from asyncsched.clock import Clock
from asyncsched.errors import NotFoundError
from asyncsched.schedulers.kubernetes.client_asked import Asked
from asyncsched.schedulers.kubernetes.client_json import as_object

__all__ = ["Discovery", "ServerVersion"]

ABSENT_FOR = 60.0
"""Seconds for which a missing resource is not asked for again."""
PRESENT_FOR = 60.0
"""Seconds for which an installed group is not asked for again; no refusal would show that it was removed."""


class ServerVersion(NamedTuple):
    """The server's version, such as 1.34."""

    major: int
    minor: int


class Discovery:
    """Caches the server's version, groups and resources; concurrent callers share one request.

    Args:
        get: Requests a path from the server and returns the JSON of the answer.
        clock: The time source.
    """

    def __init__(self, get: Callable[[str], Coroutine[Any, Any, Any]], *, clock: Clock) -> None:
        self._get, self._clock = get, clock
        self._asked = Asked()
        self._version: ServerVersion | None = None
        self._found: dict[str, tuple[float, frozenset[str]]] = {}
        self._groups: dict[str, float] = {}  # installed groups, and until when to trust that

    async def version(self) -> ServerVersion:
        """Return the server's version; it is requested once."""
        if self._version is None:
            answer = await self._asked.once("/version", lambda: self._get("/version"))
            self._version = ServerVersion(_number(answer, "major"), _number(answer, "minor"))
        return self._version

    async def has(self, group_version: str, resource: str) -> bool:
        """Return whether the server has a resource, such as ``jobs`` of ``batch.volcano.sh/v1alpha1``."""
        known = self._found.get(group_version)
        if known is None or known[0] <= self._clock.monotonic():
            found = await self._asked.once(group_version, lambda: self._resources(group_version))
            until = float("inf") if found else self._clock.monotonic() + ABSENT_FOR
            known = self._found[group_version] = (until, found)
        return resource in known[1]

    def lacks(self, group_version: str) -> bool:
        """Return whether the server has recently answered that it does not have this group and version."""
        until, found = self._found.get(group_version, (0.0, frozenset()))
        return not found and until > self._clock.monotonic()

    async def has_group(self, group: str) -> bool:
        """Return whether the server has an API group, such as ``kueue.x-k8s.io``; absence is not cached."""
        if self._groups.get(group, 0.0) > self._clock.monotonic():
            return True
        is_there = await self._asked.once(group, lambda: self._is_there(group))
        if is_there:
            self._groups[group] = self._clock.monotonic() + PRESENT_FOR
        return is_there

    def forget(self, group_version: str) -> None:
        """Ask for this group and version again next time: the server did not recognise one of its kinds."""
        self._found.pop(group_version, None)

    async def close(self) -> None:
        """Cancel all pending requests."""
        await self._asked.close()

    async def _resources(self, group_version: str) -> frozenset[str]:
        try:
            answer = await self._get(f"/apis/{group_version}")
        except NotFoundError:
            return frozenset()
        resources: list[object] = as_object(answer).get("resources") or []
        return frozenset(str(as_object(each).get("name")) for each in resources)

    async def _is_there(self, group: str) -> bool:
        try:
            await self._get(f"/apis/{group}")
        except NotFoundError:
            return False
        return True


def _number(answer: object, name: str) -> int:
    """Return the number of a field; ``34+`` reads as 34."""
    text = str(as_object(answer).get(name, ""))
    digits = "".join(sign for sign in text if sign.isdigit())
    return int(digits) if digits else 0
