"""Watch many jobs, with the cheaper of two kinds of calls.

Either every job is described, a hundred per call; or the queues are listed, a thousand jobs per call, and only changed
jobs are described. The last sweep shows which is cheaper.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Container, Iterable, Mapping, Sequence
from contextlib import aclosing
from itertools import islice
from typing import Any

from asyncsched.logs.loop_time import budget_of
from asyncsched.schedulers.aws_batch.client import AWSConnection
from asyncsched.schedulers.aws_batch.lookup import AWSJobs, calls_to_describe
from asyncsched.schedulers.aws_batch.lookup_calls import list_jobs
from asyncsched.schedulers.aws_batch.lookup_names import ACTIVE, MAX_ROWS, KnownJob
from asyncsched.schedulers.state_reports import Answers

__all__ = ["AWSSweeper"]

_NODES_AGAIN = 90

_PART = 500
"""Apps to look at before others may have the loop."""

Summary = tuple[object, ...]
Places = dict[tuple[AWSConnection, str], dict[str, KnownJob]]


class AWSSweeper:
    """Reads all watched apps; yields one item per call."""

    def __init__(self, jobs: AWSJobs) -> None:
        self._jobs = jobs
        #: A summary of each job from the last list of its queue, and from its last description.
        self._listed: dict[str, Summary] = {}
        self._described: dict[str, Summary] = {}
        #: The last known status of each job, from a list or a description.
        self._status: dict[str, str] = {}
        self._cost: dict[tuple[AWSConnection, str], int] = {}
        self._turn = 0

    def note(self, row: Mapping[str, Any]) -> None:
        """Record a job that was described."""
        self._described[row["jobId"]] = _summary(row)
        self._status[row["jobId"]] = row["status"]

    async def sweep(self, app_ids: Sequence[str]) -> AsyncGenerator[Answers]:
        """Yield the states of these apps that have changed, and perhaps some that have not."""
        known, places, direct = await self._placed(app_ids)
        self._forget(known)
        for (connection, queue), apps in places.items():
            await asyncio.sleep(0)  # Each pass over ten thousand apps is a separate step.
            if calls_to_describe(apps.values()) <= self._cost.get((connection, queue), len(ACTIVE) + 1):
                direct += apps
                continue
            async for answers in self._by_list(connection, queue, apps):
                yield answers
        async for answers in self._jobs.describe_all(direct):
            yield answers

    async def _placed(self, app_ids: Iterable[str]) -> tuple[dict[str, KnownJob | None], Places, list[str]]:
        """Return what is known of each app, the apps of each queue, and those whose queue or nodes are not known."""
        known: dict[str, KnownJob | None] = {}
        places: Places = {}
        direct: list[str] = []
        budget = budget_of(asyncio.get_running_loop())
        budget.begin()
        rest = iter(app_ids)
        while part := list(islice(rest, _PART)):
            await budget.breathe()
            for app_id in part:
                each = known[app_id] = self._jobs.names.known(app_id)
                if each is not None and each.queue and each.children is not None:
                    places.setdefault((self._jobs.names.connection(each), each.queue), {})[app_id] = each
                else:
                    direct.append(app_id)
        return known, places, direct

    async def _by_list(
        self, connection: AWSConnection, queue: str, apps: Mapping[str, KnownJob]
    ) -> AsyncGenerator[Answers]:
        watched = {known.job_id: app_id for app_id, known in apps.items()}
        await asyncio.sleep(0)
        now: dict[str, Summary] = {}
        changed: dict[str, None] = {}  # a set that keeps its order
        calls = 0
        for status in self._statuses(watched):
            pages = list_jobs(connection, jobQueue=queue, jobStatus=status, maxResults=MAX_ROWS)
            async with aclosing(pages):
                async for rows in pages:
                    calls += 1
                    page = {row["jobId"]: _summary(row) for row in rows if row["jobId"] in watched}
                    changed |= {watched[job_id]: None for job_id, told in page.items() if self._is_new(job_id, told)}
                    now |= page
                    yield {}
        self._cost[connection, queue] = calls
        # A job in no list may have ended, or moved back while the queue was listed, so it is described.
        changed |= {app_id: None for job_id, app_id in watched.items() if job_id not in now}
        await asyncio.sleep(0)
        async for answers in self._jobs.describe_all([*changed, *self._next_nodes(apps, changed)]):
            yield answers
        await asyncio.sleep(0)
        self._listed |= now
        self._status |= {job_id: str(summary[0]) for job_id, summary in now.items()}

    def _statuses(self, job_ids: Iterable[str]) -> Sequence[str]:
        """Return the statuses to list: from the first one that a job is in to the last.

        Jobs move forward. A job that moves back for a retry is in no list, so it is described, and its status is listed
        from then on.
        """
        held = {self._status.get(job_id, ACTIVE[0]) for job_id in job_ids}
        return ACTIVE[min((at for at, status in enumerate(ACTIVE) if status in held), default=len(ACTIVE) - 1) :]

    def _is_new(self, job_id: str, now: Summary) -> bool:
        # The two operations may word a reason differently, so compare with the last list too.
        return now not in (self._listed.get(job_id), self._described.get(job_id))

    def _next_nodes(self, apps: Mapping[str, KnownJob], without: Container[str]) -> list[str]:
        """Return multi-node apps to describe next: their nodes may change without a change in the lists."""
        multinode = [app_id for app_id, known in apps.items() if known.children and app_id not in without]
        chosen: list[str] = []
        room = _NODES_AGAIN
        for offset in range(len(multinode)):
            app_id = multinode[(self._turn + offset) % len(multinode)]
            room -= 1 + len(apps[app_id].children or ())
            if room < 0 and chosen:
                break
            chosen.append(app_id)
        self._turn += len(chosen)
        return chosen

    def _forget(self, known: Mapping[str, KnownJob | None]) -> None:
        if len(self._described) > 2 * len(known) + MAX_ROWS:
            watched = {each.job_id for each in known.values() if each is not None}
            self._listed = {job_id: summary for job_id, summary in self._listed.items() if job_id in watched}
            self._described = {job_id: summary for job_id, summary in self._described.items() if job_id in watched}
            self._status = {job_id: status for job_id, status in self._status.items() if job_id in watched}


def _summary(row: Mapping[str, Any]) -> Summary:
    times = row.get("startedAt") or 0, row.get("stoppedAt") or 0
    return row["status"], row.get("statusReason"), *times, bool(row.get("isTerminated") or row.get("isCancelled"))
