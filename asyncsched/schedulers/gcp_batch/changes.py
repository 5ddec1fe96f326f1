"""Watching many jobs: a few are read one by one, many through the list of their location."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing

from asyncsched._tasks import gather_bounded
from asyncsched.errors import AsyncSchedError, SchedulerError
from asyncsched.schedulers.gcp_batch.client import GoogleClient
from asyncsched.schedulers.gcp_batch.lookup import GCPJobs, ReadGCPJob
from asyncsched.schedulers.gcp_batch.lookup_list import job_pages
from asyncsched.schedulers.gcp_batch.names import GCPJobRef, parse_app_id
from asyncsched.schedulers.gcp_batch.status import is_deleted
from asyncsched.schedulers.gcp_batch.status_rows import Row, counts_of, part, status_events, text
from asyncsched.schedulers.responses import DescribeAppResponse, own_copy
from asyncsched.schedulers.state_reports import Answers, as_answer

__all__ = ["GCPSweeper"]

AT_ONCE = 16
"""Jobs, or their tasks, that are read at a time."""

FEW = 8
"""Jobs of one location up to which each is read by itself: a list would show all others, too."""

Summary = tuple[object, ...]


class GCPSweeper:
    """Asks for all watched apps; tasks are read again where something has happened to their job.

    Args:
        client: Google Cloud.
        jobs: Reads jobs.
    """

    def __init__(self, client: GoogleClient, jobs: GCPJobs) -> None:
        self._client, self._jobs = client, jobs
        self._told: dict[GCPJobRef, tuple[Summary, DescribeAppResponse]] = {}
        self._failing: set[tuple[str, str]] = set()

    async def sweep(self, app_ids: Sequence[str]) -> AsyncGenerator[Answers]:
        """Yield what is known of these apps, one item for each call or so."""
        places: dict[tuple[str, str], dict[GCPJobRef, str]] = {}
        for app_id in app_ids:
            try:
                ref = parse_app_id(app_id)
            except AsyncSchedError as error:
                yield {app_id: error}
            else:
                places.setdefault((ref.project, ref.location), {})[ref] = app_id
        failure: SchedulerError | None = None
        for place in sorted(places, key=self._failing.__contains__):  # one that fails keeps no others waiting
            try:
                async with aclosing(self._of(place, places[place])) as found:
                    async for answers in found:
                        yield answers
                self._failing.discard(place)
            except SchedulerError as error:
                self._failing.add(place)
                failure = failure or error
        self._forget(places)
        if failure is not None:
            raise failure

    async def _of(self, place: tuple[str, str], apps: Mapping[GCPJobRef, str]) -> AsyncGenerator[Answers]:
        """Yield what is known of the apps of one location; what fails for good is the answer for each that is left."""
        if len(apps) <= FEW:
            yield await self._each(apps)
            return
        left = dict(apps)
        try:
            async with aclosing(self._by_list(place, left)) as found:
                async for answers in found:
                    yield answers
        except SchedulerError as error:
            yield dict.fromkeys(left.values(), as_answer(error))

    async def _by_list(self, place: tuple[str, str], left: dict[GCPJobRef, str]) -> AsyncGenerator[Answers]:
        """Yield what the list of a location tells of these apps, which are then taken from `left`."""
        async with aclosing(job_pages(self._client, *place)) as pages:
            async for rows in pages:
                found = {ref: row for ref, row in rows.items() if ref in left}
                yield await self._answers(found, left)
                for ref in found:
                    del left[ref]
                if not left:
                    break
        if left:  # what the list does not show is deleted, or too new for it
            yield await self._each(left)

    async def _each(self, apps: Mapping[GCPJobRef, str]) -> Answers:
        async def one(ref: GCPJobRef) -> tuple[str, DescribeAppResponse | AsyncSchedError | None]:
            try:
                job = await self._jobs.read(ref)
                return apps[ref], None if job is None else await self._described(job)
            except AsyncSchedError as error:
                return apps[ref], as_answer(error)

        return dict(await gather_bounded(one, apps, AT_ONCE))

    async def _answers(self, rows: Mapping[GCPJobRef, Row], apps: Mapping[GCPJobRef, str]) -> Answers:
        async def one(ref: GCPJobRef) -> tuple[str, DescribeAppResponse | None]:
            row = rows[ref]
            return apps[ref], None if is_deleted(row) else await self._described(ReadGCPJob(ref, row))

        return dict(await gather_bounded(one, rows, AT_ONCE))

    async def _described(self, job: ReadGCPJob) -> DescribeAppResponse:
        summary = _summary(job.row)
        known = self._told.get(job.ref)
        if known is None or known[0] != summary:
            known = summary, await self._jobs.told(job)
            self._told[job.ref] = summary, own_copy(known[1])
            return known[1]
        response = own_copy(known[1])
        response.native = job
        return response

    def _forget(self, places: Mapping[tuple[str, str], Mapping[GCPJobRef, str]]) -> None:
        self._failing &= places.keys()
        watched = {ref for apps in places.values() for ref in apps}
        if len(self._told) > 2 * len(watched) + 100:
            self._told = {ref: told for ref, told in self._told.items() if ref in watched}


def _summary(row: Row) -> Summary:
    """Return what changes whenever something happens to a job or its tasks."""
    counts = tuple(sorted(counts_of(row).items()))
    return text(part(row, "status"), "state"), row.get("updateTime"), counts, len(status_events(row)), row.get("uid")
