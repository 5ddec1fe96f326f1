"""Looking jobs up: which job an app id means, and what is known of many jobs in few calls."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from asyncsched.errors import AsyncSchedError, InvalidRequestError, NotFoundError, UnavailableError
from asyncsched.logs.budget import budget_of
from asyncsched.schedulers.aws_batch.client import Connection, Connections
from asyncsched.schedulers.aws_batch.errors import BACKEND
from asyncsched.schedulers.aws_batch.names import parse_app_id, queue_name
from asyncsched.schedulers.aws_batch.status import job_to_response, node_ids
from asyncsched.schedulers.aws_batch.status_rows import Row, part
from asyncsched.schedulers.port import Answers, as_answer
from asyncsched.schedulers.responses import DescribeAppResponse

__all__ = ["DELETED_TAG", "Jobs", "Known"]

#: Ids in one DescribeJobs, as AWS Batch accepts them.
MAX_IDS = 100
#: Apps of which job id and size are remembered.
MAX_KNOWN = 50_000
#: The largest array whose children are looked at one by one.
MAX_CHILDREN = 1000
#: How often a list begins anew because its page's token has expired.
MAX_EXPIRED = 10
#: AWS forgets jobs when it likes to; until then this tag says that an app has been deleted.
DELETED_TAG = "asyncsched/deleted"


@dataclass(slots=True)
class Known:
    """What is remembered of an app's job.

    Attributes:
        job_id: Its id.
        queue: Its queue's name, where that is known.
        where: The location that it was submitted to, where that is not the scheduler's own.
        children: The ids of its nodes or array children; None until it has been looked at.
        digest: What was asked for, where it was submitted here.
    """

    job_id: str
    queue: str = ""
    where: Mapping[str, str] = field(default_factory=dict[str, str])
    children: Sequence[str] | None = None
    digest: str = ""


class Jobs:
    """Reads jobs, by the ids of their apps.

    Args:
        connections: Where AWS is reached.
        seen: Told of every job that has been read, with the rows of its nodes.
    """

    def __init__(self, connections: Connections, seen: Callable[[str, Row, Mapping[str, Row]], None]) -> None:
        self._connections, self._seen = connections, seen
        self._known: OrderedDict[str, Known] = OrderedDict()

    def remember(self, app_id: str, known: Known) -> None:
        """Keep in mind which job an app is; the app that was used least recently goes."""
        self._known[app_id] = known
        self._known.move_to_end(app_id)
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)

    def forget(self, job_id: str) -> None:
        """Take note that a job is gone, so that its name is looked up again."""
        for app_id in [app_id for app_id, known in self._known.items() if known.job_id == job_id]:
            del self._known[app_id]

    def known(self, app_id: str) -> Known | None:
        """Return what is remembered of an app's job."""
        return self._known.get(app_id)

    def connection(self, known: Known) -> Connection:
        """Return the connection to where a job is."""
        return self._connections.at(known.where)

    async def find(self, app_id: str) -> Known | None:
        """Return the job that an app id means; None if there is none of that name.

        Raises:
            MalformedHandleError: The id has none of the accepted forms.
        """
        known = self._known.get(app_id)
        if known is not None:
            return known
        ref = parse_app_id(app_id)
        where = {"region": ref.region} if ref.region else {}
        if ref.job_id:
            known = Known(ref.job_id, ref.queue, where)
        else:
            known = await self._by_name(ref.queue, ref.name)
        if known is not None:
            self.remember(app_id, known)
        return known

    async def find_in_queue(self, connection: Connection, queue: str, name: str) -> str | None:
        """Return the id of the job of this very name in a queue."""
        filters = [{"name": "JOB_NAME", "values": [name]}]
        try:
            async with aclosing(self.listed(connection, jobQueue=queue, filters=filters)) as pages:
                async for rows in pages:
                    for row in rows:
                        if row["jobName"] == name:  # The filter does not tell upper case from lower.
                            return str(row["jobId"])
        except (NotFoundError, InvalidRequestError):
            pass  # No such queue, and so no such job.
        return None

    async def listed(self, connection: Connection, **request: object) -> AsyncGenerator[Sequence[Row]]:
        """Yield the pages of ListJobs; where a page's token has expired, those from the first one on again."""
        expired = 0
        while True:
            try:
                answer = await connection.call("batch", "ListJobs", "jobSummaryList", **request)
            except InvalidRequestError as error:
                expired += 1
                if request.pop("nextToken", None) is None:
                    raise
                if expired > MAX_EXPIRED:
                    raise UnavailableError(
                        "AWS's tokens for the next page of jobs expire at once",
                        why=error.why,
                        backend=BACKEND,
                        operation="ListJobs",
                    ) from error
                continue
            yield answer["jobSummaryList"]
            if not answer.get("nextToken"):
                return
            request["nextToken"] = answer["nextToken"]

    async def queues(self, connection: Connection) -> list[str]:
        """Return the names of all queues."""
        names: list[str] = []
        request: dict[str, object] = {}
        while True:
            answer = await connection.call("batch", "DescribeJobQueues", "jobQueues", **request)
            names += [row["jobQueueName"] for row in answer["jobQueues"]]
            if not answer.get("nextToken"):
                return names
            request["nextToken"] = answer["nextToken"]

    async def rows(self, connection: Connection, ids: Sequence[str]) -> dict[str, Row]:
        """Return the rows of up to a hundred jobs and nodes by id; unknown ones are left out."""
        answer = await connection.call("batch", "DescribeJobs", "jobs", jobs=list(ids))
        return {row["jobId"]: row for row in answer["jobs"]}

    async def describe(self, app_id: str) -> DescribeAppResponse | None:
        """Describe one app: one call, if it has fewer than a hundred nodes."""
        known = await self.find(app_id)
        if known is None:
            return None
        row, nodes = await self.read(known)
        return None if row is None else self._told(app_id, known, row, nodes)

    async def read(self, known: Known) -> tuple[Row | None, Mapping[str, Row]]:
        """Return a job's row, None if there is none, and those of its nodes or array children."""
        connection = self.connection(known)
        # Asking for nodes that do not exist costs nothing; asking again would cost a call.
        guess = [f"{known.job_id}#{k}" for k in range(MAX_IDS)] if known.children is None else known.children
        asked = {known.job_id: None, **dict.fromkeys(guess[: MAX_IDS - 1])}
        rows = await self.rows(connection, list(asked))
        row = _not_deleted(rows.get(known.job_id))
        if row is None:
            return None, {}
        missing = [child for child in self._children(row) if child not in asked]
        for more in await asyncio.gather(*(self.rows(connection, ids) for ids in _chunks(missing))):
            rows |= more
        return row, rows

    async def describe_all(self, app_ids: Iterable[str]) -> AsyncGenerator[Answers]:
        """Describe many apps, as many as possible with each call; one item for each call."""
        found: dict[str, Known] = {}
        budget = budget_of(asyncio.get_running_loop())
        budget.begin()
        for app_id in app_ids:
            await budget.breathe()  # Ten thousand ids are taken apart in more than one step.
            try:
                known = await self.find(app_id)
            except AsyncSchedError as error:
                yield {app_id: as_answer(error)}
                continue
            if known is None:
                yield {app_id: None}
            else:
                found[app_id] = known
        by_place: dict[Connection, dict[str, Known]] = {}
        for app_id, known in found.items():
            await budget.breathe()
            by_place.setdefault(self.connection(known), {})[app_id] = known
        for connection, apps in by_place.items():
            async for answers in self._describe_at(connection, apps):
                yield answers

    async def _describe_at(self, connection: Connection, apps: Mapping[str, Known]) -> AsyncGenerator[Answers]:
        again: dict[str, Known] = {}  # those that turn out to have nodes
        large: dict[str, Known] = {}
        for batch in _packed(apps):
            if len(batch) == 1 and _size(next(iter(batch.values()))) > MAX_IDS:
                large |= batch
                continue
            rows = await self.rows(connection, [i for known in batch.values() for i in _ids(known)])
            told: dict[str, DescribeAppResponse | AsyncSchedError | None] = {}
            for app_id, known in batch.items():
                row = _not_deleted(rows.get(known.job_id))
                if row is not None and known.children is None and self._children(row):
                    known.children = self._children(row)
                    again[app_id] = known
                else:
                    told[app_id] = None if row is None else self._told(app_id, known, row, rows)
            yield told
        for app_id in large:
            yield {app_id: await self.describe(app_id)}
        if again:
            async for answers in self._describe_at(connection, again):
                yield answers

    def _told(self, app_id: str, known: Known, row: Row, rows: Mapping[str, Row]) -> DescribeAppResponse:
        known.children = self._children(row)
        known.queue = queue_name(row["jobQueue"])
        self._seen(app_id, row, rows)
        return job_to_response(row, rows)

    async def _by_name(self, queue: str, name: str) -> Known | None:
        connection = self._connections.at()
        for candidate in [queue] if queue else await self.queues(connection):
            job_id = await self.find_in_queue(connection, candidate, name)
            if job_id is not None:
                return Known(job_id, candidate)
        return None

    @staticmethod
    def _children(row: Row) -> Sequence[str]:
        children = node_ids(row)
        return children if "nodeProperties" in row or len(children) <= MAX_CHILDREN else ()


def calls_to_describe(known: Iterable[Known | None]) -> int:
    """Return how many calls it takes to describe these, about."""
    return -(-sum(_size(each) if each is not None else 1 for each in known) // MAX_IDS)


def _not_deleted(row: Row | None) -> Row | None:
    return None if row is None or DELETED_TAG in part(row, "tags") else row


def _size(known: Known) -> int:
    return 1 + len(known.children or ())


def _ids(known: Known) -> Iterator[str]:
    yield known.job_id
    yield from known.children or ()


def _packed(apps: Mapping[str, Known]) -> Iterator[dict[str, Known]]:
    batch: dict[str, Known] = {}
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
