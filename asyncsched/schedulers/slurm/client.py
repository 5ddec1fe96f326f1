"""The cluster's commands: bounded in time, and asked once for all who want to know at the same moment."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Collection, Mapping, Sequence

from asyncsched._streams import for_one
from asyncsched._tasks import BackgroundTasks
from asyncsched.clock import Clock
from asyncsched.errors import NotFoundError, SchedulerError, UnavailableError
from asyncsched.schedulers._common.pacing import Pacer
from asyncsched.schedulers._common.program import Finished, Programs
from asyncsched.schedulers.slurm.errors import BACKEND, translate
from asyncsched.schedulers.slurm.status_records import (
    SACCT_FIELDS,
    SEPARATOR,
    SQUEUE_FIELDS,
    JobRow,
    parse_sacct,
    parse_squeue,
)

__all__ = ["Cluster"]

AT_ONCE = 8
GATHER = 0.02
"""Seconds for which callers gather that then share one command."""
JOBS_AT_ONCE = 5000
"""Jobs that one ``sacct`` is asked for."""
SUBMITS, SUBMITS_AT_ONCE = 50.0, 40
LOOKS, LOOKS_AT_ONCE = 2.0, 10
"""How often a second the cluster is asked, and how many times in a row after a rest: newer releases count requests."""
_KEPT = frozenset({"SLURM_CONF", "SLURM_CLUSTERS", "SLURM_CONF_SERVER", "SLURM_JWT"})

_log = logging.getLogger("asyncsched.schedulers.slurm")


class Cluster:
    """A Slurm cluster, as its commands show it.

    Args:
        clock: Tells the time.
        timeout: Seconds that a command may take: those of Slurm wait half a minute for a controller that is gone.

    Attributes:
        submits: Gives turns to submit.
        looks: Gives turns to look again at what is watched.
    """

    def __init__(self, *, clock: Clock, timeout: float) -> None:
        self.submits = Pacer(SUBMITS, clock, burst=SUBMITS_AT_ONCE)
        self.looks = Pacer(LOOKS, clock, burst=LOOKS_AT_ONCE)
        self._clock = clock
        self._timeout = timeout
        self._programs: Programs | None = None
        self._tasks = BackgroundTasks(_log)
        self._gathering: asyncio.Future[Mapping[str, JobRow]] | None = None
        self._keeps_accounts = True

    @property
    def started(self) -> int:
        """How many commands have been started."""
        return 0 if self._programs is None else self._programs.started

    async def run(self, argv: Sequence[str], operation: str, *, stdin: bytes = b"", cwd: str | None = None) -> Finished:
        """Run a command to its end, whatever its exit code."""
        if self._programs is None:
            self._programs = Programs(BACKEND, clock=self._clock, at_once=AT_ONCE)
        return await self._programs.run(
            argv, operation=operation, timeout=self._timeout, stdin=stdin, cwd=cwd, env=_environ(os.environ)
        )

    async def jobs(self, operation: str) -> Mapping[str, JobRow]:
        """Return the jobs of this user that the cluster knows, by number; all who ask at a time share the answer.

        The answer is not older than the question.
        """
        if self._gathering is None:
            self._gathering = asyncio.get_running_loop().create_future()
            self._tasks.start(self._ask(self._gathering, operation), name="squeue")
        try:
            return await asyncio.shield(self._gathering)
        except SchedulerError as error:
            raise for_one(error) from error.__cause__

    async def _ask(self, answer: asyncio.Future[Mapping[str, JobRow]], operation: str) -> None:
        try:
            await self._clock.sleep(GATHER)
            self._gathering = None  # who comes now asks for what is true from now on
            told = await self.run(_squeue("--me", "-a", "-t", "all"), operation)
            if told.code:
                raise translate(told, operation, refusal=SchedulerError)
            rows = await asyncio.to_thread(lambda: {row.job_id: row for row in parse_squeue(told.text)})
        except BaseException as error:
            if not answer.done():
                answer.set_exception(_for_waiters(error))
                answer.exception()  # nobody need be there any more
            if not isinstance(error, SchedulerError):
                raise
        else:
            if not answer.done():
                answer.set_result(rows)

    async def forgotten(self, job_ids: Collection[str], operation: str) -> dict[str, JobRow]:
        """Return what the accounts tell of jobs that ``squeue`` knows no more; nothing where none are kept."""
        found: dict[str, JobRow] = {}
        wanted = sorted(job_ids)
        for start in range(0, len(wanted) if self._keeps_accounts else 0, JOBS_AT_ONCE):
            some = ",".join(wanted[start : start + JOBS_AT_ONCE])
            try:
                told = await self.run(["sacct", "-X", "-n", "-P", "-j", some, "-o", ",".join(SACCT_FIELDS)], operation)
            except NotFoundError:  # the command itself
                self._keeps_accounts = False
                break
            if told.code and b"disabled" in told.stderr:
                self._keeps_accounts = False
                break
            if told.code:
                raise translate(told, operation, refusal=SchedulerError)
            found |= {row.job_id: row for row in parse_sacct(told.text)}
        return found

    async def end(self, jobs: Sequence[str], operation: str) -> None:
        """Have jobs end; those that are not there are passed over."""
        told = await self.run(["scancel", *jobs], operation)
        if told.code and b"invalid job id" not in told.stderr.lower():
            raise translate(told, operation)

    async def close(self, timeout: float) -> None:
        """End what is on its way."""
        await self._tasks.close(timeout)


def _squeue(*which: str) -> list[str]:
    """Return the command that tells of jobs, in columns without a width, in which nothing is cut."""
    return ["squeue", "-h", *which, "-O", ",".join(f"{field}:{SEPARATOR}" for field in SQUEUE_FIELDS)]


def _environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without what an allocation around us, or a user's taste, would change."""
    own = ("SLURM_", "SQUEUE_", "SACCT_", "SCANCEL_")
    kept = {name: value for name, value in environ.items() if name in _KEPT or not name.startswith(own)}
    return {**kept, "SLURM_TIME_FORMAT": "%s"}


def _for_waiters(error: BaseException) -> BaseException:
    if isinstance(error, Exception):
        return error
    return UnavailableError("squeue was stopped", fix="ask again", backend=BACKEND, operation="describe")
