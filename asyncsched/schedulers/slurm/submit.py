"""Submitting: an app's directory, then its job, or nothing; and never a second job."""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol, cast

from asyncsched._tasks import finished_in_thread
from asyncsched.clock import Clock
from asyncsched.errors import SchedulerError, ThrottledError, UnavailableError
from asyncsched.schedulers.prepare import other_app
from asyncsched.schedulers.slurm import names
from asyncsched.schedulers.slurm.client import Cluster
from asyncsched.schedulers.slurm.errors import BACKEND, being_submitted, foreign, translate, unwritable
from asyncsched.schedulers.slurm.lookup import Home, remove_tree
from asyncsched.schedulers.slurm.request import Wire
from asyncsched.schedulers.slurm.status import alive
from asyncsched.specs.app import AppDef
from asyncsched.specs.dryrun import WorkspacePlan
from asyncsched.specs.options import CfgVal

__all__ = ["Launch", "Workspaces", "check", "mark"]

LOOK_EVERY = 0.05

_log = logging.getLogger("asyncsched.schedulers.slurm")


class _Owner(Protocol):
    _home: Home


class Workspaces:
    """Reads the workspaces of one scheduler's apps; a submit copies them, with the rest of an app's directory.

    Args:
        scheduler: The scheduler.
    """

    def __init__(self, scheduler: _Owner) -> None:
        self._home = scheduler._home

    async def preview(self, app: AppDef, workspace: str, cfg: Mapping[str, CfgVal]) -> WorkspacePlan:
        """Return what would be copied: all but the places in which we make directories."""
        from asyncsched.workspace.directory import plan_copy

        jobs = self._home.jobs_in(cast("str | None", cfg.get("job_dir")))
        return await plan_copy(app, workspace, [str(self._home.root), jobs], _log)

    async def build(self, plan: WorkspacePlan, app_id: str) -> None:
        """Do nothing: `Launch` copies it."""

    async def push(self, images: Mapping[str, tuple[str, str]]) -> None:
        """Do nothing: the nodes share the copy."""


