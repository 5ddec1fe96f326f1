"""Saves the logs of a group's jobs to files from their start, because logs of deleted apps cannot be read later."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from asyncsched._streams import Waiter
from asyncsched._tasks import finished_in_thread
from asyncsched.errors import AsyncSchedError, ConfigError, UnknownAppError
from asyncsched.runner.groups.kept_files import KeptApp, check_writable, plain_name
from asyncsched.runner.groups.settings import KEEPING_GRACE
from asyncsched.specs.handle import AppHandle

if TYPE_CHECKING:
    from pathlib import Path

    from asyncsched.runner.groups.engine import Engine

__all__ = ["LogKeeper"]

AT_ONCE = 256
"""Apps that are followed at a time, at most; others wait for their turn."""

WRITTEN_AT_ONCE = 4
"""Files that are open at a time, at most: each only while it is written."""

BATCH = 256 * 1024
"""Bytes that are kept back for one write, at most."""

TRIES = 3
PAUSE = 5.0
"""How often a log is asked for that breaks off, and the seconds between; a disk that is full is tried that often."""

_log = logging.getLogger("asyncsched.runner")


class LogKeeper:
    """Saves the log of every app of a group to files, one for each replica and stream.

    Args:
        engine: The engine of the group.
        folder: The parent of the folders to create.

    Attributes:
        lost: Why saved logs are incomplete, by app.
    """

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.lost: dict[AppHandle, Exception] = {}
        self._engine = engine
        self._base = folder
        self._folder = folder / plain_name(engine.settings.name)
        self._told = self._ended = 0  # of the engine's handles, and of the jobs that are over
        self._known: set[AppHandle] = set()
        self._todo: deque[tuple[AppHandle, str]] = deque()
        self._busy: dict[AppHandle, asyncio.Task[None]] = {}
        self._writes = asyncio.Semaphore(WRITTEN_AT_ONCE)
        self._has_warned = False

    async def open(self) -> None:
        """Create the folder.

        Raises:
            ConfigError: It cannot be written to.
        """
        try:
            await finished_in_thread(lambda: check_writable(self._base))
        except OSError as error:
            raise ConfigError(
                f"keep_logs must be a folder that can be written to, got {str(self._base)!r}", why=str(error)
            ) from error

    def wake(self) -> None:
        """Start with new apps: launched or found ones, and those of jobs that had already ended."""
        engine = self._engine
        while self._told < len(engine.handles):
            flight = engine.flights.get(engine.handles[self._told])
            if flight is not None:
                self._take(flight.handle, flight.of.name)
            self._told += 1
        while self._ended < len(engine.ledger.ended):
            job = engine.ledger.ended[self._ended]
            for handle in job.attempts:
                self._take(handle, job.name)
            self._ended += 1
        self._fill()

    def _take(self, handle: AppHandle, name: str) -> None:
        if handle not in self._known:
            self._known.add(handle)
            self._todo.append((handle, name))

    def _fill(self) -> None:
        while self._todo and len(self._busy) < AT_ONCE and self._engine.error is None:
            handle, name = self._todo.popleft()
            app = KeptApp(self._folder / plain_name(name) / plain_name(handle.app_id))
            task = self._busy[handle] = self._engine.tasks.spawn(self._keep(handle, app), f"log of {handle.app_id}")
            task.add_done_callback(partial(self._gone, handle))

    def _gone(self, handle: AppHandle, _: object) -> None:
        self._busy.pop(handle, None)
        self._fill()
        self._engine.ledger.wake()

    async def _keep(self, handle: AppHandle, app: KeptApp) -> None:
        try:
            if not await self._disk(app.is_complete):
                await self._read(handle, app)
        except asyncio.CancelledError:
            self.lost.setdefault(handle, AsyncSchedError("the group was left before its log had been read to its end"))
            raise
        except Exception as error:  # noqa: BLE001 - the other logs are kept all the same
            self._miss(handle, error)

    async def _read(self, handle: AppHandle, app: KeptApp) -> None:
        for left in reversed(range(TRIES)):
            app = KeptApp(app.folder)  # the log begins at its start again: what is there is compared with it
            try:
                async with self._engine.host.log_lines(handle, {"should_tail": True}) as lines:
                    async for line in lines:
                        app.add(line)
                        if app.waiting > BATCH or not lines.statistics().waiting:
                            await self._disk(app.flush)
                await self._disk(app.finish)
            except UnknownAppError:
                raise
            except AsyncSchedError:
                if not left:
                    raise
                await self._engine.host.clock.sleep(PAUSE)
            else:
                return

    async def _disk(self, call: Callable[[], object]) -> object:
        """Do file operations in a thread, and retry, because a full disk may have space later."""
        for left in reversed(range(TRIES)):
            try:
                async with self._writes:
                    return await finished_in_thread(call)
            except OSError:
                if not left:
                    raise
            await self._engine.host.clock.sleep(PAUSE)
        raise AssertionError

    def _miss(self, handle: AppHandle, error: Exception) -> None:
        self.lost[handle] = error
        if not self._has_warned:
            self._has_warned = True
            _log.warning(
                "group %s: the log of %s is not kept to its end, and others may not be; `lost_logs` tells which: %s",
                self._engine.settings.name,
                handle,
                error,
            )

    async def finish(self) -> None:
        """Wait, for a bounded time, until the logs of ended apps are saved."""
        loop, waiter = asyncio.get_running_loop(), Waiter()
        deadline = loop.time() + KEEPING_GRACE  # disks know nothing of the group's clock
        timer = loop.call_at(deadline, waiter.wake)
        self._engine.ledger.waiters.add(waiter)
        try:
            while (self._todo or self._busy.keys() - self._engine.flights.keys()) and loop.time() < deadline:
                await waiter.wait()
        finally:
            timer.cancel()
            self._engine.ledger.waiters.discard(waiter)
            for handle, _ in self._todo:
                self._miss(handle, AsyncSchedError("the group was left before its log was read"))
            self._todo.clear()
