"""End apps, read their results, and remove them."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import time
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial

from asyncsched._platform import WANTS
from asyncsched._tasks import outlast
from asyncsched.errors import AsyncSchedError, SchedulerError, UnavailableError
from asyncsched.logs.open_files import open_directory, open_file
from asyncsched.schedulers.ending import not_ended
from asyncsched.schedulers.hooks import TERMINAL
from asyncsched.schedulers.local.client import Supervisors
from asyncsched.schedulers.local.errors import SupervisorGoneError, failed
from asyncsched.schedulers.local.lookup import Apps, FoundApp, LookupResult, described
from asyncsched.schedulers.local.state_dir import StateDir, Stored
from asyncsched.schedulers.local.status import SupervisorState, describe_app
from asyncsched.schedulers.local.status_record import BACKEND, AppRecord, ReplicaRecord, SpoiltError
from asyncsched.schedulers.local.supervisor.files import read_opened
from asyncsched.schedulers.local.supervisor.formats import APPS, RESULT
from asyncsched.specs.result import LARGEST_RESULT, UnreadableResult, read_result
from asyncsched.specs.state import AppState
from asyncsched.specs.to_plain import JsonValue

__all__ = ["FirstPrune", "ask_found_to_end", "ask_to_end", "delete", "prune", "read_results"]

_log = logging.getLogger("asyncsched.schedulers.local")

AT_ONCE = 100


async def ask_to_end(apps: Apps, supervisors: Supervisors, operation: str, app_id: str) -> None:
    """Have a supervisor end an app; do nothing if the app is unknown or has ended.

    Args:
        apps: Finds the app.
        supervisors: Connects to its supervisor.
        operation: ``cancel``, or ``kill`` to end it at once.
        app_id: The app.
    """
    await ask_found_to_end(supervisors, operation, app_id, await apps.find_one(app_id))


async def ask_found_to_end(supervisors: Supervisors, operation: str, app_id: str, found: LookupResult) -> None:
    """Do the same for an app that was already looked up."""
    if isinstance(found, AsyncSchedError):
        raise found
    if found is None or found.record.finished_ns is not None:
        return
    if found.supervisor_state is SupervisorState.ELSEWHERE:
        raise SchedulerError(
            f"cannot {operation} {app_id} from here",
            why=f"it runs on {found.record.host}",
            fix="do it there",
            backend=BACKEND,
            operation=operation,
        )
    if not found.is_open:
        return  # its supervisor is gone, and what is left of the app is being ended
    try:
        async with supervisors.ask(found.record.supervisor) as connection:
            await connection.ask(operation, app_id=app_id)
    except SupervisorGoneError:
        return  # the supervisor has ended meanwhile, and the app with it


async def delete(home: StateDir, apps: Apps, app_id: str) -> None:
    """Remove an app that has ended, or whose record is damaged, or what an earlier removal has left of it."""
    found = (await apps.find([app_id]))[app_id]
    if isinstance(found, AsyncSchedError) and not isinstance(found, SpoiltError):
        raise found  # the app may be running: another release could read its record
    if isinstance(found, FoundApp) and not (await described(found)).state.is_terminal():
        raise not_ended(app_id, BACKEND, "a replica of it is running")
    if found is None:
        await asyncio.to_thread(apps.remove_unfinished, app_id)
        return
    await asyncio.to_thread(home.remove, Stored(app_id, found.record if isinstance(found, FoundApp) else found))


async def prune(
    home: StateDir, apps: Apps, older_than: timedelta, *, keep: int = 0, states: Collection[AppState] = TERMINAL
) -> list[str]:
    """Remove apps that ended in these states longer ago than this; return their ids.

    Args:
        home: The state directory.
        apps: Finds the apps that have ended.
        older_than: How long ago they must have ended.
        keep: How many of the newest ended apps to keep, whatever their age.
        states: The final states of apps to remove.
    """
    limit = time.time() - older_than.total_seconds()
    app_ids = await asyncio.to_thread(_worth_a_look, home, limit, keep)
    await asyncio.to_thread(apps.remove_all_unfinished)
    ended: list[tuple[float, Stored]] = []
    for start in range(0, len(app_ids), AT_ONCE):
        found = await apps.find(app_ids[start : start + AT_ONCE])
        ended += await asyncio.to_thread(_ends, found, states)
        for app_id in [app_id for app_id, each in found.items() if each is None]:
            await asyncio.to_thread(apps.remove_unfinished, app_id)
    ended.sort(key=lambda each: (each[0], each[1].app_id), reverse=True)
    removed = [stored for end, stored in ended[keep:] if end <= limit]
    for stored in removed:
        await asyncio.to_thread(home.remove, stored)
    return [stored.app_id for stored in removed]


class FirstPrune:
    """Removes old apps, once, in a background task.

    Args:
        home: The state directory.
        apps: Tells what has ended.
        older_than: How long ago.
        keep: How many of the newest apps to keep, whatever their age.
    """

    def __init__(self, home: StateDir, apps: Apps, older_than: timedelta, keep: int) -> None:
        self._work = partial(prune, home, apps, older_than, keep=keep)
        self._task: asyncio.Task[list[str]] | None = None

    def start(self) -> None:
        """Start, unless it was started before."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work(), context=contextvars.Context())
            self._task.add_done_callback(_log_failure)

    async def close(self, timeout: float) -> None:
        """Stop it."""
        if self._task is not None:
            self._task.cancel()
            await outlast([self._task], timeout)


