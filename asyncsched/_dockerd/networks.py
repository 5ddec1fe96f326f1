"""Create the one shared network once, even if many processes want to create it at the same moment.

A daemon allows several networks of the same name: its own check for duplicates misses one that is being created
(measured: 12 simultaneous requests create 12 networks). So the processes of this machine take turns. If there are
several networks of the name all the same (created from several machines), each process uses the oldest and removes the
others.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from asyncsched._dockerd.client import Daemon
from asyncsched.errors import ConflictError, PermissionDeniedError, SchedulerError, UnavailableError

__all__ = ["ensure_network"]

_PAUSE = 0.02
_PATIENCE = 10.0


async def ensure_network(daemon: Daemon, name: str, labels: Mapping[str, str], *, operation: str) -> str:
    """Return the id of the bridge network of this name; create it if there is none.

    Cancelling may leave the network, which is shared and stays.
    """
    found = await daemon.find_networks(name, operation=operation)
    if len(found) == 1:
        return found[0]
    async with _in_turn(f"asyncsched-network-{name}"):
        found = await daemon.find_networks(name, operation=operation)
        if not found:
            await daemon.repeated(lambda: _create(daemon, name, labels, operation))
            found = await daemon.find_networks(name, operation=operation)
        oldest, *others = found
        for other in others:
            # With two networks of a name, the daemon starts no container in either of them.
            with contextlib.suppress(PermissionDeniedError, ConflictError):  # it is in use
                await daemon.remove_network(other, operation=operation)
        return oldest


async def _create(daemon: Daemon, name: str, labels: Mapping[str, str], operation: str) -> None:
    try:
        await daemon.create_network(name, labels, operation=operation)
    except UnavailableError:
        # It may still be created: do not request a second one before that is clear.
        for pause in (0.1, 0.3, 0.6):
            await asyncio.sleep(pause)
            if await daemon.find_networks(name, operation=operation):
                return
        raise
    except SchedulerError as error:
        if "address pool" not in error.why:
            raise
        raise SchedulerError(
            error.what,
            why="the daemon has no address range left for another network",
            fix="remove unused networks with `docker network prune`",
            backend=error.backend,
            operation=operation,
        ) from error


@asynccontextmanager
async def _in_turn(name: str) -> AsyncGenerator[None]:
    """Hold a lock among the processes of this machine while the body runs.

    The name of an abstract socket can be taken only once, needs no file, and is free again when its process ends in any
    way. If abstract sockets do not exist, or the holder does not finish, the body runs without the lock.
    """
    if sys.platform != "linux":
        yield
        return
    with socket.socket(socket.AF_UNIX) as holder:
        deadline = asyncio.get_running_loop().time() + _PATIENCE
        while asyncio.get_running_loop().time() < deadline:
            try:
                holder.bind(f"\0{name[:100]}")
                break
            except OSError:
                await asyncio.sleep(_PAUSE)
        yield
