"""The cluster's commands: limited in time, and shared by all callers that ask at the same moment."""

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
"""Seconds in which callers gather to share one command."""
ACCOUNTS_REST = 30.0
"""Seconds for which accounts that have failed are not asked again, so that other callers do not wait for them too."""
ACCOUNTS_SHARE = 1 / 3
"""The share of a request's time in which the accounts must answer: a description works without them."""
JOBS_AT_ONCE = 5000
"""The most jobs for one ``sacct``."""
ENDED_AT_ONCE = 1000
"""The most jobs for one ``scancel``."""
SUBMITS, SUBMITS_AT_ONCE = 50.0, 40
CANCELS, CANCELS_AT_ONCE = 10.0, 40
LOOKS, LOOKS_AT_ONCE = 2.0, 10
"""The most commands per second, and in a burst after a rest: newer releases of Slurm count requests."""
_KEPT = frozenset({"SLURM_CONF", "SLURM_CLUSTERS", "SLURM_CONF_SERVER", "SLURM_JWT"})
"""Variables that select the cluster, and authenticate us."""
_OF_SLURM = ("SLURM_", "SLURMD_", "SBATCH_", "SRUN_", "SQUEUE_", "SACCT_", "SCANCEL_", "SCONTROL_")
"""Prefixes of other variables that the commands obey: options, or values set by an allocation that this runs in."""

_OF_SHELLS = frozenset({"SHELLOPTS", "BASHOPTS"})
"""Variables that every bash obeys and changes: they are restored for the replicas, and hidden from their scripts."""

_NAMED_JOB = re.compile(r"\bjob(?: ?id)? (\d+)")
"""The job that an error message of ``scancel`` names."""

_log = logging.getLogger("asyncsched.schedulers.slurm")


class Cluster:
    """A Slurm cluster, through its commands.

    Args:
        clock: The clock.
        timeout: Seconds that a command may take: Slurm's wait half a minute for a controller that is gone.

    Attributes:
        submits: Limits the rate of submits.
        cancels: Limits the rate of cancels, which do not wait for submits.
        looks: Limits the rate of polls for watched apps.
    """

    def __init__(self, *, clock: Clock, timeout: float) -> None:
        self.submits = Pacer(SUBMITS, clock, burst=SUBMITS_AT_ONCE)
        self.cancels = Pacer(CANCELS, clock, burst=CANCELS_AT_ONCE)
        self.looks = Pacer(LOOKS, clock, burst=LOOKS_AT_ONCE)
        self._clock = clock
        self._timeout = timeout
        self._programs: dict[bool, Programs] = {}  # submits have their own, so that no other command waits for them
        self._squeue = SharedCall[Mapping[str, JobRow]]("squeue")
        self._sacct = SharedCall[Mapping[str, JobRow]]("sacct")
        self._wanted: set[str] = set()
        self._accounting = asyncio.Lock()
        self._keeps_accounts = True
        self._refusal: SchedulerError | None = None
        self._refused_until = 0.0

    @property
    def started(self) -> int:
        """How many commands were started."""
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
        """Run a command to its end, whatever its exit code, within this share of a request's time."""
        is_submit = argv[0] == "sbatch"
        if is_submit not in self._programs:
            self._programs[is_submit] = Programs(BACKEND, clock=self._clock, at_once=AT_ONCE)
        timeout, env = self._timeout * share, _environ(argv[0])
        return await self._programs[is_submit].run(
            argv, operation=operation, timeout=timeout, stdin=stdin, cwd=cwd, env=env, pass_fds=pass_fds
        )

    async def jobs(self, operation: str) -> Mapping[str, JobRow]:
        """Return this user's jobs that the cluster knows, by number; callers at the same time share the answer.

        The answer is never older than the call.
        """
        return await self._squeue.join(lambda: self._ask(operation))

    async def _ask(self, operation: str) -> Mapping[str, JobRow]:
        await self._clock.sleep(GATHER)
        self._squeue.part()  # later callers need a newer answer
        separator = make_separator()
        columns = ",".join(f"{field}:{separator}" for field in SQUEUE_FIELDS)  # without a width, so nothing is cut
        told = await self.run(["squeue", "-h", "--me", "-a", "-t", "all", "-O", columns], operation)
        if told.code:
            raise translate(told, operation, refusal=SchedulerError)
        return await asyncio.to_thread(lambda: {row.job_id: row for row in parse_squeue(told.text, separator)})

    async def forgotten(self, job_ids: Collection[str], operation: str) -> Mapping[str, JobRow]:
        """Return the accounts' rows for these jobs, and maybe for others; empty if no accounts are kept.

        All callers that share an answer of ``squeue`` share one request, and only one runs at a time.

        Raises:
            SchedulerError: The accounts do not answer, or did not a moment ago.
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
                    _log.warning("using only their files for jobs that the controller has forgotten: %s", error)
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
        """End jobs; ignore those that do not exist."""
        await self.cancels.turn()
        told = await self.run(["scancel", *jobs], operation, share=share)
        if told.code and b"invalid job id" not in told.stderr.lower():
            raise translate(told, operation)

    async def end_each(self, jobs: Sequence[str], operation: str) -> dict[str, SchedulerError | None]:
        """End jobs with few commands; return for each the error that prevented it, or None."""
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
        """End the running commands."""
        await self._squeue.aclose(timeout)
        await self._sacct.aclose(timeout)


def _reasons(done: Finished, jobs: Sequence[str], operation: str) -> dict[str, SchedulerError | None]:
    """Return the errors of a ``scancel``, by job; an error that names no job applies to all."""
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
    """Return the environment without variables that would change a command: only the request decides about a job."""
    kept = {name: value for name, value in os.environ.items() if name in _KEPT or not name.startswith(_OF_SLURM)}
    if program != "sbatch":
        return {**kept, "SLURM_TIME_FORMAT": "%s"}
    return {f"ASYNCSCHED_{name}" if name in _OF_SHELLS else name: value for name, value in kept.items()}