class Launch:
    """One attempt to submit an app.

    Args:
        home: Where apps are.
        cluster: Where to.
        app_id: The app's id.
        directory: Its directory.
        wire: What is sent.
        plan: The workspace that goes with it.
        clock: Tells the time.
        patience: Seconds to wait for another process that submits the same app, or for a cluster that is too busy.
    """

    def __init__(
        self,
        home: Home,
        cluster: Cluster,
        app_id: str,
        directory: str,
        wire: Wire,
        plan: WorkspacePlan | None,
        *,
        clock: Clock,
        patience: float,
    ) -> None:
        self._home = home
        self._cluster = cluster
        self._app_id = app_id
        self._directory = directory
        self._wire = wire
        self._plan = plan
        self._clock = clock
        self._patience = patience
        self._made = False
        self._lock = -1
        self._sending: asyncio.Task[None] | None = None
        self._job = ""

    async def run(self) -> None:
        """Submit it, or find that it was submitted."""
        await self._provide()
        await self._take_turn()
        app = await asyncio.to_thread(self._home.find, self._app_id, "submit")
        if app is not None and app.found.job_id:
            return
        if not self._made:
            jobs = await self._cluster.jobs("submit")
            if number := alive(jobs.values()).get(self._app_id):
                await finished_in_thread(lambda: mark(self._directory, names.JOB, number))
                return
        until = self._clock.monotonic() + self._patience
        while not await self._sent(until):
            pass

    async def _sent(self, until: float) -> bool:
        """Send it, and tell whether it was taken; a refusal of a cluster that is asked too often is tried again."""
        await self._cluster.submits.turn()
        # What has been sent is never cut off: `remove` waits for its answer, which names the job to take back.
        self._sending = asyncio.create_task(self._send(), name=f"submit of {self._app_id}")
        try:
            await asyncio.shield(self._sending)
        except ThrottledError as error:
            if self._clock.monotonic() >= until:
                raise
            self._cluster.submits.throttled(error.retry_after)
            return False
        return True

    async def remove(self) -> None:
        """Take back what `run` has made; it is called when `run` has failed or was cancelled."""
        if self._sending is not None:
            with suppress(SchedulerError):
                await self._take_back(self._sending)
        if self._made:
            await finished_in_thread(lambda: self._home.remove(self._app_id, self._directory))

    async def _take_back(self, sending: asyncio.Task[None]) -> None:
        try:
            await sending
        except UnavailableError:  # it may have been heard all the same
            await self._cluster.end(["--me", f"--name={self._app_id}"], "submit")
        except SchedulerError:
            if self._job:
                await self._cluster.end([self._job], "submit")
        else:
            await self._cluster.end([self._job], "submit")

    def close(self) -> None:
        """Let others submit this app."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    async def _send(self) -> None:
        told = await self._cluster.run(self._wire.argv, "submit")
        self._job = told.text.strip().rpartition("\n")[2].partition(";")[0].strip()
        if told.code or not (self._job.isascii() and self._job.isdigit()):
            raise translate(told, "submit")
        await finished_in_thread(lambda: mark(self._directory, names.JOB, self._job))

    async def _take_turn(self) -> None:
        """Wait until no other process submits this app; its end lets go of the lock, however it came."""
        await finished_in_thread(self._open_lock)
        until = self._clock.monotonic() + self._patience
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if self._clock.monotonic() >= until:
                    raise being_submitted(self._app_id) from None
                await self._clock.sleep(LOOK_EVERY)
            else:
                return

    async def _provide(self) -> None:
        """Write the app's directory, or find that it is there."""
        if await asyncio.to_thread(self._is_there):
            return
        new = Path(f"{self._directory}.new-{os.urandom(6).hex()}")
        try:
            await finished_in_thread(lambda: self._write(new))
            if self._plan is not None:
                from asyncsched.workspace.directory import copy_planned

                await copy_planned(self._plan, str(new / names.WORKSPACE))
            await finished_in_thread(lambda: self._publish(new))
        except SchedulerError:  # some are an OSError, too
            raise
        except OSError as error:
            raise unwritable(self._directory, error, "submit") from error
        finally:
            await finished_in_thread(lambda: remove_tree(str(new)))

    # In a thread

    def _open_lock(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._lock = os.open(f"{self._directory}/{names.LOCK}", flags, 0o600)
        except OSError as error:
            raise unwritable(self._directory, error, "submit") from error

    def _is_there(self) -> bool:
        app = self._home.find(self._app_id, "submit")
        if app is None:
            return False
        if app.record.digest != self._wire.record["digest"]:
            raise other_app(self._app_id, BACKEND)
        self._directory = app.directory
        return True

    def _write(self, new: Path) -> None:
        for path in (self._home.links, new.parent):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in (new, new / names.EVENTS):
            path.mkdir(mode=0o700)
        for name, text in {**self._wire.files, names.APP: json.dumps(self._wire.record)}.items():
            _write_file(new / name, text)

    def _publish(self, new: Path) -> None:
        """Put the directory in its place; whoever comes second finds the other's."""
        link = self._home.links / self._app_id
        try:
            new.rename(self._directory)
            self._made = True
        except OSError as error:  # one is there: what was left of a submit that was cut off, or another's
            found = os.lstat(self._directory)
            if found.st_uid != os.geteuid():
                raise foreign(self._directory, "submit") from error
            self._adopt()
        link.unlink(missing_ok=True)
        link.symlink_to(self._directory)

    def _adopt(self) -> None:
        record = json.loads((Path(self._directory) / names.APP).read_bytes())
        if record.get("digest") != self._wire.record["digest"]:
            raise other_app(self._app_id, BACKEND)


async def check(cluster: Cluster, wire: Wire) -> None:
    """Have the cluster say whether it would take a job.

    Raises:
        InvalidRequestError: It would not.
    """
    told = await cluster.run([wire.argv[0], "--test-only", *wire.argv[1:-1]], "submit", stdin=b"#!/bin/bash\n", cwd="/")
    if told.code:
        raise translate(told, "submit")


def mark(directory: str, name: str, text: str) -> None:
    """Write a small file of an app, whole or not at all."""
    path = Path(directory) / name
    new = path.with_name(f".{path.name}-{os.urandom(6).hex()}")
    _write_file(new, f"{text}\n")
    new.replace(path)


def _write_file(path: Path, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:  # noqa: PTH123 - of a descriptor
        file.write(text.encode(errors="surrogateescape"))
