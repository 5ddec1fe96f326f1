"""Cancel, delete and prune apps, with one write per app and few reads for many apps."""

from __future__ import annotations

from collections.abc import AsyncIterable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from asyncsched._tasks import gather_bounded
from asyncsched.clock import Clock
from asyncsched.errors import (
    ConflictError,
    NotFoundError,
    PermissionDeniedError,
    SchedulerError,
    UnavailableError,
)
from asyncsched.schedulers.ending import not_ended
from asyncsched.schedulers.kubernetes import lookup_paths as paths
from asyncsched.schedulers.kubernetes import names
from asyncsched.schedulers.kubernetes.changes import Reflectors
from asyncsched.schedulers.kubernetes.client import KubeClient
from asyncsched.schedulers.kubernetes.ending_commands import Commands
from asyncsched.schedulers.kubernetes.errors import BACKEND
from asyncsched.schedulers.kubernetes.lookup import ONE_BY_ONE, FoundObjects, KubernetesLookup, described
from asyncsched.schedulers.kubernetes.status_jobs import JobRecord, job_record
from asyncsched.schedulers.kubernetes.submit import BACKGROUND, MERGE_PATCH
from asyncsched.schedulers.responses import ListAppResponse
from asyncsched.specs.state import AppState

__all__ = ["KubernetesEndings"]

AT_ONCE = 16
CONFLICT_PAUSES = (0.05, 0.2, 0.5, 1.0, 2.0)
"""Seconds between the tries of a write that conflicts with another."""


