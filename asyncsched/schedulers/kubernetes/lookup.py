"""Look up apps: one app in two requests, many with one list per resource and namespace."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from asyncsched.clock import Clock
from asyncsched.errors import AsyncSchedError, NotFoundError, PermissionDeniedError, SchedulerError
from asyncsched.logs.loop_time import budget_of
from asyncsched.schedulers.kubernetes import lookup_paths as paths
from asyncsched.schedulers.kubernetes import names
from asyncsched.schedulers.kubernetes.client import KubeClient
from asyncsched.schedulers.kubernetes.lookup_events import FRESH, JUST_READ, Events
from asyncsched.schedulers.kubernetes.lookup_server import Server
from asyncsched.schedulers.kubernetes.status import describe_app, describing, has_given_up, needs_events, waits, wanted
from asyncsched.schedulers.kubernetes.status_jobs import (
    EventRecord,
    JobRecord,
    Kind,
    PodGroupRecord,
    job_record,
    jobs_of_app,
    pod_group_record,
)
from asyncsched.schedulers.kubernetes.status_pods import PodRecord, pod_record, section
from asyncsched.schedulers.responses import DescribeAppResponse
from asyncsched.schedulers.state_reports import Answers, as_answer

__all__ = ["KINDS", "FoundObjects", "KubernetesLookup", "described"]

ItemT = TypeVar("ItemT")

KINDS: tuple[Kind, ...] = ("volcano", "job")
ONE_BY_ONE = 2
"""Up to this many apps of a namespace are read one by one; more are picked from lists of all asyncsched apps."""
MOST_KNOWN = 10_000
LARGE = 1000
"""An app with more pods than this is described in a thread: five thousand take 25 ms."""


@dataclass(frozen=True, slots=True)
class FoundObjects:
    """The objects of one app.

    Attributes:
        jobs: Its jobs.
        pods: Its pods.
        pod_group: Its PodGroup (Volcano), if known.
        knows_group: Whether `pod_group` was looked up, so that None means that there is none yet.
    """

    jobs: Sequence[JobRecord] = ()
    pods: Sequence[PodRecord] = ()
    pod_group: PodGroupRecord | None = None
    knows_group: bool = False


class KubernetesLookup:
    """Reads apps from the API server.

    Args:
        client: The client of the cluster.
        server: Knows which kinds of jobs the cluster supports.
        clock: The time source.
    """

    def __init__(self, client: KubeClient, server: Server, *, clock: Clock) -> None:
        self._client, self._server, self._clock = client, server, clock
        self._events = Events(client, clock=clock)
        self._kinds: OrderedDict[str, Kind] = OrderedDict()
        self._cancelled: OrderedDict[str, None] = OrderedDict()
        self._refused: set[str] = set()  # optional resources that the role does not allow

    def remember(self, app_id: str, kind: Kind) -> None:
        """Remember the kind of an app, which saves a request."""
        _keep(self._kinds, app_id, kind)

    def kind_of(self, app_id: str) -> Kind | None:
        """Return the kind of an app, if known."""
        return self._kinds.get(app_id)

    def note_cancel(self, app_id: str) -> None:
        """Remember that an app was cancelled: Volcano takes a moment to show it."""
        _keep(self._cancelled, app_id, None)

    async def close(self) -> None:
        """Stop reading events."""
        await self._events.close()

    # One app

    async def describe(self, app_id: str) -> DescribeAppResponse | None:
        """Describe one app."""
        return await self.describe_found(app_id, await self.find(app_id))

    async def find(self, app_id: str, *, operation: str = "describe") -> FoundObjects:
        """Read an app's jobs and pods, with two concurrent requests if its kind is known, else one by one."""
        namespace, name = names.split_app_id(app_id)
        kind = self._kinds.get(app_id)
        if kind is not None:
            reading = asyncio.gather(self.jobs(namespace, name, kind, operation), self.pods(namespace, name, operation))
            jobs, read = await reading
            if jobs:
                return FoundObjects(jobs, [pod for pod, _ in read])
            self._kinds.pop(app_id, None)  # another app may have its name by now
        read = await self.pods(namespace, name, operation)
        likely: Kind | None = next((kind for _, kind in read if kind), None)
        kinds: list[Kind] = [kind for kind in KINDS if not self._server.lacks(kind)]
        refused: dict[Kind, PermissionDeniedError] = {}
        for kind in _ordered(kinds, likely):
            try:
                jobs = await self.jobs(namespace, name, kind, operation)
            except PermissionDeniedError as error:
                refused[kind] = error  # a role may allow one kind only
                continue
            if jobs:
                self.remember(app_id, kind)
                return FoundObjects(jobs, [pod for pod, _ in read])
        if len(refused) == len(kinds):
            raise next(refused[kind] for kind in await self._server.kinds() if kind in refused)
        return FoundObjects()

    async def jobs(self, namespace: str, name: str, kind: Kind, operation: str) -> list[JobRecord]:
        """Read an app's jobs; none if the first one, which has the app's name, is missing or not asyncsched's."""
        if kind == "volcano":
            try:
                answer = await self._client.request("GET", paths.job(namespace, kind, name), operation=operation)
            except NotFoundError:
                return []
            record = job_record(answer.json, kind)
            return [record] if record is not None and record.is_first else []
        jobs = await self._all(paths.jobs(namespace, kind), lambda raw: job_record(raw, kind), operation, app=name)
        return jobs_of_app(jobs)

    async def pods(self, namespace: str, name: str, operation: str) -> list[tuple[PodRecord, Kind | None]]:
        """Read the pods of an app, each with the kind of its job if its labels name it."""
        return await self._all(paths.pods(namespace), _pod_and_kind, operation, app=name)

    async def describe_found(
        self, app_id: str, found: FoundObjects, *, later: Callable[[str], None] | None = None
    ) -> DescribeAppResponse | None:
        """Describe an app; read its PodGroup and events if only these say what it waits for.

        Args:
            app_id: The app.
            found: Its objects.
            later: Called with the app's id once events have been read; they are not awaited unless the app has ended.
        """
        if not found.jobs:
            return None
        namespace, _ = names.split_app_id(app_id)
        jobs, pods, group, events = found.jobs, found.pods, found.pod_group, []
        first = next((job for job in jobs if job.is_first), jobs[0])
        if group is None and not found.knows_group and first.kind == "volcano" and waits(jobs, pods):
            group = await self._pod_group(first)
        if needs_events(jobs, pods, self._clock.time_ns() / 1e9):
            about = [*(job.uid for job in jobs), *(pod.uid for pod in pods), *([group.uid] if group else ())]
            if has_given_up(jobs):
                events = await self._events.about(namespace, about, fresh=JUST_READ)
            else:
                beside = (app_id, later) if later is not None else None
                events = await self._events.about(namespace, about, fresh=FRESH, later=beside)
        response = await described(jobs, pods, group, events)
        is_cancelled = response is not None and app_id in self._cancelled and not response.state.is_terminal()
        if response is not None and is_cancelled and "cancelling" not in response.msg:
            response.msg = "cancelling"
        return response

    async def _pod_group(self, job: JobRecord) -> PodGroupRecord | None:
        path = f"{paths.pod_groups(job.namespace)}/{names.pod_group_name(job.name, job.uid)}"
        if path.split("/namespaces", maxsplit=1)[0] in self._refused:
            return None
        try:
            return pod_group_record((await self._client.request("GET", path, operation="describe")).json)
        except NotFoundError:
            return None
        except PermissionDeniedError:
            self._refused.add(path.split("/namespaces", maxsplit=1)[0])
            return None

    # Many apps

    async def describe_all(self, app_ids: Iterable[str]) -> AsyncGenerator[Answers]:
        """Describe many apps; yield one item per namespace."""
        by_namespace: dict[str, list[str]] = {}
        wrong: dict[str, AsyncSchedError] = {}
        for app_id in app_ids:
            try:
                by_namespace.setdefault(names.split_app_id(app_id)[0], []).append(app_id)
            except AsyncSchedError as error:
                wrong[app_id] = error
        if wrong:
            yield wrong
        for namespace, in_namespace in by_namespace.items():
            yield await self._describe_in(namespace, in_namespace)

    async def _describe_in(self, namespace: str, app_ids: Sequence[str]) -> Answers:
        try:
            if len(app_ids) <= ONE_BY_ONE:
                return {app_id: await self.describe(app_id) for app_id in app_ids}
            found = await self._with_groups(namespace, await self.find_in(namespace, app_ids))
            return {app_id: await self.describe_found(app_id, found[app_id]) for app_id in app_ids}
        except AsyncSchedError as error:
            return dict.fromkeys(app_ids, as_answer(error))

    async def find_in(
        self, namespace: str, app_ids: Collection[str], *, operation: str = "describe"
    ) -> dict[str, FoundObjects]:
        """Find apps of one namespace in lists of all its asyncsched apps.

        Args:
            namespace: The namespace.
            app_ids: The apps.
            operation: The operation to name in errors.
        """
        budget = budget_of(asyncio.get_running_loop())
        jobs: dict[str, list[JobRecord]] = {}
        for job in await self._jobs_in(namespace, app_ids, operation):
            jobs.setdefault(job.app_id, []).append(job)
        by_app: dict[str, list[PodRecord]] = {}
        budget.begin()
        for pod, _ in await self._all(paths.pods(namespace), _pod_and_kind, operation):
            by_app.setdefault(names.app_id(namespace, pod.app), []).append(pod)
            await budget.breathe()
        found: dict[str, FoundObjects] = {}
        for app_id in app_ids:
            mine = jobs_of_app(jobs.get(app_id, []))
            found[app_id] = FoundObjects(mine, by_app.get(app_id, [])) if mine else FoundObjects()
        return found

    async def _with_groups(self, namespace: str, found: dict[str, FoundObjects]) -> dict[str, FoundObjects]:
        """Add PodGroups from one list, if only these say what some of the apps wait for."""
        waiting = [app_id for app_id, each in found.items() if _waits_in_group(each)]
        if not waiting:
            return found
        try:
            groups = await self._all(paths.pod_groups(namespace), pod_group_record, "describe")
        except (NotFoundError, PermissionDeniedError):
            groups = []
        by_owner = {group.owner: group for group in groups}
        for app_id in waiting:
            group = by_owner.get(found[app_id].jobs[0].uid)
            found[app_id] = replace(found[app_id], pod_group=group, knows_group=True)
        return found

    async def _jobs_in(self, namespace: str, app_ids: Collection[str], operation: str) -> list[JobRecord]:
        """Read all jobs, of one kind if that has all apps; the server's kinds are requested only if needed."""
        jobs: list[JobRecord] = []
        wanted = {*app_ids}
        refused: list[SchedulerError] = []
        known = {self._kinds.get(app_id) for app_id in wanted}
        kinds: list[Kind] = [kind for kind in KINDS if not self._server.lacks(kind)]
        for kind in _ordered(kinds, "job" if known == {"job"} else None):
            if jobs and wanted <= {job.app_id for job in jobs if job.is_first}:
                break
            try:
                jobs += await self._all(paths.jobs(namespace, kind), _job_reader(kind), operation)
            except (NotFoundError, PermissionDeniedError) as error:
                if kind in await self._server.kinds():
                    refused.append(error)
                else:
                    kinds = ["job"]
        if any(isinstance(error, NotFoundError) for error in refused) or len(refused) == len(kinds):
            raise refused[0]
        return jobs

    async def _all(
        self, path: str, read: Callable[[Mapping[str, Any]], ItemT | None], operation: str, *, app: str = ""
    ) -> list[ItemT]:
        """List the objects with asyncsched's label, of one app or of all."""
        selector = f"{names.APP}={app}" if app else names.SELECTOR
        return (await self._client.items(path, read, query={"labelSelector": selector}, operation=operation)).items


