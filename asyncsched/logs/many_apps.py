"""Open the logs of several apps as one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Sequence

from asyncsched._tasks import gather_bounded, outlast
from asyncsched.errors import SchedulerError
from asyncsched.logs.engine import LogSink, OpenLogs
from asyncsched.logs.query import LogQuery

__all__ = ["Opening", "open_all", "open_growing"]

Opening = tuple[LogQuery, OpenLogs]
"""The query for one app, and the function that opens its logs."""

CLEANUP_TIMEOUT = 10.0

OPENED_AT_ONCE = 16
"""Apps to open at the same time when logs are read to their present end."""


async def open_all(openings: Sequence[Opening], query: LogQuery, sink: LogSink) -> None:
    """Open the logs of several apps; if one fails, the others are read to their end before the error is raised."""
    failed: list[SchedulerError] = []

    async def open_one(opening: Opening) -> None:
        await _open_one(opening, sink, failed)

    await gather_bounded(open_one, openings, len(openings) if query.tail else OPENED_AT_ONCE)
    if failed:
        raise failed[0]


async def open_growing(openings: AsyncIterable[Opening], sink: LogSink) -> None:
    """Open the logs of apps as they become known; errors are raised when all have been read."""
    failed: list[SchedulerError] = []
    tasks: set[asyncio.Task[None]] = set()
    try:
        async for opening in openings:
            task = asyncio.create_task(_open_one(opening, sink, failed))
            tasks.add(task)
            for done in [task for task in tasks if task.done()]:
                tasks.discard(done)
                done.result()
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await outlast(tasks, CLEANUP_TIMEOUT)
    if failed:
        raise failed[0]


async def _open_one(opening: Opening, sink: LogSink, failed: list[SchedulerError]) -> None:
    own, open_logs = opening
    beside = sink.beside(own.app_id)
    try:
        await open_logs(own, beside)
    except SchedulerError as error:
        beside.finish()
        error.add_note(f"The log of {own.app_id} could not be followed any further.")
        failed.append(error)
    beside.found()
