"""All apps of a project, in all locations, newest first; a location that cannot be read is named and left out."""

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
"""Locations that are read at a time."""

PATIENCE = 1 / 3
"""The part of `retry_for` that one of several locations may take: the others are told in the time that is left."""


async def job_pages(client: GoogleClient, project: str, location: str) -> AsyncGenerator[dict[GCPJobRef, Row]]:
    """Yield the jobs of a location page by page, newest first; what cannot be reached is logged."""
    query = {"orderBy": "create_time desc", "pageSize": str(PAGE)}
    path = f"projects/{project}/locations/{location}/jobs"
    named: set[str] = set()
    async with aclosing(client.pages(path, query=query, operation="jobs.list", project=project)) as pages:
        async for page in pages:
            unreachable = [place for place in map(str, page.get("unreachable") or ()) if place not in named]
            if unreachable:
                _log.warning("Google Cloud cannot reach %s: their jobs are not listed", ", ".join(unreachable))
                named.update(unreachable)
            # Google may write the project's number where it was asked with its name.
            rows = [(ref, row) for row in parts(page, "jobs") if (ref := job_ref(row)) is not None]
            yield {GCPJobRef(project, ref.location, ref.name): row for ref, row in rows}


class JobList:
    """Lists the apps of a project.

    Args:
        client: Google Cloud.
        clock: Tells the time.
        retry_for: Seconds that a whole list may take.
    """

    def __init__(self, client: GoogleClient, *, clock: Clock, retry_for: float) -> None:
        self._client, self._clock, self._patience = client, clock, retry_for * PATIENCE

    async def rows(self, project: str) -> AsyncGenerator[ListAppResponse]:
        """Yield a row for each app in any location, newest first; pages are read as they are needed.

        Raises:
            SchedulerError: Not one location can be read.
        """
        async with AsyncExitStack() as closing:
            places = [_Place(self._client, project, EVERYWHERE)]
            closing.push_async_callback(places[0].aclose)
            try:
                await places[0].fill()
            except (InvalidRequestError, NotFoundError, PermissionDeniedError) as refused:
                # That all can be listed at once is not documented.
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
            # An account that may do nothing is told what it lacks for a list.
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
    """The jobs of one location, or of all, that were made by us, page by page; `rows` ends with the newest."""

    def __init__(self, client: GoogleClient, project: str, location: str) -> None:
        self._pages = job_pages(client, project, location)
        self._over = False
        self.failure: SchedulerError | None = None
        self.rows: list[tuple[GCPJobRef, Row]] = []

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


class _OneOfMany(_Place):
    """One location of several: where it cannot be read, that is told, and it is over.

    Args:
        client: Google Cloud.
        project: The project.
        location: The location.
        clock: Tells the time.
        patience: Seconds that the next page may take, with all tries for it.
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
        except AuthError:  # It holds for every location.
            raise
        except SchedulerError as error:
            self._failed(error)
        except TimeoutError:
            if not timeout.expired:
                raise
            why = f"it took more than {self._patience:g} s"
            what = f"Google Cloud did not answer jobs.list of {self._location}"
            self._failed(UnavailableError(what, why=why, backend=BACKEND, operation="jobs.list"))
        self._began = True

    def _failed(self, error: SchedulerError) -> None:
        self._over, self.failure = True, error
        said = "not all listed" if self._began else "not listed"
        _log.warning("The jobs in %s are %s: %s", self._location, said, error)
