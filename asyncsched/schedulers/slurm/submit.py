"""Submit an app: its directory, then its job, or nothing; and never a second job."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Protocol, cast

from asyncsched import _platform
from asyncsched._tasks import finished_in_thread
from asyncsched._typing import override
from asyncsched.clock import Clock
from asyncsched.errors import InvalidRequestError, RunOptionError, SchedulerError, ThrottledError, UnavailableError
from asyncsched.schedulers._common.copies import CopiedWorkspaces
from asyncsched.schedulers.request_checks import other_app
from asyncsched.schedulers.slurm import names
from asyncsched.schedulers.slurm.client import Cluster
from asyncsched.schedulers.slurm.errors import BACKEND, being_submitted, translate, unwritable
from asyncsched.schedulers.slurm.lookup import AppLinks, mark, remove_tree, write_file
from asyncsched.schedulers.slurm.lookup_places import check_own, provide_place
from asyncsched.schedulers.slurm.request import SlurmSubmitFiles
from asyncsched.schedulers.slurm.status import alive
from asyncsched.specs.dryrun import WorkspacePlan
from asyncsched.specs.run_options import CfgVal

__all__ = ["SlurmSubmission", "SlurmWorkspaces", "check", "check_prolog"]

LOOK_EVERY = 0.05
SENDING = 0.8
"""The share of a request's time for sending the job; the rest is for taking it back if no answer came."""
_NUMBER = re.compile(r"(\d+)(?:;\S*)?\s*\Z", re.ASCII)
"""The last output of ``sbatch``: the job's number, with the cluster's name if there are several."""


class _Owner(Protocol):
    _home: AppLinks


class SlurmWorkspaces(CopiedWorkspaces):
    """Reads the workspaces of one scheduler's apps; `SlurmSubmission` copies them to where the nodes see them.

    Args:
        scheduler: The scheduler.
    """

    def __init__(self, scheduler: _Owner) -> None:
        super().__init__(BACKEND)
        self._home = scheduler._home

    @override
    async def own_places(self, cfg: Mapping[str, CfgVal]) -> list[str]:
        return [str(self._home.root), self._home.jobs_in(cast("str | None", cfg.get("job_dir")))]


