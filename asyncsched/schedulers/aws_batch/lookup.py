"""Look up one or many jobs in few calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeAlias

from asyncsched.errors import AsyncSchedError
from asyncsched.logs.loop_time import budget_of
from asyncsched.schedulers.aws_batch.client import AWSConnection, Connections
from asyncsched.schedulers.aws_batch.lookup_calls import MAX_IDS, TOMBSTONE, fetch_rows
from asyncsched.schedulers.aws_batch.lookup_names import JobNames, KnownJob
from asyncsched.schedulers.aws_batch.names import queue_name
from asyncsched.schedulers.aws_batch.status import describe_app
from asyncsched.schedulers.aws_batch.status_rows import Row, node_ids
from asyncsched.schedulers.responses import DescribeAppResponse
from asyncsched.schedulers.state_reports import Answers

__all__ = ["AWSJobs", "ReadAWSJob", "calls_to_describe"]

Seen: TypeAlias = Callable[[str, AWSConnection, Row, Mapping[str, Row]], None]

MAX_CHILDREN = 1000
"""The largest array whose children are read one by one."""


@dataclass(frozen=True, slots=True)
class ReadAWSJob:
    """A job and its data.

    Attributes:
        known: The id and location of the job.
        row: Its row of DescribeJobs.
        nodes: The rows of its nodes or array children, by id.
    """

    known: KnownJob
    row: Row
    nodes: Mapping[str, Row]


class AWSJobs:
    """Reads jobs by app id.

    Args:
        connections: The connections to AWS.
        seen: Called for every job that was read, with its app, connection and row, and the rows of its nodes.

    Attributes:
        names: Finds jobs by app id.
    """

    def __init__(self, connections: Connections, seen: Seen) -> None:
        self.names = JobNames(connections)
        self._seen = seen

    async def describe(self, app_id: str) -> DescribeAppResponse | None:
        """Describe one app, in one call if it has fewer than a hundred nodes."""
        job = await self.look(app_id)
        return None if job is None else self._describe_job(app_id, job)

    async def look(self, app_id: str) -> ReadAWSJob | None:
        """Read an app's job; return None if it does not exist or is deleted.

        The name is looked up again if another job may have it by now.
        """
        known = await self.names.find(app_id)
        job = None if known is None else await self._read(known)
        if job is None and known is not None and self.names.stale([app_id]):
            again = await self.names.find(app_id)
            if again is not None and again.job_id != known.job_id:
                return await self._read(again)
        return job

    async def _read(self, known: KnownJob) -> ReadAWSJob | None:
        connection = self.names.connection(known)
        # Asking for nodes that do not exist is free; asking again would be another call.
        guess = [f"{known.job_id}#{k}" for k in range(MAX_IDS)] if known.children is None else known.children
        asked = {known.job_id: None, **dict.fromkeys(guess[: MAX_IDS - 1])}
        rows = await fetch_rows(connection, list(asked))
        row = TOMBSTONE.existing(rows.get(known.job_id))
        if row is None:
            return None
        missing = [child for child in self._children(row) if child not in asked]
        for more in await asyncio.gather(*(fetch_rows(connection, ids) for ids in _chunks(missing))):
            rows |= more
        return ReadAWSJob(known, row, rows)

    async def describe_all(self, app_ids: Iterable[str]) -> AsyncGenerator[Answers]:
        """Describe many apps, as many as possible per call; yield one item per call."""
        wanted = list(app_ids)
        gone: list[str] = []
        async with aclosing(self._describe_all(wanted)) as sweep:
            async for answers in sweep:
                gone += [app_id for app_id, answer in answers.items() if answer is None]
                yield answers
        # If a job is gone, another job may have its name.
        if again := self.names.stale(gone):
            async with aclosing(self._describe_all(again)) as sweep:
                async for answers in sweep:
                    yield answers

    async def _describe_all(self, app_ids: Sequence[str]) -> AsyncGenerator[Answers]:
        found: dict[str, KnownJob] = {}
        async with aclosing(self.names.find_all(app_ids)) as names:
            async for answers in names:
                others: dict[str, AsyncSchedError | None] = {}
                for app_id, known in answers.items():
                    if isinstance(known, KnownJob):
                        found[app_id] = known
                    else:
                        others[app_id] = known
                if others or not answers:
                    yield others
        by_place: dict[AWSConnection, dict[str, KnownJob]] = {}
        budget = budget_of(asyncio.get_running_loop())
        budget.begin()
        for app_id, known in found.items():
            await budget.breathe()  # Ten thousand apps take more than one step.
            by_place.setdefault(self.names.connection(known), {})[app_id] = known
        for connection, apps in by_place.items():
            async with aclosing(self._describe_at(connection, apps)) as sweep:
                async for described in sweep:
                    yield described

    async def _describe_at(self, connection: AWSConnection, apps: Mapping[str, KnownJob]) -> AsyncGenerator[Answers]:
        again: dict[str, KnownJob] = {}  # apps that turn out to have nodes
        large: dict[str, KnownJob] = {}
        budget = budget_of(asyncio.get_running_loop())
        for batch in _packed(apps):
            if len(batch) == 1 and _size(next(iter(batch.values()))) > MAX_IDS:
                large |= batch
                continue
            rows = await fetch_rows(connection, [i for known in batch.values() for i in _ids(known)])
            described: dict[str, DescribeAppResponse | AsyncSchedError | None] = {}
            budget.begin()
            for app_id, known in batch.items():
                await budget.breathe()  # A hundred descriptions take more than one step.
                row = TOMBSTONE.existing(rows.get(known.job_id))
                if row is not None and known.children is None and self._children(row):
                    known.children = self._children(row)
                    again[app_id] = known
                else:
                    described[app_id] = (
                        None if row is None else self._describe_job(app_id, ReadAWSJob(known, row, rows))
                    )
            yield described
        for app_id in large:
            yield {app_id: await self.describe(app_id)}
        if again:
            async for answers in self._describe_at(connection, again):
                yield answers

    def _describe_job(self, app_id: str, job: ReadAWSJob) -> DescribeAppResponse:
        known, row = job.known, job.row
        known.children = self._children(row)
        known.queue = queue_name(row["jobQueue"])
        # The answer has many jobs: keep only this one.
        nodes = {child: job.nodes[child] for child in known.children if child in job.nodes}
        self._seen(app_id, self.names.connection(known), row, nodes)
        response = describe_app(row, nodes)
        response.native = ReadAWSJob(known, row, nodes)
        return response

    @staticmethod
    def _children(row: Row) -> Sequence[str]:
        children = node_ids(row)
        return children if "nodeProperties" in row or len(children) <= MAX_CHILDREN else ()


def calls_to_describe(known: Iterable[KnownJob | None]) -> int:
    """Return the approximate number of calls to describe these apps."""
    return -(-sum(_size(each) if each is not None else 1 for each in known) // MAX_IDS)


def _size(known: KnownJob) -> int:
    return 1 + len(known.children or ())


def _ids(known: KnownJob) -> Iterator[str]:
    yield known.job_id
    yield from known.children or ()


def _packed(apps: Mapping[str, KnownJob]) -> Iterator[dict[str, KnownJob]]:
    batch: dict[str, KnownJob] = {}
    room = MAX_IDS
    for app_id, known in apps.items():
        if batch and _size(known) > room:
            yield batch
            batch, room = {}, MAX_IDS
        batch[app_id] = known
        room -= _size(known)
    if batch:
        yield batch


def _chunks(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), MAX_IDS):
        yield ids[start : start + MAX_IDS]
