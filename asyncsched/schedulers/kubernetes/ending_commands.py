"""Send Commands to Volcano until the job shows that one took effect.

Volcano deletes a Command before it acts on it, so each acts at most once, and none at all if a call of the controller
fails or the controller restarts in between. Volcano also ignores commands while a job restarts.

A busy controller is slow, and every further Command makes it slower. So no Command is sent again while there is
progress: jobs changing state, or Commands disappearing. A Command that still exists has not been read yet.
"""

from __future__ import annotations

import asyncio
import functools
import json
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from asyncsched._tasks import gather_bounded
from asyncsched.clock import Clock, Timeout
from asyncsched.errors import (
    ConflictError,
    NotFoundError,
    PermissionDeniedError,
    SchedulerError,
    UnavailableError,
)
from asyncsched.logs.backoff import Backoff
from asyncsched.schedulers.kubernetes import lookup_paths as paths
from asyncsched.schedulers.kubernetes import names
from asyncsched.schedulers.kubernetes.changes import Reflector, Reflectors
from asyncsched.schedulers.kubernetes.changes_reflector import WATCH_FOR
from asyncsched.schedulers.kubernetes.client import KubeClient
from asyncsched.schedulers.kubernetes.errors import BACKEND, status_failure, translate
from asyncsched.schedulers.kubernetes.status_jobs import JobRecord, job_record
from asyncsched.schedulers.kubernetes.status_pods import section, text

__all__ = ["Commands"]

AT_ONCE = 16
AGAIN_AFTER = (3.0, 6.0, 12.0)
"""Seconds without progress after which commands are sent again; the last value repeats."""
FOR_EACH = 0.25
"""Additional seconds per remaining job: they all wait for one controller."""
LONGEST_EVENT = 8 << 20

_TAKEN_UP = frozenset({"Aborting", "Aborted", "Terminating", "Terminated", "Completing", "Completed", "Failed"})


