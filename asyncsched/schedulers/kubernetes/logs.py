"""Create the log sources of replicas, and the state that they share."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING

from asyncsched.schedulers.kubernetes import names
from asyncsched.schedulers.kubernetes.logs_pods import AppPods
from asyncsched.schedulers.kubernetes.logs_source import LogRoom, PodLog
from asyncsched.schedulers.kubernetes.logs_streams import check_streams
from asyncsched.schedulers.kubernetes.status import Native
from asyncsched.specs.stream import Stream

if TYPE_CHECKING:
    from asyncsched.clock import Clock
    from asyncsched.logs.query import LogQuery
    from asyncsched.schedulers.kubernetes.changes import Reflectors
    from asyncsched.schedulers.kubernetes.client import KubeClient
    from asyncsched.schedulers.responses import DescribeAppResponse
    from asyncsched.specs.state import ReplicaStatus

__all__ = ["PodLogs"]

OPENING = 32
"""Most logs opened at the same time: thousands at once would overload the API server."""


class PodLogs:
    """Creates log sources.

    Args:
        client: The client of the cluster.
        reflectors: The watches of pods.
        clock: The time source for pauses.
        retry_for: Seconds of failures without progress after which a log fails.
    """

    def __init__(self, client: KubeClient, reflectors: Reflectors, *, clock: Clock, retry_for: float) -> None:
        self._room = LogRoom(client, clock, retry_for, asyncio.Semaphore(OPENING))
        self._reflectors = reflectors
        self._followed: weakref.WeakValueDictionary[str, AppPods] = weakref.WeakValueDictionary()
        self._tells_streams = False

    async def sources(
        self, app: DescribeAppResponse, replicas: Sequence[ReplicaStatus], query: LogQuery
    ) -> Sequence[PodLog]:
        """Return a source for each replica.

        Raises:
            ValueError: The cluster cannot separate stdout from stderr.
        """
        namespace, name = names.split_app_id(query.app_id)
        if query.streams is not Stream.COMBINED and not self._tells_streams:
            await check_streams(self._room.client, namespace, name, query.streams)
            self._tells_streams = True
        pods = await self._pods(app, namespace, name, follow=query.tail)
        return [PodLog(self._room, pods, replica, query) for replica in replicas]

    async def _pods(self, app: DescribeAppResponse, namespace: str, name: str, *, follow: bool) -> AppPods:
        if not follow:
            pods = AppPods(self._room.client, namespace, name)
            pods.add_owners([app.native_id])
            if isinstance(app.native, Native):
                pods.add_owners(job.uid for job in app.native.jobs)
                pods.take(app.native.pods)
            else:
                await pods.open()
            return pods
        found = self._followed.get(app.app_id)
        if found is None:
            has_roles = len(app.roles) > 1
            found = AppPods(self._room.client, namespace, name, self._reflectors, has_roles=has_roles)
            self._followed[app.app_id] = found
        found.add_owners([app.native_id])
        await found.open()
        return found
