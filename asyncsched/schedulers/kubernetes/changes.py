"""Track changes in a namespace with one list and one watch per resource, shared by all apps and callers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from asyncsched._tasks import close_all
from asyncsched.clock import Clock
from asyncsched.schedulers.kubernetes import lookup_paths as paths
from asyncsched.schedulers.kubernetes.changes_reflector import KeptObject, Reflector
from asyncsched.schedulers.kubernetes.client import KubeClient
from asyncsched.schedulers.kubernetes.status_jobs import JobRecord, Kind, PodGroupRecord, job_record, pod_group_record
from asyncsched.schedulers.kubernetes.status_pods import PodRecord, pod_record

__all__ = ["Reflector", "Reflectors"]

RecordT = TypeVar("RecordT", bound=KeptObject)

CLOSE_WITHIN = 10.0


class Reflectors:
    """The reflectors of one client; each is made on first use and runs while it has subscribers."""

    def __init__(self, client: KubeClient, *, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._made: dict[str, Reflector[Any]] = {}

    def __repr__(self) -> str:
        return f"<Reflectors: {len(self._made)}>"

    def pods(self, namespace: str) -> Reflector[PodRecord]:
        """Return the reflector of a namespace's pods."""
        return self._of(paths.pods(namespace), pod_record, lambda pod: pod.app)

    def jobs(self, namespace: str, kind: Kind) -> Reflector[JobRecord]:
        """Return the reflector of a namespace's jobs of one kind."""
        return self._of(paths.jobs(namespace, kind), lambda raw: job_record(raw, kind), lambda job: job.app)

    def pod_groups(self, namespace: str) -> Reflector[PodGroupRecord]:
        """Return the reflector of a namespace's PodGroups."""
        return self._of(paths.pod_groups(namespace), pod_group_record, _job_of)

    async def close(self) -> None:
        """Stop all reflectors."""
        await close_all([each.close() for each in self._made.values()], CLOSE_WITHIN)

    def _of(
        self, path: str, read: Callable[[Mapping[str, Any]], RecordT | None], app_of: Callable[[RecordT], str]
    ) -> Reflector[RecordT]:
        found = self._made.get(path)
        if found is None:
            found = self._made[path] = Reflector(self._client, path, read, app_of, clock=self._clock)
        return cast("Reflector[RecordT]", found)


def _job_of(group: PodGroupRecord) -> str:
    """Return the name of a PodGroup's job, which is the app's name: the group's name is the job's name and uid."""
    return group.name.removesuffix(f"-{group.owner}")