class Commands:
    """Makes Volcano end jobs.

    Args:
        client: The client of the cluster.
        reflectors: Running watches of jobs, used where there are some.
        clock: The time source.
        wait_for: Seconds without progress after which to give up.
    """

    def __init__(self, client: KubeClient, reflectors: Reflectors, *, clock: Clock, wait_for: float) -> None:
        self._client, self._reflectors, self._clock, self._wait_for = client, reflectors, clock, wait_for

    async def send(self, job: JobRecord, action: str, operation: str) -> None:
        """Send one command; do not wait for its effect."""
        path, body = paths.commands(job.namespace), _command(job, action)
        try:
            await self._client.request("POST", path, body=body, idempotent=True, operation=operation)
        except ConflictError:
            return  # the answer to the first try was lost

    async def see_through(self, jobs: Sequence[JobRecord], action: str, operation: str) -> set[str]:
        """Wait until the command has taken effect on all jobs of one namespace; send it again where it has not.

        One watch covers all jobs.

        Returns:
            The uids of jobs without effect after `wait_for` seconds without progress.
        """
        if not jobs:
            return set()
        following = _Following(jobs, self._clock, longest=self._wait_for / 3)
        backoff = Backoff(self._clock, retry_for=self._wait_for, shortest=0.25)
        while following.left and (left := self._wait_for - following.quiet) > 0:
            try:
                reflector = self._reflectors.jobs(following.namespace, "volcano")
                if reflector.is_running:
                    await self._look_on(reflector, following, action, operation)
                else:
                    await self._follow(following, action, operation)
                backoff.worked()
            except PermissionDeniedError:
                return set()  # the role may not watch: the effect cannot be seen
            except SchedulerError as error:
                await self._clock.sleep(min(backoff.failed(error), left))
            except TimeoutError:
                await self._look(following, action, operation)
        return {*following.left}

    async def _follow(self, following: _Following, action: str, operation: str) -> None:
        """Read a watch until the command has taken effect on all jobs, the watch ends, or there is no progress."""
        jobs = [*following.left.values()]
        selector = f"{names.APP}={jobs[0].app}" if len(jobs) == 1 else names.SELECTOR
        query = {"watch": "true", "labelSelector": selector, "timeoutSeconds": str(int(WATCH_FOR))}
        rest = b""
        async with AsyncExitStack() as opened:
            async with self._in_time(following):
                watch = self._client.stream(paths.jobs(following.namespace, "volcano"), query, operation=operation)
                stream = await opened.enter_async_context(watch)
                following.seen = set()
            while following.left and following.quiet < self._wait_for:
                try:
                    async with self._in_time(following):
                        chunk = await stream.read_chunk()
                except TimeoutError:
                    if await self._look(following, action, operation):
                        return  # the watch may be dead
                    continue
                if not chunk:
                    return
                *lines, rest = (rest + chunk).split(b"\n")
                if passed_over := following.take(lines, operation):
                    await self._again(passed_over, action, operation)
                if len(rest) > LONGEST_EVENT:
                    raise _broken(operation)

    async def _look_on(
        self, reflector: Reflector[JobRecord], following: _Following, action: str, operation: str
    ) -> None:
        """Like `_follow`, with the running watch of a reflector."""
        pending, changed = {job.app for job in following.left.values()}, asyncio.Event()

        def note(app: str) -> None:
            pending.add(app)
            changed.set()

        following.seen = set()
        end = reflector.subscribe("", note)
        try:
            while following.left and following.quiet < self._wait_for and reflector.is_running:
                changed.clear()
                if reflector.synced:
                    apps = {job.app for job in following.left.values()}
                    passed_over = following.compare_known(reflector, apps if "" in pending else apps & pending)
                    pending.clear()
                    await self._again(passed_over, action, operation)
                try:
                    async with self._in_time(following):
                        await changed.wait()
                except TimeoutError:
                    await self._look(following, action, operation)
        finally:
            end()

    def _in_time(self, following: _Following) -> Timeout:
        return self._clock.timeout(max(0.0, min(following.until_look, self._wait_for - following.quiet)))

    async def _look(self, following: _Following, action: str, operation: str) -> bool:
        """Check jobs and Commands after a time without progress; return whether lost commands were sent again."""
        if following.left.keys() - following.seen:
            following.compare(await self._jobs(following, operation))
        unread = await self._unread(following, action, operation)
        if not following.left or following.looked(unread):
            return False
        lost = [job for uid, job in following.left.items() if uid not in (unread or ())]
        await self._again(lost, action, operation)
        return bool(lost)

    async def _unread(self, following: _Following, action: str, operation: str) -> set[str] | None:
        """Return the uids of jobs whose Command still exists; None if the role may not list Commands."""

        def target(raw: Mapping[str, Any]) -> str | None:
            return text(section(raw, "target").get("uid")) if raw.get("action") == action else None

        try:
            found = await self._client.items(paths.commands(following.namespace), target, operation=operation)
        except (NotFoundError, PermissionDeniedError):
            return None
        return following.left.keys() & {*found.items}

    async def _jobs(self, following: _Following, operation: str) -> Sequence[JobRecord]:
        path, query = paths.jobs(following.namespace, "volcano"), {"labelSelector": names.SELECTOR}
        read = functools.partial(job_record, kind="volcano")
        return (await self._client.items(path, read, query=query, operation=operation)).items

    async def _again(self, jobs: Iterable[JobRecord], action: str, operation: str) -> None:
        await gather_bounded(lambda job: self.send(job, action, operation), jobs, AT_ONCE)


