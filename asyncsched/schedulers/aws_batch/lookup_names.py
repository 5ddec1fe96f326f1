"""Which job an app id means: names are looked up together, in as few calls as AWS Batch allows, and remembered."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TypeAlias

from asyncsched.errors import AsyncSchedError, InvalidRequestError, NotFoundError
from asyncsched.logs.loop_time import budget_of
from asyncsched.schedulers._common.untrusted import Once
from asyncsched.schedulers.aws_batch.client import AWSConnection, Connections
from asyncsched.schedulers.aws_batch.lookup_calls import MAX_IDS, TOMBSTONE, fetch_rows, list_jobs, list_queues
from asyncsched.schedulers.aws_batch.names import parse_app_id
from asyncsched.schedulers.aws_batch.status_rows import Row
from asyncsched.schedulers.state_reports import as_answer

__all__ = ["ACTIVE", "MAX_ROWS", "Found", "JobNames", "KnownJob", "newest"]

MAX_KNOWN = 50_000
"""Apps of which job id and size are remembered."""

FEW = 8
"""So many names of a queue are looked up one by one; for more of them the queue is listed."""

MAX_ROWS = 1000
"""Jobs on one page of ListJobs without a filter."""

ACTIVE = ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING")
"""In this order a job that moves on while the queue is listed is seen twice, and never missed."""

_ENDED = ("SUCCEEDED", "FAILED")
_AGAIN = ("RUNNABLE", "STARTING", "RUNNING")
"""A retry moves a job back: what was not seen is looked for here once more."""

_once = Once(logging.getLogger("asyncsched.schedulers.aws_batch"))


@dataclass(slots=True)
class KnownJob:
    """What is remembered of an app's job.

    Attributes:
        job_id: Its id.
        queue: Its queue's name, where that is known.
        where: The location that it was submitted to, where that is not the scheduler's own.
        children: The ids of its nodes or array children; None until it has been looked at.
        digest: What was asked for, where it was submitted here.
        by_name: Whether it was looked up by its name, which a later job may have, too.
    """

    job_id: str
    queue: str = ""
    where: Mapping[str, str] = field(default_factory=dict[str, str])
    children: Sequence[str] | None = None
    digest: str = ""
    by_name: bool = False


Found: TypeAlias = KnownJob | AsyncSchedError | None


class JobNames:
    """Finds jobs by the ids of their apps.

    Args:
        connections: Where AWS is reached.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._known: OrderedDict[str, KnownJob] = OrderedDict()

    def remember(self, app_id: str, known: KnownJob) -> None:
        """Keep in mind which job an app is; the app that was used least recently goes."""
        self._known[app_id] = known
        self._known.move_to_end(app_id)
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)

    def forget(self, job_id: str) -> None:
        """Take note that a job is gone, so that its name is looked up again."""
        for app_id in [app_id for app_id, known in self._known.items() if known.job_id == job_id]:
            del self._known[app_id]

    def known(self, app_id: str) -> KnownJob | None:
        """Return what is remembered of an app's job."""
        return self._known.get(app_id)

    def stale(self, app_ids: Iterable[str]) -> list[str]:
        """Forget those of these apps that are remembered by their names, and return them: look them up again."""
        found = [app_id for app_id in app_ids if (known := self._known.get(app_id)) is not None and known.by_name]
        for app_id in found:
            del self._known[app_id]
        return found

    def connection(self, known: KnownJob) -> AWSConnection:
        """Return the connection to where a job is."""
        return self._connections.at(known.where)

    async def find(self, app_id: str) -> KnownJob | None:
        """Return the job that an app id means; None if there is none of that name.

        Raises:
            MalformedHandleError: The id has none of the accepted forms.
        """
        found: Found = self._without_call(app_id)
        if found is None:
            async with aclosing(self.find_all([app_id])) as answers:
                async for answer in answers:
                    found = answer.get(app_id, found)
        if isinstance(found, AsyncSchedError):
            raise found
        return found

    async def find_all(self, app_ids: Iterable[str]) -> AsyncGenerator[Mapping[str, Found]]:
        """Find the jobs of many apps; beside the items that tell of them there is an empty one for each call."""
        told: dict[str, Found] = {}
        wanted: dict[str, dict[str, list[str]]] = {}
        budget = budget_of(asyncio.get_running_loop())
        budget.begin()
        for app_id in app_ids:
            await budget.breathe()  # Ten thousand ids are taken apart in more than one step.
            try:
                found = self._without_call(app_id)
            except AsyncSchedError as error:
                told[app_id] = as_answer(error)
                continue
            if found is None:
                ref = parse_app_id(app_id)
                wanted.setdefault(ref.queue, {}).setdefault(ref.name, []).append(app_id)
            else:
                told[app_id] = found
        if told:
            yield told
        for queue, names in wanted.items():
            async with aclosing(self._by_names(queue, names)) as answers:
                async for answer in answers:
                    yield answer

    def _without_call(self, app_id: str) -> KnownJob | None:
        """Return the job that is remembered for an app, or that its id names itself; else None."""
        known = self._known.get(app_id)
        if known is None and (ref := parse_app_id(app_id)).job_id:
            known = KnownJob(ref.job_id, ref.queue, {"region": ref.region} if ref.region else {})
            self.remember(app_id, known)
        return known

    async def _by_names(self, queue: str, names: Mapping[str, list[str]]) -> AsyncGenerator[Mapping[str, Found]]:
        connection = self._connections.at()
        left, told = dict(names), dict[str, Found]()
        for candidate in [queue] if queue else await list_queues(connection):
            search = _Search(connection, candidate, left)
            async with aclosing(search.run()) as calls:
                async for _ in calls:
                    yield {}
            for name, job_id in search.newest().items():
                for app_id in left.pop(name):
                    told[app_id] = known = KnownJob(job_id, candidate, by_name=True)
                    self.remember(app_id, known)
        yield told | {app_id: None for app_ids in left.values() for app_id in app_ids}


