"""All apps of this account and region, newest first."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncGenerator, Sequence

from asyncsched.schedulers.aws_batch.client import AWSConnection
from asyncsched.schedulers.aws_batch.lookup_calls import TOMBSTONE, fetch_rows, list_jobs, list_queues
from asyncsched.schedulers.aws_batch.request import DEFINITION_PREFIX
from asyncsched.schedulers.aws_batch.status import list_row
from asyncsched.schedulers.aws_batch.status_rows import Row
from asyncsched.schedulers.responses import ListAppResponse

__all__ = ["list_apps"]


async def list_apps(connection: AWSConnection) -> AsyncGenerator[ListAppResponse]:
    """Yield a row for each app in any queue, newest first; two calls for a hundred apps, made as they are needed."""
    pages = [_Queue(connection, queue) for queue in await list_queues(connection)]
    try:
        async for row in _merged(pages):
            yield list_row(row)
    finally:
        for queue in pages:
            await queue.aclose()


async def _merged(pages: Sequence[_Queue]) -> AsyncGenerator[Row]:
    await asyncio.gather(*(queue.fill() for queue in pages))
    heap = [(-queue.rows[-1]["createdAt"], number) for number, queue in enumerate(pages) if queue.rows]
    heapq.heapify(heap)
    while heap:
        queue = pages[heap[0][1]]
        yield queue.rows.pop()
        await queue.fill()
        if queue.rows:
            heapq.heapreplace(heap, (-queue.rows[-1]["createdAt"], heap[0][1]))
        else:
            heapq.heappop(heap)


class _Queue:
    """The jobs of one queue that were made by us, page by page; `rows` ends with the newest."""

    def __init__(self, connection: AWSConnection, queue: str) -> None:
        self._connection = connection
        filters = [{"name": "JOB_DEFINITION", "values": [f"{DEFINITION_PREFIX}*"]}]
        self._pages = list_jobs(connection, jobQueue=queue, filters=filters)
        self._over = False
        self._told: set[str] = set()  # A list that begins anew repeats jobs.
        self.rows: list[Row] = []

    async def aclose(self) -> None:
        await self._pages.aclose()

    async def fill(self) -> None:
        while not self.rows and not self._over:
            page = await anext(self._pages, None)
            self._over = page is None
            ids = [row["jobId"] for row in page or () if row["jobId"] not in self._told]
            self._told.update(ids)
            # The list shows no tags, and those say whose job it is.
            details = await fetch_rows(self._connection, ids) if ids else {}
            shown = (details[job_id] for job_id in reversed(ids) if job_id in details)
            self.rows = TOMBSTONE.all_existing(shown)