class _Following:
    """The progress of jobs that were sent a Command.

    Args:
        jobs: The jobs; each was sent a Command.
        clock: The time source.
        longest: Most seconds without progress before the first check.

    Attributes:
        left: The jobs without effect so far, by uid.
        namespace: The namespace of all jobs.
        seen: The uids of jobs that the current watch has reported; a watch starts with all existing jobs.
        pause: Seconds without progress until the Commands are checked.
    """

    def __init__(self, jobs: Iterable[JobRecord], clock: Clock, *, longest: float) -> None:
        self.left = {job.uid: job for job in jobs}
        self.namespace = next(iter(self.left.values())).namespace
        self.seen: set[str] = set()
        self._pauses = iter(AGAIN_AFTER)
        self.pause = next(self._pauses)
        self._longest = longest
        self._clock = clock
        self._unread = {*self.left}
        self._sent_again = False
        self._progress = self._look = clock.monotonic()
        self._restarting: set[str] = set()

    @property
    def quiet(self) -> float:
        """Seconds since the last progress."""
        return self._clock.monotonic() - self._progress

    @property
    def until_look(self) -> float:
        """Seconds until the next check."""
        pause = max(self.pause, min(self.pause + FOR_EACH * len(self.left), self._longest))
        return self._look + pause - self._clock.monotonic()

    def looked(self, unread: set[str] | None) -> bool:
        """Record which Commands still exist; return whether Volcano is reading them, so that no resend is needed.

        If not, the missing ones count as lost and are sent again. Reading commands that were resent is not progress.
        """
        before, self._unread = self._unread & self.left.keys(), {*self.left}
        self._look = self._clock.monotonic()
        if unread is None or not unread < before or (self._sent_again and not unread):
            self._sent_again = True
            self.pause = next(self._pauses, self.pause)
            return False
        self._unread = unread
        if not self._sent_again:
            self._progressed()
        return True

    def _progressed(self) -> None:
        self._progress = self._look = self._clock.monotonic()

    def take(self, lines: Collection[bytes], operation: str) -> list[JobRecord]:
        """Record events; return the jobs that have finished restarting."""
        events = (self._event(line, operation) for line in lines if line.strip())
        return [job for job in events if job is not None]

    def compare(self, jobs: Iterable[JobRecord]) -> None:
        """Record the existing jobs: a watch that starts after a job was deleted does not report it."""
        existing = {job.uid for job in jobs if job.phase not in _TAKEN_UP}
        before, self.left = len(self.left), {uid: job for uid, job in self.left.items() if uid in existing}
        if len(self.left) < before:
            self._progressed()

    def _event(self, line: bytes, operation: str) -> JobRecord | None:
        try:
            event: Any = json.loads(line)
            kind, thing = event["type"], event["object"]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise _broken(operation) from error
        if kind == "ERROR":
            raise translate(status_failure(thing, 500), operation)
        job = job_record(thing, "volcano")
        return None if job is None else self._see(job, is_gone=kind == "DELETED")

    def compare_known(self, reflector: Reflector[JobRecord], apps: Collection[str]) -> list[JobRecord]:
        """Record a reflector's jobs of some apps, as `take` does; a job that it never had does not count as gone."""
        jobs = {job.uid: job for app in apps for job in reflector.snapshot(app)}
        gone = [job for job in self.left.values() if job.app in apps and job.uid in self.seen and job.uid not in jobs]
        for job in gone:
            self._see(job, is_gone=True)
        return [again for job in jobs.values() if (again := self._see(job)) is not None]

    def _see(self, job: JobRecord, *, is_gone: bool = False) -> JobRecord | None:
        """Record a job's state; return the job if it has finished restarting."""
        if job.uid not in self.left:
            return None
        self.seen.add(job.uid)
        if is_gone or job.phase in _TAKEN_UP:
            del self.left[job.uid]
            self._progressed()
        elif job.phase == "Restarting":
            self._restarting.add(job.uid)
        elif job.uid in self._restarting:
            self._restarting.discard(job.uid)
            return job
        return None


def _broken(operation: str) -> SchedulerError:
    return UnavailableError("the watch of jobs cannot be read", backend=BACKEND, operation=operation)


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
