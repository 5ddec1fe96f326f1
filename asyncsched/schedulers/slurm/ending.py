"""End apps, and remove what is left of them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress

from asyncsched._tasks import finished_in_thread, gather_bounded
from asyncsched.errors import AsyncSchedError, SchedulerError, UnavailableError
from asyncsched.schedulers._common.pending import LateApp
from asyncsched.schedulers.ending import not_ended
from asyncsched.schedulers.responses import DescribeAppResponse
from asyncsched.schedulers.slurm import names
from asyncsched.schedulers.slurm.client import Cluster
from asyncsched.schedulers.slurm.errors import BACKEND
from asyncsched.schedulers.slurm.lookup import AppLinks, SlurmLookup, mark
from asyncsched.schedulers.slurm.status import alive
from asyncsched.specs.state import AppState

__all__ = ["cancel", "cancel_many", "delete", "give_up", "prune"]

MARKED_AT_ONCE = 16
PRUNED_AT_ONCE = 100


async def cancel(home: AppLinks, lookup: SlurmLookup, cluster: Cluster, app_id: str) -> None:
    """End an app: leave a mark that outlives the cluster's memory, then cancel the job."""
    error = (await cancel_many(home, lookup, cluster, [app_id]))[app_id]
    if error is not None:
        raise error


async def cancel_many(
    home: AppLinks, lookup: SlurmLookup, cluster: Cluster, app_ids: Collection[str]
) -> dict[str, SchedulerError | None]:
    """End apps as `cancel` does, with few commands; if one cannot be ended, the others are."""
    answers = await lookup.describe_many([*app_ids], "cancel")
    told: dict[str, SchedulerError | None] = dict.fromkeys(app_ids)

    async def begin(app_id: str) -> str | None:
        """Mark an app; return the number of its job if there is one to end."""
        app = answers[app_id]
        try:
            if isinstance(app, AsyncSchedError):
                raise app
            if app is None or app.state.is_terminal():
                return None
            await _marked(home, app_id, names.CANCELLED, "cancel")
            if not app.native_id:
                await cluster.end(["--me", f"--name={app_id}"], "cancel")
        except SchedulerError as error:
            told[app_id] = error
            return None
        return app.native_id or None

    numbers = dict(zip(app_ids, await gather_bounded(begin, [*app_ids], MARKED_AT_ONCE), strict=True))
    ended = await cluster.end_each([number for number in numbers.values() if number is not None], "cancel")
    return told | {app_id: ended[number] for app_id, number in numbers.items() if number is not None}


async def give_up(home: AppLinks, cluster: Cluster, late: Sequence[LateApp]) -> None:
    """End apps that have not run in time, except those that have started by now."""
    numbers = alive((await cluster.jobs("pending_timeout")).values())
    for app in late:
        await _marked(home, app.app_id, names.LATE, "pending_timeout")
    if jobs := [numbers[app.app_id] for app in late if app.app_id in numbers]:
        await cluster.end(["--state=PENDING", *jobs], "pending_timeout")


async def _marked(home: AppLinks, app_id: str, name: str, operation: str) -> None:
    """Leave a mark in an app's directory if possible: a replica may have removed the directory, or its permissions."""
    directory = await finished_in_thread(lambda: home.directory_of(app_id, operation))
    if directory is not None:
        with suppress(SchedulerError):  # the cluster reports the end anyway, as long as it knows the job
            await mark(directory, name, operation=operation)


async def delete(home: AppLinks, lookup: SlurmLookup, app_id: str) -> None:
    """Remove the directory of an app that has ended, or what is left of it."""
    app = await lookup.describe(app_id, "delete")
    if app is not None and not app.state.is_terminal():
        raise not_ended(app_id, BACKEND, app.msg)
    if await finished_in_thread(lambda: home.is_linked(app_id)):  # the directory may be on a network
        await _remove(home, lookup, app_id, "delete")


async def prune(home: AppLinks, lookup: SlurmLookup, ended_by: float, states: Collection[AppState]) -> list[str]:
    """Remove the apps that had ended by then, in seconds since the epoch, in one of these states."""
    removed: list[str] = []
    app_ids = await asyncio.to_thread(home.app_ids)
    for start in range(0, len(app_ids), PRUNED_AT_ONCE):
        answers = await lookup.describe_many(app_ids[start : start + PRUNED_AT_ONCE], "prune")
        for app_id, app in answers.items():
            if not isinstance(app, DescribeAppResponse) or app.state not in states:
                continue
            end, now = app.finished_at or app.created_at, await lookup.stored(app_id, "prune")
            # Another app may have its name by now.
            if end and end.timestamp() <= ended_by and now is not None and now.record == app.native:
                await _remove(home, lookup, app_id, "prune")
                removed.append(app_id)
    return removed


async def _remove(home: AppLinks, lookup: SlurmLookup, app_id: str, operation: str) -> None:
    directory = await finished_in_thread(lambda: home.directory_of(app_id, operation))
    await finished_in_thread(lambda: home.remove(app_id, directory))
    if await lookup.stored(app_id, operation) is not None:
        raise UnavailableError(
            f"cannot remove {app_id}",
            why="some of its files could not be deleted",
            fix=f"check who uses the files in {directory}",
            backend=BACKEND,
            operation=operation,
        )
