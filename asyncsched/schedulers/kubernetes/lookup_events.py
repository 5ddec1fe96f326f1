"""Events: what explains a pod that waits or is gone; one list for each namespace, shared by all who ask."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from asyncsched.clock import Clock
from asyncsched.errors import PermissionDeniedError
from asyncsched.schedulers.kubernetes import lookup_paths as paths
from asyncsched.schedulers.kubernetes.client import KubeClient
from asyncsched.schedulers.kubernetes.status_jobs import EventRecord, event_record

__all__ = ["Events"]

FRESH = 5.0
"""Seconds for which a list is used again: waiting is told within seconds, and not by a list for each app."""
MOST_PAGES = 20
REFUSED_FOR = 300.0


@dataclass(slots=True)
class _Known:
    """The events of one namespace, by the uid of what they are about."""

    until: float = 0.0
    by_uid: Mapping[str, Sequence[EventRecord]] = field(default_factory=dict[str, Sequence[EventRecord]])
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Events:
    """Reads events; where the role does not allow it there are none.

    Args:
        client: Where the cluster is reached.
        clock: Tells the time.
    """

    def __init__(self, client: KubeClient, *, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._known: dict[str, _Known] = {}

    async def about(self, namespace: str, uids: Collection[str]) -> list[EventRecord]:
        """Return the events of objects with these uids."""
        known = self._known.setdefault(namespace, _Known())
        if known.until <= self._clock.monotonic():
            async with known.lock:
                if known.until <= self._clock.monotonic():
                    await self._read(namespace, known)
        return [event for uid in uids for event in known.by_uid.get(uid, ())]

    async def _read(self, namespace: str, known: _Known) -> None:
        fresh = FRESH
        found: dict[str, list[EventRecord]] = {}
        try:
            path = paths.events(namespace)
            page = await self._client.items(path, _read_event, most_pages=MOST_PAGES, operation="describe")
            for event in page.items:
                found.setdefault(event.uid, []).append(event)
        except PermissionDeniedError:
            fresh = REFUSED_FOR
        known.by_uid, known.until = found, self._clock.monotonic() + fresh


def _read_event(raw: Mapping[str, Any]) -> EventRecord | None:
    return event_record(raw)
