"""Commands for Volcano, sent until the job shows that one was taken up.

Volcano removes a Command before it does what it says, so that it is done once at most: what its controller has in mind
is lost when the API server fails it, or when it is restarted itself. While a job restarts it passes over commands, too.

A controller that has much to do takes its time, and every further Command makes it slower. So none is sent again while
something still happens: while jobs go over, or Commands are taken away. One that is still there has not been read yet.
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
"""Seconds without any progress after which commands are sent again, the last of them from then on."""
FOR_EACH = 0.25
"""Seconds more for each job that is left: they all wait for one controller."""
LONGEST_EVENT = 8 << 20

_TAKEN_UP = frozenset({"Aborting", "Aborted", "Terminating", "Terminated", "Completing", "Completed", "Failed"})


class Commands:
    """Has Volcano end jobs.

    Args:
        client: Where the cluster is reached.
        reflectors: What watches jobs already, where somebody does.
        clock: Tells the time.
        wait_for: Seconds without any progress after which no more is hoped for.
    """

    def __init__(self, client: KubeClient, reflectors: Reflectors, *, clock: Clock, wait_for: float) -> None:
        self._client, self._reflectors, self._clock, self._wait_for = client, reflectors, clock, wait_for

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
            The uids of those that show nothing of it when nothing has happened for `wait_for` seconds.
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
                return set()  # a role that may not watch: nobody can tell
            except SchedulerError as error:
                await self._clock.sleep(min(backoff.failed(error), left))
            except TimeoutError:
                await self._look(following, action, operation)
        return {*following.left}

    async def _follow(self, following: _Following, action: str, operation: str) -> None:
        """Read a watch until all have taken up their command, it ends, or nothing is hoped for any more."""
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
        """Likewise, told by the watch that there is."""
        told, changed = {job.app for job in following.left.values()}, asyncio.Event()

        def tell(app: str) -> None:
            told.add(app)
            changed.set()

        following.seen = set()
        end = reflector.subscribe("", tell)
        try:
            while following.left and following.quiet < self._wait_for and reflector.is_running:
                changed.clear()
                if reflector.synced:
                    apps = {job.app for job in following.left.values()}
                    passed_over = following.compare_known(reflector, apps if "" in told else apps & told)
                    told.clear()
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
        """Look what there is after a time without progress; returns whether some were lost, and are sent again."""
        if following.left.keys() - following.seen:
            following.compare(await self._jobs(following, operation))
        unread = await self._unread(following, action, operation)
        if not following.left or following.looked(unread):
            return False
        lost = [job for uid, job in following.left.items() if uid not in (unread or ())]
        await self._again(lost, action, operation)
        return bool(lost)

    async def _unread(self, following: _Following, action: str, operation: str) -> set[str] | None:
        """Return the uids of jobs whose Command is still there; None where the role may not list Commands."""

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
    """What a watch has told of jobs that are to end.

    Args:
        jobs: The jobs, to each of which a Command was sent.
        clock: Tells the time.
        longest: Seconds that may pass without progress, at the most, before the first look.

    Attributes:
        left: Those that have not taken it up, by their uid.
        namespace: The namespace of all of them.
        seen: The uids of jobs that the present watch has told of; it begins with all that there are.
        pause: Seconds without progress until somebody looks what has become of the Commands.
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
        """Seconds since something has happened."""
        return self._clock.monotonic() - self._progress

    @property
    def until_look(self) -> float:
        """Seconds until somebody looks."""
        pause = max(self.pause, min(self.pause + FOR_EACH * len(self.left), self._longest))
        return self._look + pause - self._clock.monotonic()

    def looked(self, unread: set[str] | None) -> bool:
        """Take over which Commands are still there; returns whether Volcano is reading them, so that all can wait.

        If it is not, those that are gone are taken to be sent again. Of these, its reading gives no new hope.
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
        """Take over what has happened; returns the jobs that have gone on after a restart."""
        events = (self._event(line, operation) for line in lines if line.strip())
        return [job for job in events if job is not None]

    def compare(self, jobs: Iterable[JobRecord]) -> None:
        """Take over what there is: a watch that begins after a job was deleted says nothing of it."""
        there = {job.uid for job in jobs if job.phase not in _TAKEN_UP}
        before, self.left = len(self.left), {uid: job for uid, job in self.left.items() if uid in there}
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
        """Take over what a reflector has of some apps, as `take` does; what it has not had yet is not gone."""
        jobs = {job.uid: job for app in apps for job in reflector.snapshot(app)}
        gone = [job for job in self.left.values() if job.app in apps and job.uid in self.seen and job.uid not in jobs]
        for job in gone:
            self._see(job, is_gone=True)
        return [again for job in jobs.values() if (again := self._see(job)) is not None]

    def _see(self, job: JobRecord, *, is_gone: bool = False) -> JobRecord | None:
        """Take over what a job is now; returns it if it has gone on after a restart."""
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
