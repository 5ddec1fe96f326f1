"""List all apps of a project in all locations, newest first; unreadable locations are logged and skipped."""

from __future__ import annotations

import heapq
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing

from asyncsched._tasks import gather_bounded
from asyncsched._typing import override
from asyncsched.clock import Clock
from asyncsched.errors import (
    AuthError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    SchedulerError,
    UnavailableError,
)
from asyncsched.schedulers.gcp_batch.client import GoogleClient
from asyncsched.schedulers.gcp_batch.errors import BACKEND
from asyncsched.schedulers.gcp_batch.names import GCPJobRef
from asyncsched.schedulers.gcp_batch.status import is_deleted, is_ours, list_row
from asyncsched.schedulers.gcp_batch.status_rows import Row, job_ref, parts, text, time_of
from asyncsched.schedulers.responses import ListAppResponse

__all__ = ["JobList", "job_pages"]

_log = logging.getLogger("asyncsched.schedulers.gcp_batch")

PAGE = 500
EVERYWHERE = "-"
AT_ONCE = 16
"""Locations that are read at the same time."""

PATIENCE = 1 / 3
"""The share of `retry_for` that one of several locations may take; the rest is for the others."""


async def job_pages(client: GoogleClient, project: str, location: str) -> AsyncGenerator[dict[GCPJobRef, Row]]:
    """Yield the jobs of a location page by page, newest first; log unreachable locations."""
    query = {"orderBy": "create_time desc", "pageSize": str(PAGE)}
    path = f"projects/{project}/locations/{location}/jobs"
    named: set[str] = set()
    async with aclosing(client.pages(path, query=query, operation="jobs.list", project=project)) as pages:
        async for page in pages:
            unreachable = [place for place in map(str, page.get("unreachable") or ()) if place not in named]
            if unreachable:
                _log.warning("Google Cloud cannot reach %s: their jobs are not listed", ", ".join(unreachable))
                named.update(unreachable)
            # Google may answer with the project's number instead of its name.
            rows = [(ref, row) for row in parts(page, "jobs") if (ref := job_ref(row)) is not None]
            yield {GCPJobRef(project, ref.location, ref.name): row for ref, row in rows}


class JobList:
    """Lists the apps of a project.

    Args:
        client: The client of Google Cloud.
        clock: The time source.
        retry_for: Most seconds for a whole list.
    """

    def __init__(self, client: GoogleClient, *, clock: Clock, retry_for: float) -> None:
        self._client, self._clock, self._patience = client, clock, retry_for * PATIENCE

    async def rows(self, project: str) -> AsyncGenerator[ListAppResponse]:
        """Yield one row per app in all locations, newest first; pages are read as needed.

        Raises:
            SchedulerError: No location can be read.
        """
        async with AsyncExitStack() as closing:
            places = [_Place(self._client, project, EVERYWHERE)]
            closing.push_async_callback(places[0].aclose)
            try:
                await places[0].fill()
            except (InvalidRequestError, NotFoundError, PermissionDeniedError) as refused:
                # Google does not document that all locations can be listed at once.
                places = [self._one(project, each) for each in await self._locations(project, refused)]
                for place in places:
                    closing.push_async_callback(place.aclose)
                await gather_bounded(lambda place: place.fill(), places, AT_ONCE)
                if all(place.failure for place in places):
                    raise (places[0].failure if places else None) or refused from None
            async for ref, row in _merged(places):
                yield list_row(ref, row)

    def _one(self, project: str, location: str) -> _OneOfMany:
        return _OneOfMany(self._client, project, location, self._clock, self._patience)

    async def _locations(self, project: str, refused: SchedulerError) -> list[str]:
        path = f"projects/{project}/locations"
        pages = self._client.pages(path, query={"pageSize": str(PAGE)}, operation="locations.list", project=project)
        locations: list[str] = []
        try:
            async with aclosing(pages):
                async for page in pages:
                    locations += [name for each in parts(page, "locations") if (name := text(each, "locationId"))]
        except PermissionDeniedError as error:
            # If the account lacks both permissions, report the one for listing jobs.
            raise refused if isinstance(refused, PermissionDeniedError) else error from None
        return locations


async def _merged(places: Sequence[_Place]) -> AsyncGenerator[tuple[GCPJobRef, Row]]:
    heap = [(-place.newest, number) for number, place in enumerate(places) if place.rows]
    heapq.heapify(heap)
    while heap:
        place = places[heap[0][1]]
        yield place.rows.pop()
        await place.fill()
        if place.rows:
            heapq.heapreplace(heap, (-place.newest, heap[0][1]))
        else:
            heapq.heappop(heap)


class _Place:
    """The asyncsched jobs of one or all locations, page by page; the last of `rows` is the newest."""

    def __init__(self, client: GoogleClient, project: str, location: str) -> None:
        self._pages = job_pages(client, project, location)
        self._over = False
        self.failure: SchedulerError | None = None
        self.rows: list[tuple[GCPJobRef, Row]] = []

    @property
    def newest(self) -> float:
        """When the newest job was submitted."""
        created = time_of(self.rows[-1][1].get("createTime"))
        return created.timestamp() if created is not None else 0.0

    async def aclose(self) -> None:
        await self._pages.aclose()

    async def fill(self) -> None:
        while not self.rows and not self._over:
            page = await anext(self._pages, None)
            self._over = page is None
            shown = [(ref, row) for ref, row in (page or {}).items() if is_ours(row) and not is_deleted(row)]
            self.rows = list(reversed(shown))


class _OneOfMany(_Place):
    """One of several locations; a failure is logged and ends it.

    Args:
        client: The client of Google Cloud.
        project: The project.
        location: The location.
        clock: The time source.
        patience: Most seconds for a page, including retries.
    """

    def __init__(self, client: GoogleClient, project: str, location: str, clock: Clock, patience: float) -> None:
        super().__init__(client, project, location)
        self._location, self._clock, self._patience = location, clock, patience
        self._began = False

    @override
    async def fill(self) -> None:
        timeout = self._clock.deadline(self._patience)
        try:
            async with timeout:
                await super().fill()
        except AuthError:  # It affects every location.
            raise
        except SchedulerError as error:
            self._failed(error)
        except TimeoutError:
            if not timeout.expired:
                raise
            why = f"it took more than {self._patience:g} s"
            what = f"Google Cloud did not answer jobs.list for {self._location}"
            self._failed(UnavailableError(what, why=why, backend=BACKEND, operation="jobs.list"))
        self._began = True

    def _failed(self, error: SchedulerError) -> None:
        self._over, self.failure = True, error
        effect = "not all listed" if self._began else "not listed"
        _log.warning("the jobs in %s are %s: %s", self._location, effect, error)
