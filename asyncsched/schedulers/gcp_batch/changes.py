"""Watch many jobs: a few are read one by one, many from the list of their location."""

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
"""Jobs, or tasks of jobs, that are read at the same time."""

FEW = 8
"""Up to this many jobs of a location are read one by one: a list would contain all other jobs too."""

Summary = tuple[object, ...]


class GCPSweeper:
    """Reads all watched apps; tasks are read again only if their job has changed.

    Args:
        client: The client of Google Cloud.
        jobs: Reads jobs.
    """

    def __init__(self, client: GoogleClient, jobs: GCPJobs) -> None:
        self._client, self._jobs = client, jobs
        self._known: dict[GCPJobRef, tuple[Summary, DescribeAppResponse]] = {}
        self._failing: set[tuple[str, str]] = set()

    async def sweep(self, app_ids: Sequence[str]) -> AsyncGenerator[Answers]:
        """Yield the states of these apps, about one item per call."""
        places: dict[tuple[str, str], dict[GCPJobRef, str]] = {}
        for app_id in app_ids:
            try:
                ref = parse_app_id(app_id)
            except AsyncSchedError as error:
                yield {app_id: error}
            else:
                places.setdefault((ref.project, ref.location), {})[ref] = app_id
        failure: SchedulerError | None = None
        for place in sorted(
            places, key=self._failing.__contains__
        ):  # failing locations last, so that they do not delay the others
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
        """Yield the states of the apps of one location; a permanent error is the answer for all remaining ones."""
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
        """Yield the states of the apps in a location's list, and remove these apps from `left`."""
        async with aclosing(job_pages(self._client, *place)) as pages:
            async for rows in pages:
                found = {ref: row for ref, row in rows.items() if ref in left}
                yield await self._answers(found, left)
                for ref in found:
                    del left[ref]
                if not left:
                    break
        if left:  # not in the list: deleted, or too new
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
        known = self._known.get(job.ref)
        if known is None or known[0] != summary:
            known = summary, await self._jobs.describe_job(job)
            self._known[job.ref] = summary, own_copy(known[1])
            return known[1]
        response = own_copy(known[1])
        response.native = job
        return response

    def _forget(self, places: Mapping[tuple[str, str], Mapping[GCPJobRef, str]]) -> None:
        self._failing &= places.keys()
        watched = {ref for apps in places.values() for ref in apps}
        if len(self._known) > 2 * len(watched) + 100:
            self._known = {ref: known for ref, known in self._known.items() if ref in watched}


def _summary(row: Row) -> Summary:
    """Return a value that differs whenever a job or its tasks have changed."""
    counts = tuple(sorted(counts_of(row).items()))
    return text(part(row, "status"), "state"), row.get("updateTime"), counts, len(status_events(row)), row.get("uid")
