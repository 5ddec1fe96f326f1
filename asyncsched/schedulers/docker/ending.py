"""End apps: cancel, kill, stop after a failure or a timeout, remove."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from asyncsched._tasks import BackgroundTasks, gather_bounded
from asyncsched.schedulers.docker import names
from asyncsched.schedulers.docker.ending_stop import AT_ONCE, Stop
from asyncsched.schedulers.docker.ending_timeout import TimeLimits
from asyncsched.schedulers.docker.status import describe_app
from asyncsched.schedulers.docker.status_containers import Container, by_app
from asyncsched.schedulers.ending import not_ended
from asyncsched.schedulers.hooks import TERMINAL
from asyncsched.specs.state import AppState

if TYPE_CHECKING:
    from asyncsched._dockerd import Daemon
    from asyncsched.clock import Clock
    from asyncsched.schedulers.docker.lookup import DockerLookup
    from asyncsched.schedulers.state_stream import StateStream

__all__ = ["DockerEndings"]

_log = logging.getLogger("asyncsched.schedulers.docker")


class DockerEndings:
    """Ends the apps of a scheduler, some of them in the background.

    Args:
        docker: Returns the daemon.
        lookup: Finds containers.
        watch: Watches an app.
        clock: Used for pauses.
        retry_for: Seconds for which a request that may have reached the daemon is repeated.
    """

    def __init__(
        self,
        docker: Callable[[], Awaitable[Daemon]],
        lookup: DockerLookup,
        watch: Callable[[str], StateStream],
        *,
        clock: Clock,
        retry_for: float,
    ) -> None:
        self._docker = docker
        self._lookup = lookup
        self._watch = watch
        self._clock = clock
        self._retry_for = retry_for
        self._tasks = BackgroundTasks(_log)
        self._timed: set[str] = set()  # apps whose timeouts are being enforced

    async def cancel(self, app_id: str) -> None:
        """Mark and stop what has not ended, without waiting for the end."""
        await self._stop(await self._lookup.members(app_id, "cancel"), names.CANCELLED)

    async def cancel_listed(self, app_id: str, listed: Collection[Container]) -> None:
        """Do the same for an app whose containers were listed a while ago, together with those of others."""
        if any(container.state == "created" for container in listed):
            await self.cancel(app_id)  # it is being submitted: there may be more of them by now
        else:
            await self._stop(listed, names.CANCELLED)

    async def kill(self, app_id: str) -> None:
        """Like `cancel`, but without a grace period, also in the middle of one."""
        await self.cancel(app_id)
        daemon = await self._docker()
        live = [container for container in await self._lookup.members(app_id, "kill") if not container.over]
        await gather_bounded(lambda container: daemon.kill_container(container.id, operation="kill"), live, AT_ONCE)

    async def _stop(self, containers: Iterable[Container], mark: str) -> None:
        stop = Stop(await self._docker(), mark, own=self._tasks.start, clock=self._clock, retry_for=self._retry_for)
        await gather_bounded(stop, [container for container in containers if not container.over], AT_ONCE)

    # Background work

    def stop_when_one_fails(self, app_id: str) -> None:
        """Stop an app as soon as one of its replicas has failed for good."""
        self._tasks.start(self._wait_for_a_failure(app_id))

    async def _wait_for_a_failure(self, app_id: str) -> None:
        async with self._watch(app_id) as watch:
            async for event in watch:
                replicas = event.current.replicas if event.current is not None else []
                if any(replica.state is AppState.FAILED for replica in replicas):
                    break
        await self._stop(await self._lookup.members(app_id, "cancel"), names.STOPPED)

    def keep_time(self, members: Iterable[Container]) -> None:
        """Enforce the timeouts of these replicas, whichever process submitted them."""
        for app_id in {each.app_id for each in members if math.isfinite(each.timeout) and not each.over}:
            self.keep_time_of(app_id)

    def keep_time_of(self, app_id: str) -> None:
        """Enforce the timeouts of an app."""
        if app_id not in self._timed:
            self._timed.add(app_id)
            self._tasks.start(self._stop_over_time(app_id))

    async def _stop_over_time(self, app_id: str) -> None:
        limits = TimeLimits(
            await self._docker(),
            lambda: self._lookup.members(app_id, "watch"),
            lambda late: self._stop(late, names.TIMED_OUT),
            clock=self._clock,
        )
        try:
            async with self._watch(app_id) as watch:
                await limits.keep(watch)
        finally:
            self._timed.discard(app_id)

    async def close(self, timeout: float) -> None:
        """End the background work. The daemon has its requests, and stops the containers without us."""
        await self._tasks.close(timeout)

    # Removing

    async def delete(self, app_id: str) -> None:
        """Remove the containers of an app that has ended."""
        members = await self._lookup.members(app_id, "delete")
        running = [container for container in members if not container.over]
        daemon = await self._docker()
        if running:
            why = f"{len(running)} of its {len(members)} replicas are running or waiting"
            raise not_ended(app_id, daemon.backend, why)
        await self._remove(members, "delete")

    async def prune(self, seconds: float, states: Collection[AppState]) -> list[str]:
        """Remove the apps that ended in one of these states at least this many seconds ago."""
        return await self._remove_ended(names.APP_ID, "prune", lambda _: seconds, states)

    async def remove_expired(self) -> None:
        """Remove the apps whose `remove_after` label has expired."""
        await self._remove_ended(names.REMOVE_AFTER, "submit", lambda container: container.remove_after, TERMINAL)

    async def _remove_ended(
        self, label: str, operation: str, age: Callable[[Container], float], states: Collection[AppState]
    ) -> list[str]:
        """Remove the apps with this label that ended at least this many seconds ago, by the daemon's clock."""
        apps = by_app(await self._lookup.containers(label, operation))
        ended = {app_id: each for app_id, each in apps.items() if all(c.over and not c.identity.fault for c in each)}
        if not ended:
            return []
        now = await (await self._docker()).ask_time(operation=operation) + 1  # ask_time rounds down
        removed: list[str] = []
        for app_id, members in ended.items():
            if any(each.created + age(each) > now for each in members):
                continue  # nothing ends before it was created: no need to inspect
            detailed = await self._lookup.ends_of(members)
            described = describe_app(app_id, detailed)
            if described is None or described.state not in states:
                continue
            if max((each.finished_at or each.created_at).timestamp() + age(each) for each in detailed) <= now:
                await self._remove(detailed, operation)
                removed.append(app_id)
        return removed

    async def _remove(self, containers: Sequence[Container], operation: str) -> None:
        daemon = await self._docker()
        await gather_bounded(lambda each: daemon.remove_container(each.id, operation=operation), containers, AT_ONCE)