def _log_failure(task: asyncio.Task[list[str]]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.warning("old apps could not be removed: %s", error)


def _worth_a_look(home: StateDir, limit: float, keep: int) -> list[str]:
    """Return all apps, or none if none can be old enough, because records of ended apps do not change."""
    app_ids = home.app_ids()
    if len(app_ids) <= keep:
        return []
    changed = [home.changed_at(app_id) for app_id in app_ids]
    return app_ids if any(at is not None and at <= limit for at in changed) else []


def _ends(found: Mapping[str, LookupResult], states: Collection[AppState]) -> list[tuple[float, Stored]]:
    return [end for app_id, each in found.items() if isinstance(each, FoundApp) for end in _end(app_id, each, states)]


def _end(app_id: str, found: FoundApp, states: Collection[AppState]) -> list[tuple[float, Stored]]:
    described = describe_app(found.record, found.supervisor_state, found.is_alive)
    if described.state not in states:
        return []
    end: datetime | None = described.finished_at or described.created_at
    return [(end.timestamp() if end else 0.0, Stored(app_id, found.record))]


def read_results(home: StateDir, record: AppRecord) -> dict[tuple[str, int], JsonValue]:
    """Read the results of an app's replicas; call it in a thread."""
    return {
        (each.role, each.k): read_result(found) if isinstance(found, bytes) else found
        for each in record.replicas
        if (found := _read_result(home, record.app_id, each)) is not None
    }


def _read_result(home: StateDir, app_id: str, replica: ReplicaRecord) -> bytes | UnreadableResult | None:
    try:
        with _result_directory(home, app_id, replica) as at:
            return _read_file(at, replica)
    except FileNotFoundError:
        return None
    except UnavailableError:
        raise
    except (OSError, SchedulerError) as error:
        if isinstance(error, OSError) and error.errno in WANTS:
            raise failed(f"the result of {replica.role}/{replica.k} cannot be read", error) from error
        return UnreadableResult(f"the result cannot be read: {getattr(error, 'strerror', None) or error}")


@contextmanager
def _result_directory(home: StateDir, app_id: str, replica: ReplicaRecord) -> Generator[int]:
    fd = open_directory(replica.logs) if replica.logs else home.open_below(APPS, app_id, replica.directory)
    try:
        yield fd
    finally:
        os.close(fd)


def _read_file(at: int, replica: ReplicaRecord) -> bytes | None:
    fd = open_file(RESULT, at=at)
    try:
        found = os.fstat(fd)
        if replica.result_of_another == (found.st_ino, found.st_mtime_ns, found.st_size):
            return None  # left by an earlier app of the same key, in a directory that the user named
        return read_opened(fd, LARGEST_RESULT + 1)
    finally:
        os.close(fd)