class KubernetesEndings:
    """Ends apps.

    Args:
        client: The client of the cluster.
        lookup: Finds the jobs of an app.
        reflectors: Running watches of jobs, used where there are some.
        clock: The time source.
        retry_for: Most seconds that a cancel may take in total.
    """

    def __init__(
        self, client: KubeClient, lookup: KubernetesLookup, reflectors: Reflectors, *, clock: Clock, retry_for: float
    ) -> None:
        self._client, self._lookup, self._clock = client, lookup, clock
        self._commands = Commands(client, reflectors, clock=clock, wait_for=retry_for * 0.75)

    async def cancel(self, app_id: str) -> None:
        """Cancel an app; an unknown or ended app is left alone."""
        found = await self._lookup.find(app_id, operation="cancel")
        if (error := (await self._end_all({app_id: found}))[app_id]) is not None:
            raise error

    async def cancel_many(self, app_ids: Collection[str]) -> Mapping[str, SchedulerError | None]:
        """Cancel apps; return for each None or the error that kept it from being cancelled.

        Raises:
            MalformedHandleError: One of the ids is malformed; nothing was cancelled.
        """
        by_namespace: dict[str, list[str]] = {}
        for app_id in app_ids:
            by_namespace.setdefault(names.split_app_id(app_id)[0], []).append(app_id)
        outcomes: dict[str, SchedulerError | None] = {}
        for namespace, in_namespace in by_namespace.items():
            outcomes |= await self._cancel_in(namespace, in_namespace)
        return outcomes

    async def delete(self, app_id: str) -> None:
        """Delete an app that has ended or was never released.

        Raises:
            ConflictError: The app is active.
        """
        found = await self._lookup.find(app_id, operation="delete")
        app = await described(found.jobs, found.pods)
        if app is None:
            return
        if not app.state.is_terminal() and not is_unfinished(found):
            raise not_ended(app_id, BACKEND, f"it is {app.state.name}")
        await self._remove(found.jobs, "delete")

    async def give_up(self, app_id: str) -> None:
        """End an app that has waited too long for its first run, as failed instead of cancelled."""
        found = await self._lookup.find(app_id, operation="pending_timeout")
        app = await described(found.jobs, found.pods)
        if app is None or app.state not in (AppState.SUBMITTED, AppState.PENDING):
            return
        if found.jobs[0].kind == "volcano":
            await self._commands.send(found.jobs[0], "TerminateJob", "pending_timeout")
            await self._commands.see_through(found.jobs, "TerminateJob", "pending_timeout")
            return
        now = self._now()

        async def fail(job: JobRecord) -> None:
            # The deadline of a Job that Kueue has suspended does not run: leave it suspended.
            spec = {"suspend": True} if job.suspended else {"activeDeadlineSeconds": 1}
            patch = {"metadata": {"annotations": {names.UNSCHEDULED: now}}, "spec": spec}
            await self._patch(job, patch, "pending_timeout")

        await gather_bounded(fail, found.jobs, AT_ONCE)

    async def prune_unfinished(self, rows: AsyncIterable[ListAppResponse], older_than: timedelta) -> list[str]:
        """Remove apps older than this whose submitter died before the submit was complete; return their ids."""
        limit = self._clock.time_ns() / 1e9 - older_than.total_seconds()
        removed: list[str] = []
        async for row in rows:
            is_old = row.created_at is not None and row.created_at.timestamp() <= limit
            if row.state is AppState.PENDING and is_old:
                found = await self._lookup.find(row.app_id, operation="prune")
                if is_unfinished(found):
                    await self._remove(found.jobs, "prune")
                    removed.append(row.app_id)
        return removed

    async def _cancel_in(self, namespace: str, app_ids: Sequence[str]) -> dict[str, SchedulerError | None]:
        try:
            if len(app_ids) <= ONE_BY_ONE:
                found = {app_id: await self._lookup.find(app_id, operation="cancel") for app_id in app_ids}
            else:
                found = await self._lookup.find_in(namespace, app_ids, operation="cancel")
        except SchedulerError as error:
            return dict.fromkeys(app_ids, error)
        return await self._end_all(found)

    async def _end_all(self, found: Mapping[str, FoundObjects]) -> dict[str, SchedulerError | None]:
        """End apps of one namespace; return for each None or the error that kept it running."""
        commanded: list[JobRecord] = []

        async def one(app_id: str) -> SchedulerError | None:
            try:
                if await self._end(app_id, found[app_id]):
                    commanded.append(found[app_id].jobs[0])
            except SchedulerError as error:
                return error
            return None

        outcomes = dict(zip(found, await gather_bounded(one, found, AT_ONCE), strict=True))
        try:
            left = await self._commands.see_through(commanded, "AbortJob", "cancel")
        except SchedulerError as error:
            return {**outcomes, **{job.app_id: error for job in commanded}}
        return {**outcomes, **{job.app_id: _not_taken_up(job.app_id) for job in commanded if job.uid in left}}

    async def _end(self, app_id: str, found: FoundObjects) -> bool:
        """Cancel an app that has not ended; return whether Volcano still has to act on the command."""
        app = await described(found.jobs, found.pods)
        if app is None or app.state.is_terminal() or all(job.cancelled for job in found.jobs):
            return False
        is_commanded = found.jobs[0].kind == "volcano"
        try:
            if is_commanded:
                await self._commands.send(found.jobs[0], "AbortJob", "cancel")
            else:
                await gather_bounded(self._suspend, found.jobs, AT_ONCE)
        except (NotFoundError, PermissionDeniedError):  # Commands may be served in another version
            await self._remove(found.jobs, "cancel")  # this loses status and logs, but ends the app
            is_commanded = False
        self._lookup.note_cancel(app_id)
        return is_commanded

    async def _suspend(self, job: JobRecord) -> None:
        """Suspend a Job, and annotate it as cancelled to distinguish it from one that Kueue has queued."""
        if not any(job.condition(end) for end in ("Complete", "Failed")):
            patch = {"metadata": {"annotations": {names.CANCELLED: self._now()}}, "spec": {"suspend": True}}
            await self._patch(job, patch, "cancel")

    async def _patch(self, job: JobRecord, patch: Mapping[str, Any], operation: str) -> None:
        path = paths.job(job.namespace, "job", job.name)
        body = {**patch, "metadata": {**patch["metadata"], "uid": job.uid}}
        for pause in (*CONFLICT_PAUSES, None):
            try:
                await self._client.request(
                    "PATCH", path, body=body, content_type=MERGE_PATCH, idempotent=True, operation=operation
                )
                return
            except NotFoundError:
                return  # it was deleted meanwhile
            except ConflictError:
                if not await self._exists(job, operation):
                    return  # another job may have its name
                if pause is None:
                    raise
                await self._clock.sleep(pause)  # the Job's controller wrote it at the same time

    async def _exists(self, job: JobRecord, operation: str) -> bool:
        path = paths.job(job.namespace, job.kind, job.name)
        try:
            found = job_record((await self._client.request("GET", path, operation=operation)).json, job.kind)
        except NotFoundError:
            return False
        return found is not None and found.uid == job.uid

    def _now(self) -> str:
        return datetime.fromtimestamp(self._clock.time_ns() / 1e9, UTC).isoformat(timespec="seconds")

    async def _remove(self, jobs: Sequence[JobRecord], operation: str) -> None:
        """Delete jobs with their pods; the first job goes last, because the app is known as long as it exists."""
        others = [job for job in jobs if not job.is_first]

        async def remove(job: JobRecord) -> None:
            body = {**BACKGROUND, "preconditions": {"uid": job.uid}}
            path = paths.job(job.namespace, job.kind, job.name)
            try:
                await self._client.request("DELETE", path, body=body, idempotent=True, operation=operation)
            except (NotFoundError, ConflictError):
                return  # it is gone, and another job may have its name

        await gather_bounded(remove, others, AT_ONCE)
        await gather_bounded(remove, [job for job in jobs if job.is_first], AT_ONCE)


def is_unfinished(found: FoundObjects) -> bool:
    """Return whether an app was never released: its submitter died during the submit, or is still submitting.

    Pods of other roles may run already, because their Jobs are not suspended.
    """
    first = next((job for job in found.jobs if job.is_first), None)
    return (
        first is not None
        and first.kind == "job"
        and first.suspended
        and not (first.cancelled or first.queue or first.started_at)
        and all(pod.owner != first.uid for pod in found.pods)
    )


def _not_taken_up(app_id: str) -> SchedulerError:
    return UnavailableError(
        f"Volcano has not started to end {app_id}",
        why="its job shows no effect of the repeated AbortJob command",
        fix="check that Volcano's controller (vc-controller-manager) runs, and cancel again",
        backend=BACKEND,
        operation="cancel",
    )
