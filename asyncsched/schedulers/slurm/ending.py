"""Ending apps, and removing what is left of them."""

from __future__ import annotations

from asyncsched._tasks import finished_in_thread
from asyncsched.errors import UnavailableError
from asyncsched.schedulers.ending import not_ended
from asyncsched.schedulers.slurm import names
from asyncsched.schedulers.slurm.client import Cluster
from asyncsched.schedulers.slurm.errors import BACKEND, unwritable
from asyncsched.schedulers.slurm.lookup import Home, Lookup
from asyncsched.schedulers.slurm.submit import mark

__all__ = ["cancel", "delete"]


async def cancel(home: Home, lookup: Lookup, cluster: Cluster, app_id: str) -> None:
    """Have an app end: first a mark that outlives the cluster's memory, then the request."""
    app = await lookup.describe(app_id, "cancel")
    if app is None or app.state.is_terminal():
        return
    directory = await finished_in_thread(lambda: home.directory_of(app_id, "cancel"))
    if directory is None:
        return
    try:
        await finished_in_thread(lambda: mark(directory, names.CANCELLED, ""))
    except OSError as error:
        raise unwritable(directory, error, "cancel") from error
    await cluster.end([app.native_id] if app.native_id else ["--me", f"--name={app_id}"], "cancel")


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
