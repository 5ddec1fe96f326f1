"""The logs of several apps, opened as one."""

from __future__ import annotations

from collections.abc import Sequence

from asyncsched._tasks import gather_bounded
from asyncsched.errors import SchedulerError
from asyncsched.logs.core import LogSink, OpenLogs
from asyncsched.logs.select import LogQuery

__all__ = ["Opening", "open_all"]

Opening = tuple[LogQuery, OpenLogs]
"""What is asked of one app, and what opens it."""

OPENED_AT_ONCE = 16
"""Apps that are looked up at the same time, when the logs of many are read to their present end."""


async def open_all(openings: Sequence[Opening], query: LogQuery, sink: LogSink) -> None:
    """Open several apps' logs at once; when a service fails, the other apps' logs are read to their end first."""
    failed: list[SchedulerError] = []

    async def open_one(opening: Opening) -> None:
        own, open_logs = opening
        beside = sink.beside(own.app_id)
        try:
            await open_logs(own, beside)
        except SchedulerError as error:
            beside.finish()
            error.add_note(f"The log of {own.app_id} could not be followed any further.")
            failed.append(error)

    await gather_bounded(open_one, openings, len(openings) if query.tail else OPENED_AT_ONCE)
    if failed:
        raise failed[0]