async def newest(connection: AWSConnection, queue: str, name: str) -> Row | None:
    """Return the newest job of this very name in a queue that is not deleted, as DescribeJobs shows it."""
    search = _Search(connection, queue, [name])
    async with aclosing(search.run()) as calls:
        async for _ in calls:
            pass
    job_id = search.newest().get(name)
    return None if job_id is None else TOMBSTONE.existing((await fetch_rows(connection, [job_id])).get(job_id))


class _Search:
    """Looks for the jobs of one queue that have one of these names."""

    def __init__(self, connection: AWSConnection, queue: str, names: Iterable[str]) -> None:
        self._connection, self._queue = connection, queue
        self._found: dict[str, dict[str, int]] = {name: {} for name in names}
        self._deleted: set[str] = set()
        self._complete = False

    def newest(self) -> dict[str, str]:
        """Return the ids by names: of jobs of one name the newest that is not deleted."""
        return {name: _newest(ids, self._deleted) for name, ids in self._found.items() if ids}

    async def run(self) -> AsyncGenerator[None]:
        """Make the calls, one item for each."""
        try:
            if len(self._found) > FEW:
                async with aclosing(self._list()) as calls:
                    async for _ in calls:
                        yield
            for name in self._missing():
                async with aclosing(self._pages(filters=[{"name": "JOB_NAME", "values": [name]}])) as calls:
                    async for _ in calls:
                        yield
        except (NotFoundError, InvalidRequestError):
            return  # No such queue, and so no such job.
        async with aclosing(self._compare()) as calls:
            async for _ in calls:
                yield

    async def _list(self) -> AsyncGenerator[None]:
        """Read the queue's lists, unless that takes more calls than asking for each name."""
        calls = 0
        for again, status in [*((False, each) for each in (*ACTIVE, *_ENDED)), *((True, each) for each in _AGAIN)]:
            if again and not self._missing():
                break
            async with aclosing(self._pages(jobStatus=status, maxResults=MAX_ROWS)) as pages:
                async for _ in pages:
                    yield
                    calls += 1
                    if calls > len(self._found):
                        return
        self._complete = True

    async def _pages(self, **request: object) -> AsyncGenerator[None]:
        async with aclosing(list_jobs(self._connection, jobQueue=self._queue, **request)) as pages:
            async for rows in pages:
                for row in rows:
                    # The filter does not tell upper case from lower.
                    if (ids := self._found.get(row["jobName"])) is not None:
                        ids[row["jobId"]] = row.get("createdAt") or 0
                yield

    def _missing(self) -> list[str]:
        return [] if self._complete else [name for name, ids in self._found.items() if not ids]

    async def _compare(self) -> AsyncGenerator[None]:
        """Look at jobs that share a name: which of them are deleted."""
        doubled = {name: ids for name, ids in self._found.items() if len(ids) > 1}
        asked = [job_id for ids in doubled.values() for job_id in ids]
        alive: set[str] = set()
        for start in range(0, len(asked), MAX_IDS):
            rows = await fetch_rows(self._connection, asked[start : start + MAX_IDS])
            alive.update(job_id for job_id, row in rows.items() if TOMBSTONE.existing(row) is not None)
            yield
        self._deleted = set(asked) - alive
        for name, ids in doubled.items():
            if (count := len(alive.intersection(ids))) > 1:
                key = f"{self._queue}:{name}"
                _once.warn(key, "%s is the name of %d jobs: the newest is taken, %s", key, count, self.newest()[name])


def _newest(ids: Mapping[str, int], deleted: set[str]) -> str:
    return min(ids, key=lambda job_id: (job_id in deleted, -ids[job_id]))
