"""Ending apps, and removing what is left of them."""

from __future__ import annotations

from collections.abc import Sequence

from asyncsched._tasks import finished_in_thread
from asyncsched.errors import UnavailableError
from asyncsched.schedulers._common.pending import LateApp
from asyncsched.schedulers.ending import not_ended
from asyncsched.schedulers.slurm import names
from asyncsched.schedulers.slurm.client import Cluster
from asyncsched.schedulers.slurm.errors import BACKEND, unwritable
from asyncsched.schedulers.slurm.lookup import Home, Lookup
from asyncsched.schedulers.slurm.status import alive
from asyncsched.schedulers.slurm.submit import mark

__all__ = ["cancel", "delete", "give_up"]


async def cancel(home: Home, lookup: Lookup, cluster: Cluster, app_id: str) -> None:
    """Have an app end: first a mark that outlives the cluster's memory, then the request."""
    app = await lookup.describe(app_id, "cancel")
    if app is not None and not app.state.is_terminal() and await _marked(home, app_id, names.CANCELLED, "cancel"):
        await cluster.end([app.native_id] if app.native_id else ["--me", f"--name={app_id}"], "cancel")


async def give_up(home: Home, cluster: Cluster, late: Sequence[LateApp]) -> None:
    """Have apps end that have not run in time, but for those that have started meanwhile."""
    numbers = alive((await cluster.jobs("pending_timeout")).values())
    marked = [app.app_id for app in late if await _marked(home, app.app_id, names.LATE, "pending_timeout")]
    if jobs := [numbers[app_id] for app_id in marked if app_id in numbers]:
        await cluster.end(["--state=PENDING", *jobs], "pending_timeout")


async def _marked(home: Home, app_id: str, name: str, operation: str) -> bool:
    """Leave a mark in an app's directory; tell whether there is one."""
    directory = await finished_in_thread(lambda: home.directory_of(app_id, operation))
    if directory is None:
        return False
    try:
        await finished_in_thread(lambda: mark(directory, name, ""))
    except OSError as error:
        raise unwritable(directory, error, operation) from error
    return True


async def delete(home: Home, lookup: Lookup, app_id: str) -> None:
    """Remove the directory of an app that has ended."""
    app = await lookup.describe(app_id, "delete")
    if app is None:
        return
    if not app.state.is_terminal():
        raise not_ended(app_id, BACKEND, app.msg)
    directory = await finished_in_thread(lambda: home.directory_of(app_id, "delete"))
    if directory is not None:
        await finished_in_thread(lambda: home.remove(app_id, directory))
    if await lookup.stored(app_id, "delete") is not None:
        raise UnavailableError(
            f"{app_id} could not be removed",
            why="some of its files are still there",
            fix=f"see who holds them in {directory}",
            backend=BACKEND,
            operation="delete",
        )