async def described(
    jobs: Sequence[JobRecord],
    pods: Sequence[PodRecord],
    group: PodGroupRecord | None = None,
    events: Sequence[EventRecord] = (),
) -> DescribeAppResponse | None:
    """Describe an app as `describe_app` does; a large one, even if only its note calls it large, in a thread."""
    if max(len(pods), wanted(jobs)) > LARGE:
        return await asyncio.to_thread(describe_app, jobs, pods, group, events)
    description = describing(jobs, pods, group, events)
    if description is None:
        return None
    if sum(description.counts) > LARGE:
        return await asyncio.to_thread(description.described)
    return description.described()


def _waits_in_group(found: FoundObjects) -> bool:
    return bool(found.jobs) and found.jobs[0].kind == "volcano" and waits(found.jobs, found.pods)


def _keep(kept: OrderedDict[str, ItemT], app_id: str, value: ItemT) -> None:
    kept[app_id] = value
    if len(kept) > MOST_KNOWN:
        kept.popitem(last=False)


def _pod_and_kind(raw: Mapping[str, Any]) -> tuple[PodRecord, Kind | None] | None:
    record = pod_record(raw)
    if record is None:
        return None
    kind = section(section(raw, "metadata"), "labels").get(names.KIND)
    return record, next((each for each in KINDS if each == kind), None)


def _job_reader(kind: Kind) -> Callable[[Mapping[str, Any]], JobRecord | None]:
    return lambda raw: job_record(raw, kind)


def _ordered(kinds: Sequence[Kind], likely: Kind | None) -> list[Kind]:
    """Return the kinds, the likely one first."""
    return sorted(kinds, key=lambda kind: kind != likely)
