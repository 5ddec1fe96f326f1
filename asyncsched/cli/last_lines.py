"""The last lines of the first failed replica, bounded in number and time."""

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
"""How many seconds to wait for lines: a status must not hang on slow logs."""

NOTHING = "(wrote nothing)"
UNREAD = "(its log could not be read)"


async def last_lines(runner: Runner, handle: AppHandle, replica: ReplicaStatus, count: int) -> tuple[str, list[str]]:
    """Return ``stderr`` and its last lines, or ``log`` and the last lines of all output if stderr is empty.

    A name without lines means that the replica wrote nothing; no name means that its log could not be read. Errors are
    not raised, because they are not part of the app's status.
    """
    try:
        async with asyncio.timeout(WITHIN):
            scheduler = await runner.scheduler(handle.scheduler)
            read = ""
            for stream in (Stream.STDERR, None):  # None is all output
                try:
                    lines = scheduler.log_iter(
                        handle.app_id, replica.role, replica.id, streams=stream, tail_lines=count
                    )
                    async with lines:
                        found = [text async for line in lines if (text := _plain(line))]
                except AsyncSchedError:
                    continue  # streams cannot be separated, or the log is gone
                read = "stderr" if stream else "log"
                if found:
                    return read, found[-count:]
            return read, []
    except Exception:  # noqa: BLE001 - including a plugin's errors: the status is shown anyway
        _log.debug("the last lines of %s/%s/%d could not be read", handle, replica.role, replica.id, exc_info=True)
    return "", []


def _plain(line: str) -> str:
    """Return what a terminal shows of a line, without colours."""
    text = re.sub(r"\x1b\[[0-9;:]*m", "", Cleaner().clean(line))
    return text.rstrip().rpartition("\r")[2]


async def with_last_lines(runner: Runner, views: Iterable[AppView]) -> dict[str, AppView]:
    """Return the apps by handle, failed ones with the last line of their first failed replica."""
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
