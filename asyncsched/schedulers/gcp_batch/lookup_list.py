"""All apps of a project, in all locations, newest first."""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing

from asyncsched.errors import InvalidRequestError, NotFoundError
from asyncsched.schedulers.gcp_batch.client import GoogleClient
from asyncsched.schedulers.gcp_batch.names import JobRef
from asyncsched.schedulers.gcp_batch.status import is_deleted, is_ours, list_row
from asyncsched.schedulers.gcp_batch.status_rows import Row, job_ref, parts, text, time_of
from asyncsched.schedulers.responses import ListAppResponse

__all__ = ["job_pages", "list_apps"]

_log = logging.getLogger("asyncsched.schedulers.gcp_batch")

PAGE = 500
EVERYWHERE = "-"


async def job_pages(client: GoogleClient, project: str, location: str) -> AsyncGenerator[dict[JobRef, Row]]:
    """Yield the jobs of a location page by page, newest first; what cannot be reached is logged."""
    query = {"orderBy": "create_time desc", "pageSize": str(PAGE)}
    path = f"projects/{project}/locations/{location}/jobs"
    async with aclosing(client.pages(path, query=query, operation="jobs.list", project=project)) as pages:
        async for page in pages:
            if unreachable := page.get("unreachable"):
                _log.warning(
                    "Google Cloud cannot reach %s: their jobs are not listed", ", ".join(map(str, unreachable))
                )
            # Google may write the project's number where it was asked with its name.
            rows = [(ref, row) for row in parts(page, "jobs") if (ref := job_ref(row)) is not None]
            yield {JobRef(project, ref.location, ref.name): row for ref, row in rows}


async def list_apps(client: GoogleClient, project: str) -> AsyncGenerator[ListAppResponse]:
    """Yield a row for each app in any location, newest first; pages are read as they are needed."""
    async with AsyncExitStack() as closing:
        places = [_Place(client, project, EVERYWHERE)]
        closing.push_async_callback(places[0].aclose)
        try:
            await places[0].fill()
        except (InvalidRequestError, NotFoundError):  # that all can be listed at once is not documented
            places = [_Place(client, project, location) for location in await _locations(client, project)]
            for place in places:
                closing.push_async_callback(place.aclose)
            await asyncio.gather(*(place.fill() for place in places))
        async for ref, row in _merged(places):
            yield list_row(ref, row)


async def _locations(client: GoogleClient, project: str) -> list[str]:
    path = f"projects/{project}/locations"
    locations: list[str] = []
    async with aclosing(
        client.pages(path, query={"pageSize": str(PAGE)}, operation="locations.list", project=project)
    ) as pages:
        async for page in pages:
            locations += [name for each in parts(page, "locations") if (name := text(each, "locationId"))]
    return locations


async def _merged(places: Sequence[_Place]) -> AsyncGenerator[tuple[JobRef, Row]]:
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
    """The jobs of one location, or of all, that were made by us, page by page; `rows` ends with the newest."""

    def __init__(self, client: GoogleClient, project: str, location: str) -> None:
        self._pages = job_pages(client, project, location)
        self._over = False
        self.rows: list[tuple[JobRef, Row]] = []

    @property
    def newest(self) -> float:
        """When the newest of them was submitted."""
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
