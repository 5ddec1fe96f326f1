"""Commands for Volcano, sent until the job shows that one was taken up.

Volcano removes a Command before it does what it says, so that it is done once at most: what its controller has in mind
is lost when the API server fails it, or when it is restarted itself. While a job restarts it passes over commands, too.
"""

from __future__ import annotations

import functools
import json
import secrets
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from asyncsched._tasks import gather_bounded
from asyncsched.clock import Clock
from asyncsched.errors import ConflictError, PermissionDeniedError, SchedulerError, UnavailableError
from asyncsched.logs.backoff import Backoff
from asyncsched.schedulers.kubernetes import lookup_paths as paths
from asyncsched.schedulers.kubernetes import names
from asyncsched.schedulers.kubernetes.client import KubeClient
from asyncsched.schedulers.kubernetes.errors import BACKEND, status_failure, translate
from asyncsched.schedulers.kubernetes.status_jobs import JobRecord, job_record

__all__ = ["Commands"]

AT_ONCE = 16
AGAIN_AFTER = (3.0, 6.0, 12.0)
"""Seconds after which a command that shows no effect is sent again; it takes Volcano 0.2 s, and longer for many."""
LONGEST_EVENT = 8 << 20

_TAKEN_UP = frozenset({"Aborting", "Aborted", "Terminating", "Terminated", "Completing", "Completed", "Failed"})


class Commands:
    """Has Volcano end jobs.

    Args:
        client: Where the cluster is reached.
        clock: Tells the time.
        wait_for: Seconds in which a job must show that it is ended.
    """

    def __init__(self, client: KubeClient, *, clock: Clock, wait_for: float) -> None:
        self._client, self._clock, self._wait_for = client, clock, wait_for

    async def send(self, job: JobRecord, action: str, operation: str) -> None:
        """Send one command; its effect is not waited for."""
        path, body = paths.commands(job.namespace), _command(job, action)
        try:
            await self._client.request("POST", path, body=body, idempotent=True, operation=operation)
        except ConflictError:
            return  # the answer to the first try was lost

    async def see_through(self, jobs: Sequence[JobRecord], action: str, operation: str) -> set[str]:
        """Wait until jobs of one namespace have taken up their command, and send it again to those that have not.

        One watch tells of all of them.

        Returns:
            The uids of those that show nothing of it when `wait_for` has passed.
        """
        if not jobs:
            return set()
        following = _Following(jobs)
        until = self._clock.monotonic() + self._wait_for
        backoff = Backoff(self._clock, retry_for=self._wait_for, shortest=0.25)
        pauses = iter(AGAIN_AFTER)
        while following.left and (left := until - self._clock.monotonic()) > 0:
            try:
                async with self._clock.timeout(min(next(pauses, left), left)):
                    await self._follow(following, action, operation)
            except PermissionDeniedError:
                return set()  # a role that may not watch: nobody can tell
            except SchedulerError as error:
                await self._clock.sleep(min(backoff.failed(error), max(left, 0.0)))
            except TimeoutError:
                following.compare(await self._jobs(following, operation))
                await self._again(following.left.values(), action, operation)
        return {*following.left}

    async def _follow(self, following: _Following, action: str, operation: str) -> None:
        jobs = [*following.left.values()]
        selector = f"{names.APP}={jobs[0].app}" if len(jobs) == 1 else names.SELECTOR
        query = {"watch": "true", "labelSelector": selector, "timeoutSeconds": str(int(self._wait_for) + 1)}
        rest = b""
        async with self._client.stream(paths.jobs(jobs[0].namespace, "volcano"), query, operation=operation) as stream:
            while following.left and (chunk := await stream.read_chunk()):
                *lines, rest = (rest + chunk).split(b"\n")
                if passed_over := following.take(lines, operation):
                    await self._again(passed_over, action, operation)
                if len(rest) > LONGEST_EVENT:
                    raise _broken(operation)

    async def _jobs(self, following: _Following, operation: str) -> Sequence[JobRecord]:
        namespace = next(iter(following.left.values())).namespace
        path, query = paths.jobs(namespace, "volcano"), {"labelSelector": names.SELECTOR}
        read = functools.partial(job_record, kind="volcano")
        return (await self._client.items(path, read, query=query, operation=operation)).items

    async def _again(self, jobs: Iterable[JobRecord], action: str, operation: str) -> None:
        await gather_bounded(lambda job: self.send(job, action, operation), jobs, AT_ONCE)


class _Following:
    """What a watch has told of jobs that are to end."""

    def __init__(self, jobs: Iterable[JobRecord]) -> None:
        self.left = {job.uid: job for job in jobs}
        self._restarting: set[str] = set()

    def take(self, lines: Collection[bytes], operation: str) -> list[JobRecord]:
        """Take over what has happened; returns the jobs that have gone on after a restart."""
        events = (self._event(line, operation) for line in lines if line.strip())
        return [job for job in events if job is not None]

    def compare(self, jobs: Iterable[JobRecord]) -> None:
        """Take over what there is: a watch that begins after a job was deleted says nothing of it."""
        there = {job.uid for job in jobs if job.phase not in _TAKEN_UP}
        self.left = {uid: job for uid, job in self.left.items() if uid in there}

    def _event(self, line: bytes, operation: str) -> JobRecord | None:
        try:
            event: Any = json.loads(line)
            kind, thing = event["type"], event["object"]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise _broken(operation) from error
        if kind == "ERROR":
            raise translate(status_failure(thing, 500), operation)
        job = job_record(thing, "volcano")
        if job is None or job.uid not in self.left:
            return None
        if kind == "DELETED" or job.phase in _TAKEN_UP:
            del self.left[job.uid]
        elif job.phase == "Restarting":
            self._restarting.add(job.uid)
        elif job.uid in self._restarting:
            self._restarting.discard(job.uid)
            return job
        return None


def _broken(operation: str) -> SchedulerError:
    return UnavailableError("a watch of jobs cannot be read", backend=BACKEND, operation=operation)


def _command(job: JobRecord, action: str) -> dict[str, Any]:
    owner = {
        "apiVersion": paths.GROUPS["volcano"],
        "kind": "Job",
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": paths.COMMANDS,
        "kind": "Command",
        "metadata": {
            "name": f"{job.name}-{action.lower()}-{secrets.token_hex(4)}",
            "namespace": job.namespace,
            "ownerReferences": [owner],
        },
        "action": action,
        "target": owner,
    }
