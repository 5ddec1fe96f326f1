"""Read events, which explain waiting and deleted pods; all callers share one list per namespace."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from asyncsched._tasks import outlast
from asyncsched.clock import Clock
from asyncsched.errors import AsyncSchedError, PermissionDeniedError, SchedulerError
from asyncsched.schedulers.kubernetes import lookup_paths as paths
from asyncsched.schedulers.kubernetes.client import KubeClient
from asyncsched.schedulers.kubernetes.errors import is_expired
from asyncsched.schedulers.kubernetes.status_jobs import EventRecord, event_record

__all__ = ["PASSED_OVER", "Events"]

_log = logging.getLogger("asyncsched.schedulers.kubernetes")

FRESH = 4.0
"""Seconds for which a list is reused: reasons of a wait are seconds old at most, without a list per app.

Waiting apps are checked every five seconds. With the time that a read takes, this is less: each check reads again.
"""
JUST_READ = 0.5
"""Seconds for which a list is reused for an app that has ended: its description is final."""
PAGE = 1000
"""Events per request. Each read makes one request; the next read continues with the following page."""
MOST_PAGES = 20
REFUSED_FOR = 300.0

PASSED_OVER = (
    *("BackOff", "CommandIssued", "Completed", "Created", "ExecuteAction", "Failed", "FailedScheduling", "Killing"),
    *("Pulled", "Pulling", "ScalingReplicaSet", "Scheduled", "Started", "SuccessfulCreate", "SuccessfulDelete"),
    *("SuccessfulRescale", "Unhealthy"),
)
"""Frequent reasons that explain no wait, or that the pods show themselves; the server filters them out."""


@dataclass(slots=True)
class _Known:
    """The events of one namespace: pages of events by the uid of their object.

    Attributes:
        read_at: When events were last read.
        refused_until: When to try again after the role did not allow it.
        pages: The last content of each page.
        at: The page to read next.
        token: The server's token for that page; empty for the first page.
        lock: Held while a page is read.
        waiting: Callbacks to call after the read, by app.
        task: The background read.
    """

    read_at: float = float("-inf")
    refused_until: float = float("-inf")
    pages: dict[int, Mapping[str, Sequence[EventRecord]]] = field(
        default_factory=dict[int, Mapping[str, Sequence[EventRecord]]]
    )
    at: int = 0
    token: str = ""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: dict[str, Callable[[str], None]] = field(default_factory=dict[str, "Callable[[str], None]"])
    task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Start again at the first page; pages after the current one no longer exist."""
        self.pages = {page: found for page, found in self.pages.items() if page <= self.at}
        self.at, self.token = 0, ""


class Events:
    """Reads events, one request at a time; returns none if the role does not allow it.

    Args:
        client: The client of the cluster.
        clock: The time source.
        page: Events per request.
        most_pages: Most pages to keep for a namespace.
    """

    def __init__(self, client: KubeClient, *, clock: Clock, page: int = PAGE, most_pages: int = MOST_PAGES) -> None:
        self._client, self._clock = client, clock
        self._query = {"fieldSelector": ",".join(f"reason!={each}" for each in PASSED_OVER), "limit": str(page)}
        self._most_pages = most_pages
        self._known: dict[str, _Known] = {}

    async def about(
        self,
        namespace: str,
        uids: Collection[str],
        *,
        fresh: float = FRESH,
        later: tuple[str, Callable[[str], None]] | None = None,
    ) -> list[EventRecord]:
        """Return the events of objects with these uids.

        Args:
            namespace: Their namespace.
            uids: The uids of the objects.
            fresh: Seconds for which a list is reused.
            later: An app, and a function to call with it once a list has been read. The read then runs in the
                background, and the events known before are returned.
        """
        known = self._known.setdefault(namespace, _Known())
        if later is not None:
            if self._is_old(known, fresh):
                self._read_beside(namespace, known, *later)
        elif self._is_old(known, fresh):
            async with known.lock:
                if self._is_old(known, fresh):
                    await self._read(namespace, known)
        return [event for page in known.pages.values() for uid in uids for event in page.get(uid, ())]

    async def close(self) -> None:
        """Cancel background reads."""
        tasks = [known.task for known in self._known.values() if known.task is not None]
        for task in tasks:
            task.cancel()
        await outlast(tasks, 5.0)

    def _read_beside(self, namespace: str, known: _Known, app_id: str, callback: Callable[[str], None]) -> None:
        known.waiting[app_id] = callback
        if known.task is None:
            reading, name = self._beside(namespace, known), f"kubernetes: events of {namespace}"
            known.task = asyncio.get_running_loop().create_task(reading, name=name, context=contextvars.Context())

    async def _beside(self, namespace: str, known: _Known) -> None:
        try:
            async with known.lock:
                await self._read(namespace, known)
        except AsyncSchedError as error:
            known.read_at = self._clock.monotonic()  # states are reported without them
            _log.debug("the events of %s were not read: %s", namespace, error)
        finally:
            known.task = None
        waiting, known.waiting = known.waiting, {}
        for app_id, callback in waiting.items():
            callback(app_id)

    def _is_old(self, known: _Known, fresh: float) -> bool:
        return self._clock.monotonic() >= max(known.read_at + fresh, known.refused_until)

    async def _read(self, namespace: str, known: _Known) -> None:
        try:
            await self._read_page(namespace, known)
        except PermissionDeniedError:
            known.pages.clear()
            known.refused_until = self._clock.monotonic() + REFUSED_FOR
        except SchedulerError as error:
            if not is_expired(error):
                raise
            known.begin()  # the next read starts over
        known.read_at = self._clock.monotonic()

    async def _read_page(self, namespace: str, known: _Known) -> None:
        query = {**self._query, **({"continue": known.token} if known.token else {})}
        page = await self._client.page(paths.events(namespace), _read_event, query=query, operation="describe")
        found: dict[str, list[EventRecord]] = {}
        for event in page.items:
            found.setdefault(event.uid, []).append(event)
        known.pages[known.at] = found
        if page.next and known.at + 1 < self._most_pages:
            known.at, known.token = known.at + 1, page.next
        else:
            known.begin()


def _read_event(raw: Mapping[str, Any]) -> EventRecord | None:
    return event_record(raw)
