"""What the first replica that failed wrote last: bounded in lines and in time."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable

from asyncsched.cli.control_sequences import Cleaner
from asyncsched.cli.run_async import answers
from asyncsched.errors import AsyncSchedError
from asyncsched.runner.runner import Runner
from asyncsched.specs.handle import AppHandle
from asyncsched.specs.state import ReplicaStatus
from asyncsched.specs.stream import Stream
from asyncsched.views.apps import AppView
from asyncsched.views.replicas import first_failure

_log = logging.getLogger("asyncsched.cli")

__all__ = ["NOTHING", "UNREAD", "WITHIN", "last_lines", "with_last_lines"]

WITHIN = 5.0
"""So many seconds are waited for lines: a status must not hang because logs are slow."""

NOTHING = "(wrote nothing)"
UNREAD = "(its log could not be read)"


async def last_lines(runner: Runner, handle: AppHandle, replica: ReplicaStatus, count: int) -> tuple[str, list[str]]:
    """Return the last lines of a replica's stderr, with that name; of all that it wrote where that has none.

    No lines, and the name of what was read, say that it wrote nothing; no name says that its log could not be read.
    Nothing is raised: why there is nothing to show is no part of how an app is doing.
    """
    try:
        async with asyncio.timeout(WITHIN):
            scheduler = await runner.scheduler(handle.scheduler)
            read = ""
            for stream in (Stream.STDERR, None):  # the stream that is asked for last is all that it wrote
                try:
                    lines = scheduler.log_iter(
                        handle.app_id, replica.role, replica.id, streams=stream, tail_lines=count
                    )
                    async with lines:
                        found = [text async for line in lines if (text := _plain(line))]
                except AsyncSchedError:
                    continue  # its streams are one, or its log is gone
                read = "stderr" if stream else "log"
                if found:
                    return read, found[-count:]
            return read, []
    except Exception:  # noqa: BLE001 - a plugin's own, too: how the app is doing is told all the same
        _log.debug("the last lines of %s/%s/%d could not be read", handle, replica.role, replica.id, exc_info=True)
    return "", []


def _plain(line: str) -> str:
    """Return what of a line stays on a screen, without its colours."""
    text = re.sub(r"\x1b\[[0-9;:]*m", "", Cleaner().clean(line))
    return text.rstrip().rpartition("\r")[2]


async def with_last_lines(runner: Runner, views: Iterable[AppView]) -> dict[str, AppView]:
    """Return apps that failed with what the first failure of each wrote last, by their handles."""
    several = {view.handle: view for view in views}

    async def read(handle: str) -> AppView:
        view = several[handle]
        failed = first_failure(view.replicas)
        if failed is None:
            return view
        stream, lines = await last_lines(runner, AppHandle(handle), failed, 1)
        return view.with_last_line(lines[-1] if lines else NOTHING if stream else UNREAD)

    told = await answers(read, several)
    return {handle: several[handle] if isinstance(answer, Exception) else answer for handle, answer in told.items()}
