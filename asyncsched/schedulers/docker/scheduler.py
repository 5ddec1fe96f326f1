"""Containers on a Docker daemon."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
import os
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from typing_extensions import Unpack, override

from asyncsched import __version__
from asyncsched._tasks import gather_bounded, outlast
from asyncsched.errors import ConflictError, NotFoundError
from asyncsched.logs.select import LogQuery
from asyncsched.logs.source import LogSource
from asyncsched.schedulers.api import Scheduler
from asyncsched.schedulers.bounds import Tunables
from asyncsched.schedulers.docker import names
from asyncsched.schedulers.docker.changes import EventReader
from asyncsched.schedulers.docker.ending import AT_ONCE, Stop, TimeLimits
from asyncsched.schedulers.docker.lookup import read_results
from asyncsched.schedulers.docker.options import DockerOpts
from asyncsched.schedulers.docker.request import DockerJob, is_user_defined, make_job
from asyncsched.schedulers.docker.status import (
    KILLED,
    Container,
    by_app,
    describe_app,
    list_row,
    members_of,
    needs_details,
    read_container,
    with_details,
)
from asyncsched.schedulers.docker.submit import Launch
from asyncsched.schedulers.hooks import TERMINAL
from asyncsched.schedulers.port import Answers, StatePort
from asyncsched.schedulers.responses import DescribeAppResponse, ListAppResponse
from asyncsched.specs.app import AppDef, RetryPolicy
from asyncsched.specs.dryrun import AppDryRunInfo, Ignored
from asyncsched.specs.plain import JsonValue
from asyncsched.specs.state import AppState, ReplicaStatus

if TYPE_CHECKING:
    from asyncsched._dockerd import Daemon, PullProgress
    from asyncsched.schedulers.docker.logs import Attempts

__all__ = ["DockerScheduler", "create_scheduler"]

T = TypeVar("T")

BACKEND = "local_docker"

_log = logging.getLogger("asyncsched.schedulers.docker")

IGNORES = {
    "min_replicas": "all replicas start, or none does",
    "port_map": "containers of one network reach each other on every port, and none is published on the host",
    "resource.capabilities": "the host is the daemon's",
}

INSPECT_AT_ONCE = 16
DETAILS_KEPT = 4096


class DockerScheduler(Scheduler[DockerOpts, DockerJob]):
    """Runs each replica as a container on the daemon that ``docker`` would talk to.

    It keeps nothing itself: whatever process asks, the answer comes from the containers' labels, names and
    states. The daemon is looked for (``DOCKER_HOST``, contexts, the usual sockets) at the first await.

    Args:
        session_name: The session that apps are marked with.
        tunables: What every scheduler takes: `request_timeout`, `retry_for`, `cleanup_timeout`, `clock`.
    """

    options = DockerOpts
    pushes_states = True
    runs_here = True
    can_kill = True
    ignores = IGNORES
    retry_policies = frozenset({RetryPolicy.REPLICA})

    def __init__(self, session_name: str, **tunables: Unpack[Tunables]) -> None:
        super().__init__(BACKEND, session_name, **tunables)
        self._daemon: Daemon | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        # Of containers that are over: what was asked for once does not change.
        self._details: dict[str, Container] = {}
        self._ends: dict[str, Mapping[str, Any]] = {}  # inspections that a watch has made, until they are needed
        self._attempts: dict[str, Attempts] = {}
        self._timed: set[str] = set()  # apps whose time is kept
        self._pushing = False

    async def _docker(self) -> Daemon:
        if self._daemon is None:
            await asyncio.to_thread(_load)
            from asyncsched._dockerd import Daemon

            if self._daemon is None:  # nobody else was faster
                self._daemon = Daemon(
                    backend=self.backend,
                    request_timeout=self.request_timeout,
                    retry_for=self.retry_for,
                    clock=self.clock,
                )
        return self._daemon

    # Submitting

    async def _request(self, app: AppDef, options: DockerOpts, app_id: str) -> DockerJob:
        return make_job(app, app_id, options, session=self.session_name, environ=os.environ, version=__version__)

    @override
    def _ignored(self, app: AppDef, options: DockerOpts) -> Iterable[Ignored]:
        yield from super()._ignored(app, options)
        if options.timeout is not None:
            for role in app.roles:
                yield Ignored(role.name, "timeout", "kept by the process that submits, while it lives")

    async def _schedule(self, info: AppDryRunInfo[DockerJob]) -> None:
        daemon, job = await self._docker(), info.request
        from asyncsched._dockerd import ensure_network  # loaded by the line above, in a thread

        there = await self._members(info.app_id, "submit")
        self._check_same(there, info)
        by_name = {names.base_name(container.name): container for container in there}
        to_create = [container for container in job.containers if container.name not in by_name]
        # What another submit of this app, cut off half-way, has made but not started.
        waiting = {name for name, container in by_name.items() if container.state == "created" and not container.over}
        not_started = waiting | {container.name for container in to_create}
        to_start = [container for container in job.containers if container.name in not_started]
        if not to_start:
            self._keep_time(there)
            return
        await self._remove_expired()
        await self._provide_images(job, {container.image for container in to_create})
        network = job.network
        if is_user_defined(network):
            marks = {names.VERSION: __version__}
            network = await ensure_network(daemon, network, marks, operation="submit")
        launch = Launch(daemon, job, info.digest, network)
        async with self._or_removed(info.app_id, launch.remove):
            await launch.run(to_create, to_start)
        if job.timeout is not None:
            self._keep_time_of(info.app_id)
        if job.on_failure == "stop":
            self._own(self._stop_when_one_fails(info.app_id))

    def _check_same(self, there: Sequence[Container], info: AppDryRunInfo[DockerJob]) -> None:
        if any(container.labels.get(names.REQUEST) != info.digest for container in there):
            raise ConflictError(
                f"another app was submitted as {info.app_id}",
                why="its roles or options differ from those of this one",
                fix="use another key, or delete that app first",
                backend=self.backend,
                operation="submit",
            )

    async def _provide_images(self, job: DockerJob, wanted: Iterable[str]) -> None:
        daemon, policy = await self._docker(), job.pull
        from asyncsched._dockerd import provide_image

        async def provide(image: str) -> None:
            await provide_image(daemon, image, policy, lambda step: self._report(step, job.quiet))

        images = [image for image in job.images if image in wanted]
        await gather_bounded(provide, images, AT_ONCE)

    def _report(self, step: PullProgress, quiet: bool) -> None:
        if not quiet and step.current is None:
            _log.info("%s: %s %s", step.image, step.status, step.layer)

    # Looking

    async def _describe(self, app_id: str) -> DescribeAppResponse | None:
        return describe_app(app_id, await self._members(app_id, "describe"))

    async def _describe_many(self, app_ids: Sequence[str]) -> Answers:
        if len(app_ids) == 1:
            return {app_ids[0]: await self._describe(app_ids[0])}
        wanted = set(app_ids)
        found = by_app(await self._containers(names.APP_ID, "describe_many", only=wanted))
        return {app_id: describe_app(app_id, found.get(app_id, ())) for app_id in app_ids}

    async def _sweep(self, app_ids: Sequence[str]) -> AsyncGenerator[Answers]:
        # One list tells of all, however many they are.
        if app_ids:
            answers = await self._describe_many(app_ids)
            if self._pushing:
                for answer in answers.values():
                    self._keep_time(members_of(answer))
            yield answers

    async def _list(self) -> AsyncGenerator[ListAppResponse]:
        daemon = await self._docker()
        entries = await daemon.list_containers([names.APP_ID], operation="list")
        found = by_app(read_container(entry) for entry in entries)
        newest_first = sorted(found.items(), key=lambda app: max(c.created for c in app[1]), reverse=True)
        for app_id, members in newest_first:
            yield list_row(self.backend, app_id, members)

    async def _members(self, app_id: str, operation: str) -> list[Container]:
        """Return an app's containers in the order of its replicas."""
        found = by_app(await self._containers(f"{names.APP_ID}={app_id}", operation))
        return found.get(app_id, [])

    async def _containers(self, label: str, operation: str, *, only: set[str] | None = None) -> list[Container]:
        daemon = await self._docker()
        entries = await daemon.list_containers([label], operation=operation)
        found = [read_container(entry) for entry in entries]
        if only is not None:
            found = [container for container in found if container.app_id in only]
        return await gather_bounded(self._detailed, found, INSPECT_AT_ONCE)

    async def _detailed(self, container: Container) -> Container:
        """Add what is known of a container, and ask for what somebody would miss."""
        known = self._details.get(container.id)
        if known is not None and (known.state, known.name) == (container.state, container.name):
            return known
        if (seen := self._ends.pop(container.id, None)) is not None:
            detailed = self._with_details(container, seen)
            if (detailed.state, detailed.name) == (container.state, container.name):
                return detailed
        if not needs_details(container):
            return container
        try:
            return await self._inspect(container)
        except NotFoundError:
            return container  # it was removed a moment ago

    async def _inspect(self, container: Container) -> Container:
        daemon = await self._docker()
        inspected = await daemon.inspect_container(container.id, operation="describe")
        return self._with_details(container, inspected)

    def _with_details(self, container: Container, inspected: Mapping[str, Any]) -> Container:
        detailed = with_details(container, inspected)
        # Word of a lack of memory may come a little later than that of the end.
        if detailed.over and (detailed.out_of_memory or detailed.exit_code != KILLED):
            _keep(self._details, container.id, detailed)
        return detailed

    async def _results(self, app_id: str) -> Mapping[tuple[str, int], JsonValue] | None:
        members = await self._members(app_id, "results")
        return await read_results(await self._docker(), members) if members else None

    async def _push_states(self, port: StatePort) -> None:
        self._pushing = True
        try:
            await EventReader(await self._docker(), port, self._keep_end).run()
        finally:
            self._pushing = False

    def _keep_end(self, container_id: str, inspected: Mapping[str, Any]) -> None:
        kept = {name: inspected[name] for name in ("Name", "State", "RestartCount") if name in inspected}
        _keep(self._ends, container_id, kept)

    # Ending

    async def _cancel(self, app_id: str) -> None:
        await self._stop(await self._members(app_id, "cancel"), names.CANCELLED)

    async def _kill(self, app_id: str) -> None:
        await self._cancel(app_id)
        daemon = await self._docker()
        live = [container for container in await self._members(app_id, "kill") if not container.over]
        await gather_bounded(lambda container: daemon.kill_container(container.id, operation="kill"), live, AT_ONCE)

    async def _stop(self, containers: Sequence[Container], mark: str) -> None:
        """Mark those that have not ended for every process to see, and have them stopped; nobody waits for it."""
        stop = Stop(await self._docker(), mark, own=self._own, clock=self.clock, retry_for=self.retry_for)
        await gather_bounded(stop, [container for container in containers if not container.over], AT_ONCE)

    async def _stop_when_one_fails(self, app_id: str) -> None:
        async with self.watch([app_id]) as watch:
            async for event in watch:
                replicas = event.current.replicas if event.current is not None else []
                if any(replica.state is AppState.FAILED for replica in replicas):
                    break
        await self._stop(await self._members(app_id, "cancel"), names.STOPPED)

    def _keep_time(self, members: Iterable[Container]) -> None:
        """Stop replicas when they are over their time, whoever has submitted them."""
        for app_id in {each.app_id for each in members if math.isfinite(each.timeout) and not each.over}:
            self._keep_time_of(app_id)

    def _keep_time_of(self, app_id: str) -> None:
        if app_id not in self._timed:
            self._timed.add(app_id)
            self._own(self._stop_over_time(app_id))

    async def _stop_over_time(self, app_id: str) -> None:
        limits = TimeLimits(
            await self._docker(),
            lambda: self._members(app_id, "watch"),
            lambda late: self._stop(late, names.TIMED_OUT),
            clock=self.clock,
        )
        try:
            async with self.watch([app_id]) as watch:
                await limits.keep(watch)
        finally:
            self._timed.discard(app_id)

    def _own(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Let something go on behind its caller, until it or this scheduler ends."""
        task = asyncio.get_running_loop().create_task(work, context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.warning("%s", error)

    async def _delete(self, app_id: str) -> None:
        members = await self._members(app_id, "delete")
        running = [container for container in members if not container.over]
        if running:
            raise ConflictError(
                f"{app_id} has not ended",
                why=f"{len(running)} of its {len(members)} replicas run or wait",
                fix="cancel it first",
                backend=self.backend,
                operation="delete",
            )
        daemon = await self._docker()
        await gather_bounded(
            lambda container: daemon.remove_container(container.id, operation="delete"), members, AT_ONCE
        )

    async def _prune(self, older_than: timedelta, states: Collection[AppState]) -> list[str]:
        seconds = older_than.total_seconds()
        return await self._remove_ended(names.APP_ID, "prune", lambda _: seconds, states)

    async def _remove_expired(self) -> None:
        await self._remove_ended(names.REMOVE_AFTER, "submit", lambda container: container.remove_after)

    async def _remove_ended(
        self,
        label: str,
        operation: str,
        age: Callable[[Container], float],
        states: Collection[AppState] = TERMINAL,
    ) -> list[str]:
        """Remove the apps with this label that ended at least so many seconds ago, by the daemon's clock."""
        daemon = await self._docker()
        apps = by_app(await self._containers(label, operation))
        ended = {
            app_id: members for app_id, members in apps.items() if all(c.over and not c.identity.fault for c in members)
        }
        if not ended:
            return []
        now = await daemon.ask_time(operation=operation)
        removed: list[str] = []
        for app_id, members in ended.items():
            if any(each.created + age(each) > now + 1 for each in members):
                continue  # nothing ends before it was made: no need to ask for more
            detailed = await gather_bounded(self._inspect_known, members, INSPECT_AT_ONCE)
            times = [(each.finished_at or each.created_at).timestamp() + age(each) for each in detailed]
            described = describe_app(app_id, detailed)
            if described is None or described.state not in states:
                continue
            if max(times) <= now + 1:  # the clock was read to the second below
                await gather_bounded(
                    lambda each: daemon.remove_container(each.id, operation=operation), detailed, AT_ONCE
                )
                removed.append(app_id)
        return removed

    async def _inspect_known(self, container: Container) -> Container:
        try:
            return self._details.get(container.id) or await self._inspect(container)
        except NotFoundError:
            return container  # it was removed a moment ago

    # Logs

    async def _log_sources(
        self, app: DescribeAppResponse, replicas: Sequence[ReplicaStatus], query: LogQuery
    ) -> Sequence[LogSource]:
        daemon = await self._docker()
        from asyncsched.schedulers.docker.logs import ContainerLog  # loaded by the line above, in a thread

        found = {(c.role, c.replica): c for c in await self._members(app.app_id, "log_iter")}
        sources: list[LogSource] = []
        for replica in replicas:
            container = found.get((replica.role, replica.id))
            if container is not None:
                attempts = self._attempts_of(container)
                log = ContainerLog(daemon, container, query, attempts, clock=self.clock, retry_for=self.retry_for)
                sources.append(log)
        return sources

    def _attempts_of(self, container: Container) -> Attempts:
        """Return what is known of a container's runs: a later read knows what an earlier one has followed."""
        from asyncsched.schedulers.docker.logs import Attempts

        known = self._attempts.get(container.id)
        if known is None:
            known = Attempts(container.app_id, container.role, container.replica)
            if container.max_retries > 0:
                _keep(self._attempts, container.id, known)
        return known

    async def _close(self) -> None:
        # The daemon stops the containers by itself: it has the requests.
        for task in self._tasks:
            task.cancel()
        await outlast(list(self._tasks), self.cleanup_timeout)
        if self._daemon is not None:
            await self._daemon.close()


def _load() -> None:
    """Import what only those need who talk to a daemon: it takes longer than a loop may be held."""
    for name in ("asyncsched._dockerd", "asyncsched.schedulers.docker.logs"):
        import_module(name)


def _keep(known: dict[str, T], key: str, value: T) -> None:
    """Remember something; the oldest goes when there is no room."""
    while len(known) >= DETAILS_KEPT:
        del known[next(iter(known))]
    known[key] = value


def create_scheduler(session_name: str, **tunables: Unpack[Tunables]) -> DockerScheduler:
    """Make the scheduler ``local_docker``."""
    return DockerScheduler(session_name, **tunables)
