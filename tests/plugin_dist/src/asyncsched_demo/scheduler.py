"""A scheduler: it runs apps as processes of the process that it lives in, which end with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from typing_extensions import Doc

from asyncsched import AppDef, AppDryRunInfo, ReplicaStatus, RoleStatus, macros
from asyncsched.errors import ConflictError, InvalidRequestError
from asyncsched.logs import LogLine, LogQuery, LogSource
from asyncsched.schedulers import (
    DescribeAppResponse,
    ListAppResponse,
    Scheduler,
    StatePort,
    app_note,
    read_app_note,
)
from asyncsched.specs import find_cause, make_app_handle
from asyncsched_demo.cluster import App, Cluster, Command, Replica

NAME = "demo"

CLUSTER = Cluster()
"""What stands for the service behind a real scheduler: all schedulers of this process share it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """How an app is run."""

    nice: Annotated[int, Doc("how far the processes stand back for others, up to 19")] = 0


@dataclass(kw_only=True)
class DemoRequest:
    """What would be started."""

    name: str
    commands: list[Command]


class DemoScheduler(Scheduler[DemoOptions, DemoRequest]):
    """Runs apps as processes of this one."""

    options = DemoOptions
    pushes_states = True

    def __init__(self, session_name: str, cluster: Cluster = CLUSTER) -> None:
        super().__init__(NAME, session_name)
        self._cluster = cluster
        self._own: list[App] = []

    async def _request(self, app: AppDef, options: DemoOptions, app_id: str) -> DemoRequest:
        nice = ["nice", "-n", str(options.nice)] if options.nice else []
        commands: list[Command] = []
        for role in app.roles:
            for k in range(role.num_replicas):
                values = macros.Values(img_root="", app_id=app_id, replica_id=str(k), rank0_env="DEMO_RANK0")
                filled = values.apply(role)
                env = {"DEMO_RANK0": "localhost", **filled.env}
                argv = [*nice, filled.entrypoint, *filled.args]
                commands.append(Command(role=role.name, id=k, argv=argv, env=env))
        return DemoRequest(name=app.name, commands=commands)

    async def _schedule(self, info: AppDryRunInfo[DemoRequest]) -> None:
        known = self._cluster.apps.get(info.app_id)
        if known is not None:
            if known.digest != info.digest:
                raise ConflictError(f"another app was submitted as {info.app_id}", backend=NAME)
            return
        note = app_note(info.app) if info.app is not None else None
        replicas = [Replica(info.app_id, command) for command in info.request.commands]
        app = App(info.app_id, info.request.name, self.session_name, info.digest, replicas, datetime.now(UTC), note)

        async def remove() -> None:
            await self._cluster.end(app)
            self._cluster.forget(info.app_id)

        async with self._or_removed(info.app_id, remove):
            try:
                await self._cluster.launch(app)
            except OSError as error:
                raise InvalidRequestError("a replica cannot be started", why=str(error), backend=NAME) from error
        self._own.append(app)

    async def _describe(self, app_id: str) -> DescribeAppResponse | None:
        app = self._cluster.apps.get(app_id)
        return None if app is None else _described(app)

    async def _push_states(self, port: StatePort) -> None:
        self._cluster.watchers.add(port.changed)
        try:
            port.connected()
            await asyncio.Event().wait()
        finally:
            self._cluster.watchers.discard(port.changed)

    async def _cancel(self, app_id: str) -> None:
        app = self._cluster.apps.get(app_id)
        if app is not None and not app.state.is_terminal():
            app.cancelled = True
            for replica in app.replicas:
                replica.kill()

    async def _delete(self, app_id: str) -> None:
        app = self._cluster.apps.get(app_id)
        if app is not None and not app.state.is_terminal():
            raise ConflictError(f"{app_id} still runs", fix="cancel it first", backend=NAME, operation="delete")
        self._cluster.forget(app_id)

    async def _list(self) -> AsyncGenerator[ListAppResponse]:
        for app in self._cluster.newest_first():
            handle = make_app_handle(NAME, app.session, app.app_id)
            yield ListAppResponse(
                app.app_id, app.state, handle, name=app.name, session=app.session, created_at=app.created_at
            )

    async def _log_sources(
        self, app: DescribeAppResponse, replicas: Sequence[ReplicaStatus], query: LogQuery
    ) -> Sequence[LogSource]:
        wanted = {(replica.role, replica.id) for replica in replicas}
        known = self._cluster.apps[app.app_id].replicas
        chosen = [replica for replica in known if (replica.command.role, replica.command.id) in wanted]
        return [_Lines(replica, follow=query.tail) for replica in chosen]

    async def _close(self) -> None:
        await asyncio.gather(*(self._cluster.end(app) for app in self._own))


class _Lines(LogSource):
    """What one replica has written, and writes."""

    def __init__(self, replica: Replica, *, follow: bool) -> None:
        self.role, self.replica = replica.command.role, replica.command.id
        self._from = replica
        self._follow = follow
        self._finished = False
        self._position = 0
        self._present = len(replica.lines)
        self._wake: Callable[[], None] | None = None

    def start(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._from.listeners.add(wake)
        wake()

    def read(self, limit: int) -> Sequence[LogLine]:
        end = None if self._follow else self._present
        lines = self._from.lines[self._position : end][:limit]
        self._position += len(lines)
        return lines

    @property
    def ended(self) -> bool:
        if not self._follow:
            return self._position >= self._present
        over = self._finished or self._from.state.is_terminal()
        return over and self._position >= len(self._from.lines)

    @property
    def backlog(self) -> bool:
        return self._position < self._present

    def finish(self) -> None:
        self._finished = True
        if self._wake is not None:
            self._wake()

    async def aclose(self) -> None:
        if self._wake is not None:
            self._from.listeners.discard(self._wake)


def _described(app: App) -> DescribeAppResponse:
    statuses = [replica.status() for replica in app.replicas]
    failed = next((status for status in statuses if status.reason), None)
    starts = [status.started_at for status in statuses if status.started_at is not None]
    ends = [status.finished_at for status in statuses if status.finished_at is not None]
    roles, metadata = read_app_note(app.note)
    return DescribeAppResponse(
        app.app_id,
        app.state,
        num_restarts=0,
        msg=f"{failed.role}/{failed.id}: {failed.reason}" if failed is not None else "",
        roles_statuses=[
            RoleStatus(name, [status for status in statuses if status.role == name])
            for name in dict.fromkeys(status.role for status in statuses)
        ],
        roles=roles,
        name=app.name,
        session=app.session,
        created_at=app.created_at,
        started_at=min(starts, default=None),
        finished_at=max(ends) if len(ends) == len(statuses) else None,
        metadata=metadata,
        cause=find_cause(app.state, statuses),
    )


def create_scheduler(session_name: str, **kwargs: object) -> DemoScheduler:
    """Make the scheduler: no I/O, and no loop needs to run."""
    return DemoScheduler(session_name)
