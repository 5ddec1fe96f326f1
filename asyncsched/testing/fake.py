"""A scheduler that runs in memory, in three modes that resemble real services."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, Unpack

from asyncsched._typing import Doc, override
from asyncsched.errors import NotFoundError, UnavailableError
from asyncsched.logs.line import utc
from asyncsched.logs.query import LogQuery
from asyncsched.schedulers._common.app_notes import app_note
from asyncsched.schedulers.api import Scheduler
from asyncsched.schedulers.ending import not_ended
from asyncsched.schedulers.lifetime import Tunables
from asyncsched.schedulers.request_checks import check_request, check_seconds, other_app
from asyncsched.schedulers.responses import DescribeAppResponse, ListAppResponse
from asyncsched.schedulers.state_reports import Answers, StatePort
from asyncsched.specs.app import AppDef, RetryPolicy
from asyncsched.specs.copies import copied
from asyncsched.specs.dryrun import AppDryRunInfo
from asyncsched.specs.handle import make_app_handle
from asyncsched.specs.macros import macros
from asyncsched.specs.result import read_result
from asyncsched.specs.state import AppState, ReplicaStatus, RoleStatus, combine, find_cause
from asyncsched.specs.to_plain import JsonValue
from asyncsched.specs.value import Value
from asyncsched.testing.service import NEVER_STARTS, NO_LIMITS, FakeApp, FakeService, Limits

if TYPE_CHECKING:
    from asyncsched.logs.source import LogSource
    from asyncsched.testing.fake_logs import FakeHub

__all__ = ["MISSING_PROGRAM", "NEVER_STARTS", "FakeOptions", "FakeRequest", "FakeScheduler", "Mode", "create_scheduler"]

MISSING_PROGRAM = "missing-program"
"""An entrypoint that the fake service accepts, but cannot start."""

IGNORES = {"min_replicas": "all replicas start at once", "mounts": "nothing runs", "port_map": "nothing listens"}

Mode = Literal["push", "polled", "hub"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FakeOptions(Value):
    """Run options of every supported type."""

    queue: Annotated[str, Doc("Where the app waits.")] = "default"
    priority: Annotated[int, Doc("Who comes first.")] = 0
    spot: Annotated[bool, Doc("Whether it may be interrupted.")] = False
    labels: Annotated[dict[str, str] | None, Doc("What to mark it with.")] = None
    zones: Annotated[list[str] | None, Doc("Where it may run.")] = None
    timeout: Annotated[float | None, Doc("Seconds that an attempt may run.")] = None
    pending_timeout: Annotated[float | None, Doc("Seconds that it may wait to run.")] = None


@dataclass(eq=False, repr=False)
class FakeRequest(Value):
    """The request of the fake scheduler.

    Attributes:
        app: The app, its macros replaced.
        queue: The queue that was chosen.
        limits: Seconds that it may run, and wait.
        app_id: The app's id.
    """

    app: AppDef
    queue: str = "default"
    limits: Limits = NO_LIMITS
    app_id: str = ""


MADE_FROM = {
    field: (field,) for field in ("image", "entrypoint", "args", "env", "mounts", "resource", "port_map", "max_retries")
}
"""The parts of a request, and the fields of a role that they are made from: the request holds the roles."""


class FakeScheduler(Scheduler[FakeOptions, FakeRequest]):
    """A scheduler over a `FakeService`.

    Args:
        session_name: The session to mark submitted apps with.
        service: The service that runs the apps; share one between schedulers to stand for several processes.
        mode: ``push``: the service reports changes, and each replica's log is a connection; ``polled``: both are
            polled; ``hub``: one query serves the logs of all apps.
        log_room: In the mode ``hub``, the number of lines that one stream buffers for a slow consumer.
        tunables: The parameters of every scheduler; the clock is the service's by default.
    """

    options = FakeOptions
    takes_secret_refs = True
    ignores = IGNORES
    made_from = MADE_FROM
    retry_policies = frozenset({RetryPolicy.REPLICA})

    def __init__(
        self,
        session_name: str,
        service: FakeService | None = None,
        *,
        mode: Mode = "push",
        log_room: int = 10_000,
        **tunables: Unpack[Tunables],
    ) -> None:
        super().__init__("fake", session_name, **tunables)
        self.service = service if service is not None else FakeService(self.clock)
        if tunables.get("clock") is None:
            self.clock = self.service.clock
        self.mode: Mode = mode
        self.pushes_states = mode == "push"
        self._log_room = log_room
        self._hub: FakeHub | None = None

    @override
    async def _request(self, app: AppDef, options: FakeOptions, app_id: str) -> FakeRequest:
        check_seconds("timeout", options.timeout)
        check_seconds("pending_timeout", options.pending_timeout)
        for number, role in enumerate(app.roles):
            values = macros.Values("/", app_id, "0", "TORCHX_RANK0_HOST")
            app.roles[number] = values.apply(role)
        return FakeRequest(app, options.queue, Limits(options.timeout, options.pending_timeout), app_id)

    @override
    def _named(self, request: FakeRequest) -> str:
        check_request(request, FakeRequest, self.backend)
        return request.app_id

    @override
    async def _schedule(self, info: AppDryRunInfo[FakeRequest]) -> None:
        service = self.service
        await service.call("submit")
        present = service.apps.get(info.app_id)
        if present is not None:
            if present.digest != info.digest:
                raise other_app(info.app_id, self.backend)
            return

        async def remove() -> None:
            await service.call("remove")
            service.apps.pop(info.app_id, None)

        async with self._or_removed(info.app_id, remove):
            note = app_note(info.app or info.request.app)
            service.launch(info.app_id, info.request.app, self.session_name, info.digest, info.request.limits, note)
            for role in info.request.app.roles:
                if role.entrypoint == MISSING_PROGRAM:
                    raise NotFoundError(f"role {role.name}: no program {role.entrypoint}", backend=self.backend)
            await service.call("commit")

    @override
    async def _describe(self, app_id: str) -> DescribeAppResponse | None:
        await self.service.call("describe")
        app = self.service.apps.get(app_id)
        return _describe(app) if app is not None else None

    @override
    async def _describe_many(self, app_ids: Sequence[str]) -> Answers:
        await self.service.call("describe")
        apps = self.service.apps
        return {app_id: _describe(apps[app_id]) if app_id in apps else None for app_id in app_ids}

    @override
    async def _push_states(self, port: StatePort) -> None:
        await self.service.call("connect")
        broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def cut() -> None:
            if not broken.done():
                broken.set_exception(UnavailableError("the connection broke", backend=self.backend))

        self.service.watchers.add(port.changed)
        self.service.cuts.add(cut)
        self.service.connections += 1
        try:
            port.connected()
            await broken
        finally:
            self.service.connections -= 1
            self.service.watchers.discard(port.changed)
            self.service.cuts.discard(cut)

    @override
    async def _cancel(self, app_id: str) -> None:
        await self.service.call("cancel")
        app = self.service.apps.get(app_id)
        if app is not None and not app.ended:
            self.service.cancel(app_id)

    @override
    async def _results(self, app_id: str) -> Mapping[tuple[str, int], JsonValue] | None:
        await self.service.call("results")
        app = self.service.apps.get(app_id)
        if app is None:
            return None
        return {key: read_result(each.result) for key, each in app.replicas.items() if each.result is not None}

    @override
    async def _delete(self, app_id: str) -> None:
        await self.service.call("delete")
        app = self.service.apps.get(app_id)
        if app is not None and not app.ended:
            raise not_ended(app_id, self.backend)
        if app is not None:
            self.service.vanish(app_id)

    @override
    async def _list(self) -> AsyncGenerator[ListAppResponse]:
        newest_first = sorted(self.service.apps.values(), key=lambda app: app.created_ns)[::-1]
        for start in range(0, len(newest_first), 10):
            await self.service.call("list")
            for app in newest_first[start : start + 10]:
                yield ListAppResponse(
                    app.app_id,
                    _state(app),
                    make_app_handle(self.backend, app.session, app.app_id),
                    name=app.app.name,
                    session=app.session,
                    created_at=utc(app.created_ns),
                )

    @override
    async def _log_sources(
        self, app: DescribeAppResponse, replicas: Sequence[ReplicaStatus], query: LogQuery
    ) -> Sequence[LogSource]:
        from asyncsched.testing.fake_logs import FakeHub, FakePoll, FakePush  # imports half of the log engine

        if self.mode == "hub":
            self._hub = self._hub or FakeHub(self.service, self.clock, self._log_room)
            return [self._hub.follow(app.app_id, replicas, query)]
        kind = FakePush if self.mode == "push" else FakePoll
        return [kind(self.service, self.clock, app.app_id, replica, query) for replica in replicas]


def create_scheduler(session_name: str, **tunables: Unpack[Tunables]) -> FakeScheduler:
    """Return a fake scheduler with its own service."""
    return FakeScheduler(session_name, **tunables)


def _state(app: FakeApp) -> AppState:
    return combine((replica.status() for replica in app.replicas.values()), cancelled=app.cancelled)


def _describe(app: FakeApp) -> DescribeAppResponse:
    statuses = [replica.status() for replica in app.replicas.values()]
    ended = [status.finished_at for status in statuses if status.finished_at is not None]
    started = [status.started_at for status in statuses if status.started_at is not None]
    failed = [status for status in statuses if status.reason]
    return DescribeAppResponse(
        app.app_id,
        _state(app),
        num_restarts=sum(replica.attempt for replica in app.replicas.values()),
        msg=f"{failed[0].role}/{failed[0].id}: {failed[0].reason}" if failed else "",
        roles_statuses=[
            RoleStatus(name, [status for status in statuses if status.role == name])
            for name in dict.fromkeys(status.role for status in statuses)
        ],
        roles=copied(app.roles),
        name=app.app.name,
        session=app.session,
        created_at=utc(app.created_ns),
        started_at=min(started, default=None),
        finished_at=max(ended, default=None) if len(ended) == len(statuses) else None,
        metadata=dict(app.metadata),
        cause=find_cause(_state(app), statuses),
    )