class SlurmSubmission:
    """One attempt to submit an app.

    Args:
        home: The place of the apps.
        cluster: The cluster to submit to.
        wire: The files and the command.
        plan: The app's workspace.
        clock: The clock.
        patience: Seconds to wait for another process that submits the same app, or for a cluster that is too busy.
    """

    def __init__(
        self,
        home: AppLinks,
        cluster: Cluster,
        wire: SlurmSubmitFiles,
        plan: WorkspacePlan | None,
        *,
        clock: Clock,
        patience: float,
    ) -> None:
        self._home, self._cluster, self._clock, self._patience = home, cluster, clock, patience
        self._wire, self._plan = wire, plan
        self._app_id, self._directory = wire.record.app_id, wire.directory
        self._is_new = False
        self._lock = -1
        self._name = ""
        self._sending: asyncio.Task[None] | None = None
        self._job = ""

    async def run(self) -> None:
        """Submit the app, or find that it was submitted."""
        until = self._clock.monotonic() + self._patience
        while not await finished_in_thread(self._has_locked):
            if self._clock.monotonic() >= until:
                raise being_submitted(self._app_id)
            await self._clock.sleep(LOOK_EVERY)
        app = await asyncio.to_thread(self._home.read, self._app_id, self._directory)
        self._is_new = app is None
        if app is None:
            await self._provide()
        elif app.record.digest != self._wire.record.digest:
            raise other_app(self._app_id, BACKEND)
        else:
            await finished_in_thread(self._link)
            if app.found.job_id or await self._is_there():
                return
        until = self._clock.monotonic() + self._patience
        while not await self._sent(until):
            pass

    async def _is_there(self) -> bool:
        """Look for the app's job if its number is not in a file."""
        job = alive((await self._cluster.jobs("submit")).values()).get(self._app_id)
        if job is not None:
            await self._keep_number(job)
        return job is not None

    async def _keep_number(self, job: str) -> None:
        """Write the job's number to two files: if a replica removes one, the other is left."""
        for name in (names.NUMBER, names.JOB):
            await mark(self._directory, name, job, operation="submit")

    async def _sent(self, until: float) -> bool:
        """Send the job and return whether it was accepted; repeat it if the cluster refuses for its request limit."""
        await self._cluster.submits.turn()
        await finished_in_thread(lambda: os.utime(self._lock))  # the moment from which others count if this is killed
        # A job that is being sent is never cut off: `remove` waits for the answer, which names the job to take back.
        self._sending = asyncio.create_task(self._send(), name=f"submit of {self._app_id}")
        try:
            await asyncio.shield(self._sending)
        except ThrottledError as error:
            if self._clock.monotonic() >= until:
                raise
            self._cluster.submits.throttled(error.retry_after)
            return False
        return True

    async def _send(self) -> None:
        # The command holds the lock, too: if this process is killed, others wait until the job can be found.
        told = await self._cluster.run([*self._wire.argv, self._name], "submit", share=SENDING, pass_fds=[self._lock])
        found = _NUMBER.search(told.text)
        if told.code or found is None:
            # A failure without a job's number may have created one: look for it by its name.
            raise translate(told, "submit", refusal=InvalidRequestError if told.code else UnavailableError)
        self._job = found[1]
        await self._keep_number(self._job)

    async def remove(self) -> None:
        """Take back what `run` has created; called when `run` has failed or was cancelled."""
        try:
            if self._sending is not None:
                await self._take_back(self._sending)
        finally:
            if self._is_new and self._lock >= 0:
                await finished_in_thread(self._discard)

    async def _take_back(self, sending: asyncio.Task[None]) -> None:
        jobs: list[str] = []
        try:
            await sending
        except UnavailableError:  # it may have arrived all the same
            jobs = ["--me", f"--name={self._app_id}"]
        except SchedulerError:
            pass
        if self._job:
            jobs = [self._job]
        if jobs:
            await self._cluster.end(jobs, "submit", share=1 - SENDING)

    def close(self) -> None:
        """Let others submit this app."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    async def _provide(self) -> None:
        """Write the app's directory; the record is written last, and makes it an app."""
        try:
            await finished_in_thread(self._write)
            if self._plan is not None:
                from asyncsched.workspace.directory import copy_planned

                await copy_planned(self._plan, f"{self._directory}/{names.WORKSPACE}")
            record = json.dumps(asdict(self._wire.record))
            await mark(self._directory, names.APP, record, operation="submit")
            await finished_in_thread(self._link)
        except SchedulerError:  # some are an OSError, too
            raise
        except OSError as error:
            raise unwritable(self._directory, error, "submit") from error

    # In a thread

    def _has_locked(self) -> bool:
        """Create the app's directory if needed, and lock it; return False if another process holds the lock.

        The lock is removed with its directory: a process that has waited for a removed one must look again.
        """
        linked = self._home.directory_of(self._app_id, "submit")
        self._directory = linked or self._wire.directory
        path = f"{self._directory}/{names.LOCK}"
        is_new = False
        try:
            for each in (self._home.links, Path(self._directory).parent):
                provide_place(each, "submit")
            with suppress(FileExistsError):
                os.mkdir(self._directory, 0o700)  # noqa: PTH102 - as text
                is_new = True
            check_own(self._directory, os.lstat(self._directory), "submit")
            fd = os.open(path, os.O_RDWR | os.O_CREAT | _platform.NOFOLLOW | _platform.CLOEXEC, 0o600)
        except SchedulerError:  # it is an OSError, too
            raise
        except OSError as error:
            raise unwritable(self._directory, error, "submit") from error
        try:
            _platform.lock_file(fd)
            if os.path.samestat(os.fstat(fd), os.lstat(path)):
                self._lock, self._is_new, self._name = fd, is_new, os.read(fd, 64).decode(errors="replace")
                return True
        except (BlockingIOError, FileNotFoundError):
            pass
        except OSError as error:
            os.close(fd)
            raise unwritable(self._directory, error, "submit") from error
        os.close(fd)
        return False

    def _write(self) -> None:
        """Write all files except the record, overwriting what an interrupted submit has left."""
        self._name = os.urandom(16).hex()
        os.ftruncate(self._lock, 0)
        _platform.write_at(self._lock, self._name.encode(), 0)
        remove_tree(f"{self._directory}/{names.WORKSPACE}")
        Path(self._directory, names.EVENTS).mkdir(mode=0o700, exist_ok=True)
        for name, text in self._wire.files.items():
            write_file(Path(self._directory, name), text)

    def _link(self) -> None:
        """Create the link by which the app is found: the first process that creates it owns the app."""
        link = self._home.links / self._app_id
        there = None
        for _ in range(3):
            with suppress(FileExistsError):
                link.symlink_to(self._directory)
            if (there := self._home.directory_of(self._app_id, "submit")) is not None:
                break
            link.unlink(missing_ok=True)  # it is broken
        if there != self._directory:
            raise other_app(self._app_id, BACKEND) if there is not None else being_submitted(self._app_id)

    def _discard(self) -> None:
        """Remove the app's directory, atomically for other processes, which may create it again."""
        link = self._home.links / self._app_id
        if link.is_symlink() and str(link.readlink()) == self._directory:
            link.unlink()
        gone = f"{self._directory}.gone-{os.urandom(6).hex()}"
        with suppress(OSError):
            os.rename(self._directory, gone)  # noqa: PTH104 - as text
        remove_tree(gone)


async def check(cluster: Cluster, wire: SlurmSubmitFiles) -> None:
    """Ask the cluster whether it would accept a job.

    Raises:
        InvalidRequestError: It would not.
    """
    told = await cluster.run([wire.argv[0], "--test-only", *wire.argv[1:-1]], "submit", stdin=b"#!/bin/bash\n", cwd="/")
    if told.code:
        raise translate(told, "submit")


async def check_prolog(cluster: Cluster, prolog: str) -> None:
    """Check a prolog's syntax with the shell, without running it; without a shell here, the job reports errors.

    Raises:
        RunOptionError: It is not valid shell.
    """
    try:
        told = await cluster.run(["bash", "-n"], "submit_dryrun", stdin=f"{prolog}\n".encode(), cwd="/")
    except SchedulerError:
        return
    if told.code:
        raise RunOptionError(f"prolog must be a line of shell, got {prolog!r}", key="prolog", why=told.complaint)
