"""The cluster's commands: bounded in time, and asked once for all who want to know at the same moment."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Collection, Mapping, Sequence

from asyncsched.clock import Clock
from asyncsched.errors import NotFoundError, SchedulerError
from asyncsched.schedulers._common.program import Finished, Programs
from asyncsched.schedulers._common.rate_limit import Pacer
from asyncsched.schedulers._common.shared_call import SharedCall
from asyncsched.schedulers.slurm.errors import BACKEND, translate
from asyncsched.schedulers.slurm.status_records import (
    SACCT_FIELDS,
    SQUEUE_FIELDS,
    JobRow,
    make_separator,
    parse_sacct,
    parse_squeue,
)

__all__ = ["Cluster"]

AT_ONCE = 8
GATHER = 0.02
"""Seconds for which callers gather that then share one command."""
ACCOUNTS_REST = 30.0
"""Seconds for which accounts that have failed are not asked again: nobody else is to wait for them, too."""
ACCOUNTS_SHARE = 1 / 3
"""The share of the time for a request in which accounts have to answer: a description does without them, too."""
JOBS_AT_ONCE = 5000
"""Jobs that one ``sacct`` is asked for."""
ENDED_AT_ONCE = 1000
"""Jobs that one ``scancel`` is asked to end."""
SUBMITS, SUBMITS_AT_ONCE = 50.0, 40
CANCELS, CANCELS_AT_ONCE = 10.0, 40
LOOKS, LOOKS_AT_ONCE = 2.0, 10
"""How often a second the cluster is asked, and how many times in a row after a rest: newer releases count requests."""
_KEPT = frozenset({"SLURM_CONF", "SLURM_CLUSTERS", "SLURM_CONF_SERVER", "SLURM_JWT"})
"""Variables that say which cluster, and that we may use it."""
_OF_SLURM = ("SLURM_", "SLURMD_", "SBATCH_", "SRUN_", "SQUEUE_", "SACCT_", "SCANCEL_", "SCONTROL_")
"""What other variables begin with that its commands obey: an option each, or what an allocation around us has set."""

_OF_SHELLS = frozenset({"SHELLOPTS", "BASHOPTS"})
"""Variables that every bash obeys and changes: a replica gets them back, scripts that start it do not see them."""

_NAMED_JOB = re.compile(r"\bjob(?: ?id)? (\d+)")
"""The job of which a complaint of ``scancel`` tells."""

_log = logging.getLogger("asyncsched.schedulers.slurm")


class Cluster:
    """A Slurm cluster, as its commands show it.

    Args:
        clock: Tells the time.
        timeout: Seconds that a command may take: those of Slurm wait half a minute for a controller that is gone.

    Attributes:
        submits: Gives turns to submit.
        cancels: Gives turns to end jobs, which do not wait for submits.
        looks: Gives turns to look again at what is watched.
    """

    def __init__(self, *, clock: Clock, timeout: float) -> None:
        self.submits = Pacer(SUBMITS, clock, burst=SUBMITS_AT_ONCE)
        self.cancels = Pacer(CANCELS, clock, burst=CANCELS_AT_ONCE)
        self.looks = Pacer(LOOKS, clock, burst=LOOKS_AT_ONCE)
        self._clock = clock
        self._timeout = timeout
        self._programs: dict[bool, Programs] = {}  # those that submit have places of their own: no other waits for them
        self._squeue = SharedCall[Mapping[str, JobRow]]("squeue")
        self._sacct = SharedCall[Mapping[str, JobRow]]("sacct")
        self._wanted: set[str] = set()
        self._accounting = asyncio.Lock()
        self._keeps_accounts = True
        self._refusal: SchedulerError | None = None
        self._refused_until = 0.0

    @property
    def started(self) -> int:
        """How many commands have been started."""
        return sum(programs.started for programs in self._programs.values())

    async def run(
        self,
        argv: Sequence[str],
        operation: str,
        *,
        stdin: bytes = b"",
        cwd: str | None = None,
        share: float = 1.0,
        pass_fds: Sequence[int] = (),
    ) -> Finished:
        """Run a command to its end, whatever its exit code, within this share of the time for a request."""
        is_submit = argv[0] == "sbatch"
        if is_submit not in self._programs:
            self._programs[is_submit] = Programs(BACKEND, clock=self._clock, at_once=AT_ONCE)
        timeout, env = self._timeout * share, _environ(argv[0])
        return await self._programs[is_submit].run(
            argv, operation=operation, timeout=timeout, stdin=stdin, cwd=cwd, env=env, pass_fds=pass_fds
        )

    async def jobs(self, operation: str) -> Mapping[str, JobRow]:
        """Return the jobs of this user that the cluster knows, by number; all who ask at a time share the answer.

        The answer is not older than the question.
        """
        return await self._squeue.join(lambda: self._ask(operation))

    async def _ask(self, operation: str) -> Mapping[str, JobRow]:
        await self._clock.sleep(GATHER)
        self._squeue.part()  # who comes now asks for what is true from now on
        separator = make_separator()
        columns = ",".join(f"{field}:{separator}" for field in SQUEUE_FIELDS)  # without a width: nothing is cut
        told = await self.run(["squeue", "-h", "--me", "-a", "-t", "all", "-O", columns], operation)
        if told.code:
            raise translate(told, operation, refusal=SchedulerError)
        return await asyncio.to_thread(lambda: {row.job_id: row for row in parse_squeue(told.text, separator)})

    async def forgotten(self, job_ids: Collection[str], operation: str) -> Mapping[str, JobRow]:
        """Return what the accounts tell of these jobs, and maybe of others; nothing where none are kept.

        They are asked once for all who have shared an answer of ``squeue``, and once at a time.

        Raises:
            SchedulerError: They do not answer, or did not a moment ago.
        """
        self._wanted.update(job_ids)
        return await self._sacct.join(lambda: self._account(operation))

    async def _account(self, operation: str) -> Mapping[str, JobRow]:
        async with self._accounting:
            self._sacct.part()
            wanted = sorted(self._wanted)
            self._wanted.clear()
            if self._refusal is not None and self._clock.monotonic() < self._refused_until:
                raise self._refusal
            found: dict[str, JobRow] = {}
            try:
                for start in range(0, len(wanted) if self._keeps_accounts else 0, JOBS_AT_ONCE):
                    found |= await self._account_of(wanted[start : start + JOBS_AT_ONCE], operation)
            except SchedulerError as error:
                if self._refusal is None:
                    _log.warning("jobs that the controller has forgotten are told by their files alone: %s", error)
                self._refusal, self._refused_until = error, self._clock.monotonic() + ACCOUNTS_REST
                raise
            self._refusal = None
            return found

    async def _account_of(self, job_ids: Sequence[str], operation: str) -> dict[str, JobRow]:
        separator = make_separator()
        how = ["-X", "-n", "-p", f"--delimiter={separator}", "-o", ",".join(SACCT_FIELDS), "-j", ",".join(job_ids)]
        try:
            told = await self.run(["sacct", *how], operation, share=ACCOUNTS_SHARE)
        except NotFoundError:  # the command itself
            told = None
        if told is None or (told.code and b"disabled" in told.stderr):
            self._keeps_accounts = False
            return {}
        if told.code:
            raise translate(told, operation, refusal=SchedulerError)
        return {row.job_id: row for row in parse_sacct(told.text, separator)}

    async def end(self, jobs: Sequence[str], operation: str, *, share: float = 1.0) -> None:
        """Have jobs end; those that are not there are passed over."""
        await self.cancels.turn()
        told = await self.run(["scancel", *jobs], operation, share=share)
        if told.code and b"invalid job id" not in told.stderr.lower():
            raise translate(told, operation)

    async def end_each(self, jobs: Sequence[str], operation: str) -> dict[str, SchedulerError | None]:
        """Have jobs end in few commands; returns for each why it could not be ended, if it could not."""
        told: dict[str, SchedulerError | None] = {}
        for start in range(0, len(jobs), ENDED_AT_ONCE):
            some = jobs[start : start + ENDED_AT_ONCE]
            await self.cancels.turn()
            try:
                done = await self.run(["scancel", *some], operation)
            except SchedulerError as error:
                told |= dict.fromkeys(some, error)
                continue
            told |= _reasons(done, some, operation)
        return told

    async def close(self, timeout: float) -> None:
        """End what is on its way."""
        await self._squeue.aclose(timeout)
        await self._sacct.aclose(timeout)


def _reasons(done: Finished, jobs: Sequence[str], operation: str) -> dict[str, SchedulerError | None]:
    """Return what a ``scancel`` complains of, by job; a complaint that names no job is one of all."""
    told: dict[str, SchedulerError | None] = dict.fromkeys(jobs)
    for line in done.stderr.splitlines() if done.code else ():
        if not line.strip() or b"invalid job id" in line.lower():
            continue
        error = translate(done._replace(stderr=line), operation)
        named = _NAMED_JOB.search(line.decode(errors="replace"))
        told |= dict.fromkeys([named[1]] if named and named[1] in told else jobs, error)
    if done.code and not done.stderr.strip():
        told = dict.fromkeys(jobs, translate(done, operation))
    return told


def _environ(program: str) -> dict[str, str]:
    """Return our environment without what would change a command: a job is what its request says, and nothing else."""
    kept = {name: value for name, value in os.environ.items() if name in _KEPT or not name.startswith(_OF_SLURM)}
    if program != "sbatch":
        return {**kept, "SLURM_TIME_FORMAT": "%s"}
    return {f"ASYNCSCHED_{name}" if name in _OF_SHELLS else name: value for name, value in kept.items()}
