"""Find the pods of an app for reading logs: from the reflector when following, else from a list."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from asyncsched.errors import NotFoundError, PermissionDeniedError
from asyncsched.schedulers.kubernetes import lookup_paths as paths
from asyncsched.schedulers.kubernetes import names
from asyncsched.schedulers.kubernetes.status_pods import PodRecord, pod_record

if TYPE_CHECKING:
    from asyncsched.schedulers.kubernetes.changes import Reflectors
    from asyncsched.schedulers.kubernetes.client import KubeClient

__all__ = ["AppPods", "ReplicaKey"]

ReplicaKey = tuple[str, int]
"""A role's name and a replica's id."""


class AppPods:
    """The pods of one app's jobs, shared by the sources of its replicas.

    The labels of a pod are not enough: a pod without a controller, or of another job, may carry them as well.

    Args:
        client: The client of the cluster.
        namespace: The app's namespace.
        name: The app's name.
        reflectors: The watches of changes; None to read the pods only once.
        has_roles: Whether the app has several roles, each of which may be a Job.
    """

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        name: str,
        reflectors: Reflectors | None = None,
        *,
        has_roles: bool = False,
    ) -> None:
        self.namespace, self.name = namespace, name
        self._client = client
        self._reflector = None if reflectors is None else reflectors.pods(namespace)
        self._jobs = reflectors.jobs(namespace, "job") if reflectors is not None and has_roles else None
        self._held: ExitStack | None = None  # the subscriptions, while there are readers
        self._callbacks: dict[ReplicaKey, Callable[[], None]] = {}
        self._labelled: Sequence[PodRecord] = ()
        self._pods: dict[ReplicaKey, tuple[PodRecord, ...]] = {}
        self._owners: set[str] = set()
        self._due = False
        self._list: asyncio.Task[None] | None = None

    @property
    def lists(self) -> int:
        """How many lists were made; between two of them every pod was seen."""
        return 0 if self._reflector is None else self._reflector.lists

    def add_owners(self, jobs: Iterable[str]) -> None:
        """Add the uids of jobs whose pods belong to the app."""
        self._owners.update(jobs)

    def take(self, pods: Sequence[PodRecord]) -> None:
        """Replace the pods that carry the app's label."""
        self._labelled = pods
        found: dict[ReplicaKey, tuple[PodRecord, ...]] = {}
        for pod in pods:
            if pod.owner in self._owners:
                place = (pod.role, pod.replica)
                found[place] = (*found.get(place, ()), pod)
        before, self._pods = self._pods, found
        for place, callback in list(self._callbacks.items()):
            if before.get(place) != found.get(place):
                callback()

    def of(self, place: ReplicaKey) -> Sequence[PodRecord]:
        """Return the pods of one replica."""
        return self._pods.get(place, ())

    async def open(self) -> None:
        """Wait until the pods are known."""
        if self._reflector is None:
            await self.list_again()
            return
        with ExitStack() as opened:
            opened.callback(self._reflector.subscribe(self.name, self._changed))
            if self._jobs is not None:
                opened.callback(self._jobs.subscribe(self.name, self._changed))
                with suppress(PermissionDeniedError):  # the role may allow Volcano's jobs only
                    await self._jobs.ready()
            await self._reflector.ready()
            self._take_known(self._reflector.snapshot(self.name))
            if self._held is None:
                # Kept until the last source has closed; without subscribers the reflectors would stop.
                self._held = opened.pop_all()

    def watch(self, place: ReplicaKey, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` when the pods of a replica change; return a function that stops it."""
        self._callbacks[place] = callback
        return lambda: self._unwatch(place)

    def _unwatch(self, place: ReplicaKey) -> None:
        self._callbacks.pop(place, None)
        if not self._callbacks:
            self.close()

    def close(self) -> None:
        """Unsubscribe from the reflectors."""
        held, self._held = self._held, None
        if held is not None:
            held.close()

    def _changed(self, _: str) -> None:
        if not self._due:  # events come in bursts
            self._due = True
            asyncio.get_running_loop().call_soon(self._reflect)

    def _reflect(self) -> None:
        self._due = False
        if self._reflector is not None and self._held is not None:
            self._take_known(self._reflector.snapshot(self.name) if self._reflector.synced else self._labelled)

    def _take_known(self, pods: Sequence[PodRecord]) -> None:
        """Replace the pods, after adding the Jobs of further roles: these are created one after the other."""
        jobs = self._jobs.snapshot(self.name) if self._jobs is not None else ()
        self.add_owners(job.uid for job in jobs if not self._owners.isdisjoint(job.owners))
        self.take(pods)

    async def list_again(self) -> None:
        """List the pods now; concurrent callers share one list."""
        if self._list is None or self._list.done():
            self._list = asyncio.get_running_loop().create_task(self._read_list(), name=f"pods of {self.name}")
        await asyncio.shield(self._list)

    async def _read_list(self) -> None:
        query = {"labelSelector": f"{names.APP}={self.name}", "limit": "500"}
        found: list[PodRecord] = []
        while True:
            page = await self._client.page(paths.pods(self.namespace), pod_record, query=query, operation="log_iter")
            found += page.items
            if not page.next:
                break
            query = {**query, "continue": page.next}
        self.take(found)

    async def look(self, pod: PodRecord) -> PodRecord | None:
        """Get the pod of this name from the server; it may be another pod by now, or None."""
        try:
            answer = await self._client.request("GET", self.path(pod), operation="log_iter")
        except NotFoundError:
            return None
        raw: Mapping[str, Any] = answer.json
        return pod_record(raw) or replace(pod, uid="")  # the name belongs to an unrelated pod now

    def path(self, pod: PodRecord) -> str:
        """Return the path of a pod."""
        return f"{paths.pods(self.namespace)}/{quote(pod.name, safe='')}"
