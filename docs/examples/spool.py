"""A backend whose service is `spool.sh`."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import Annotated, ClassVar

from typing_extensions import Doc, Unpack, override

from asyncsched import AppDef, AppDryRunInfo, AppState, ReplicaStatus, RoleStatus, Stream
from asyncsched.errors import ConfigError, ConflictError, NotFoundError, SchedulerError
from asyncsched.logs import FileSource, LogOrigin, LogQuery, LogSource
from asyncsched.schedulers import (
    Answers,
    DescribeAppResponse,
    ListAppResponse,
    Programs,
    Scheduler,
    Tunables,
    app_note,
    check_seconds,
    read_app_note,
)
from asyncsched.specs import FailureCause, combine, find_cause, macros, make_app_handle, reveal

SERVICE = Path(__file__).with_name("spool.sh")

# part: options


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolOptions:
    timeout: Annotated[float | None, Doc("Seconds that a replica may run.")] = None


@dataclass(kw_only=True)
class SpoolReplica:
    place: str  # its directory in the app's
    argv: list[str]
    env: dict[str, str]


@dataclass(kw_only=True)
class SpoolRequest:
    timeout: float | None
    replicas: list[SpoolReplica]


# part: request


def make_request(app: AppDef, options: SpoolOptions, app_id: str) -> SpoolRequest:
    check_seconds("timeout", options.timeout)
    replicas: list[SpoolReplica] = []
    for number, role in enumerate(app.roles):
        if wrong := [name for name in role.env if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII)]:
            raise ConfigError(f"role {role.name!r} sets {wrong[0]!r}", why="a shell cannot set a variable of that name")
        for k in range(role.num_replicas):
            filled = macros.Values("/", app_id, str(k), "SPOOL_RANK0").apply(role)
            argv, env = [filled.entrypoint, *filled.args], {"SPOOL_RANK0": "localhost", **filled.env}
            replicas.append(SpoolReplica(place=f"{number}.{k}", argv=argv, env=env))
    return SpoolRequest(timeout=options.timeout, replicas=replicas)


def to_job(request: SpoolRequest, note: str) -> bytes:
    lines = [f"note={quote(note)}", f"limit={request.timeout or 0}", "replicas() {"]
    for replica in request.replicas:
        exports = " ".join(quote(f"{name}={reveal(value)}") for name, value in replica.env.items())
        argv = " ".join(quote(reveal(word)) for word in replica.argv)
        lines.append(f'( export {exports}; "$1" {replica.place} {argv} )')
    return "\n".join([*lines, "}"]).encode()


# part: answer


@dataclass
class Found:
    note: str
    cancelled: bool
    replicas: dict[str, list[str]] = field(default_factory=dict[str, list[str]])


def read_answer(text: str) -> dict[str, Found]:
    found: dict[str, Found] = {}
    lines = iter(text.split("\n"))
    for line in lines:
        match line.split(" "):
            case ["app", app_id, mark]:
                found[app_id] = Found(next(lines), mark == "cancelled")
            case ["replica", folder, *known]:
                app_id, place, _ = folder.split("/")
                found[app_id].replicas[place] = known
            case _:
                pass
    return found


# part: status


def describe(app_id: str, found: Found) -> DescribeAppResponse:
    note = json.loads(found.note)
    roles, metadata = read_app_note(note)
    statuses = [
        RoleStatus(role.name, [read_replica(role.name, k, f"{n}.{k}", found) for k in range(role.num_replicas)])
        for n, role in enumerate(roles)
    ]
    replicas = [replica for status in statuses for replica in status.replicas]
    state = combine(replicas, cancelled=found.cancelled)
    ends = [replica.finished_at for replica in replicas if replica.finished_at and state.is_terminal()]
    return DescribeAppResponse(
        app_id,
        state,
        msg=next((f"{replica.role}/{replica.id}: {replica.reason}" for replica in replicas if replica.reason), ""),
        roles_statuses=statuses,
        roles=roles,
        name=note["name"],
        session=note["session"],
        created_at=to_time(note["created"]),
        started_at=min((replica.started_at for replica in replicas if replica.started_at), default=None),
        finished_at=max(ends, default=None),
        metadata=metadata,
        cause=find_cause(state, replicas),
    )


def read_replica(role: str, k: int, place: str, found: Found) -> ReplicaStatus:
    alive, stopped, started, code, ended = found.replicas.get(place, ["-"] * 5)
    status = ReplicaStatus(
        k, AppState.PENDING, role, "localhost", started_at=to_time(started), finished_at=to_time(ended)
    )
    if stopped != "-" and (alive == "-" or code != "-"):
        status.state, status.cause = AppState.CANCELLED, FailureCause.CANCELLED
    elif code == "124" and json.loads(found.note)["timeout"]:  # the code of `timeout`
        status.state, status.cause, status.reason = AppState.FAILED, FailureCause.TIMEOUT, "it ran too long"
    elif code != "-":
        status.state, status.exit_code = AppState.FAILED if int(code) else AppState.SUCCEEDED, int(code)
        status.cause, status.reason = (FailureCause.EXIT, f"exited with code {code}") if int(code) else (None, "")
    elif alive != "-":
        status.state = AppState.RUNNING
    elif started != "-":
        status.state, status.cause, status.reason = AppState.FAILED, FailureCause.NODE, "its end was not recorded"
    return status


def to_time(seconds: str) -> datetime | None:
    return datetime.fromtimestamp(float(seconds), UTC) if seconds != "-" else None


# part: scheduler


class SpoolScheduler(Scheduler[SpoolOptions, SpoolRequest]):
    options = SpoolOptions
    ignores: ClassVar[Mapping[str, str]] = {
        "max_retries": "a replica is started once",
        "min_replicas": "all replicas start at once",
        "mounts": "there is no container",
        "port_map": "replicas share the machine's network",
        **dict.fromkeys(["resource.cpu", "resource.gpu", "resource.memMB"], "nothing is limited"),
    }
    runs_here = True
    can_kill = True
    describe_batch = 10_000

    def __init__(self, session_name: str, spool: str | Path = "spool", **tunables: Unpack[Tunables]) -> None:
        super().__init__("spool", session_name, **tunables)
        self._spool = Path(spool).absolute()
        self._programs = Programs("spool", clock=self.clock)

    async def _call(self, command: str, *args: str, stdin: bytes = b"", known: int = 0) -> str | None:
        """Return what a command of the service prints; None if it ends with the code `known`."""
        argv = ["sh", str(SERVICE), command, str(self._spool), *args]
        done = await self._programs.run(argv, operation=command, timeout=self.request_timeout, stdin=stdin)
        if done.code and done.code != known:
            error = NotFoundError if done.code == 69 else SchedulerError
            raise error(done.complaint, backend=self.backend, operation=command)
        return None if done.code else done.text

    async def _look(self, app_ids: Iterable[str]) -> dict[str, Found]:
        names = [f"{app_id}\n" for app_id in app_ids if re.fullmatch(r"\w[\w.-]*", app_id, re.ASCII)]
        return read_answer(await self._call("describe", stdin="".join(names).encode()) or "")

    @override
    async def _request(self, app: AppDef, options: SpoolOptions, app_id: str) -> SpoolRequest:
        return make_request(app, options, app_id)

    @override
    async def _schedule(self, info: AppDryRunInfo[SpoolRequest]) -> None:
        app_id, note = info.app_id, self._note(info)

        async def remove() -> None:
            found = (await self._look([app_id])).get(app_id)
            if found is not None and found.note == note:  # ours, and not one that was there
                await self._call("end", app_id, "KILL")
                await self._call("remove", app_id)

        if not await self._is_there(info):
            async with self._or_removed(app_id, remove):
                done = await self._call("submit", app_id, stdin=to_job(info.request, note), known=17)
            if done is None:  # another process was faster
                await self._is_there(info)

    def _note(self, info: AppDryRunInfo[SpoolRequest]) -> str:
        assert info.app is not None
        more = {"name": info.app.name, "session": info.session, "digest": info.digest}
        times = {"timeout": info.request.timeout, "created": self.clock.time_ns() / 1e9}
        return json.dumps(app_note(info.app) | more | times)

    async def _is_there(self, info: AppDryRunInfo[SpoolRequest]) -> bool:
        found = (await self._look([info.app_id])).get(info.app_id)
        if found is not None and json.loads(found.note)["digest"] != info.digest:
            raise ConflictError(f"another app is called {info.app_id}", backend=self.backend, operation="submit")
        return found is not None

    @override
    async def _describe(self, app_id: str) -> DescribeAppResponse | None:
        found = await self._look([app_id])
        return describe(app_id, found[app_id]) if app_id in found else None

    @override
    async def _describe_many(self, app_ids: Sequence[str]) -> Answers:
        found = await self._look(app_ids)
        return {app_id: describe(app_id, found[app_id]) if app_id in found else None for app_id in app_ids}

    @override
    async def _cancel(self, app_id: str) -> None:
        if app_id in await self._look([app_id]):
            await self._call("end", app_id, "TERM")

    @override
    async def _kill(self, app_id: str) -> None:
        if app_id in await self._look([app_id]):
            await self._call("end", app_id, "KILL")

    @override
    async def _delete(self, app_id: str) -> None:
        app = await self._describe(app_id)
        if app is not None and not app.state.is_terminal():
            raise ConflictError(f"{app_id} still runs", backend=self.backend, operation="delete", fix="cancel it first")
        if app is not None:
            await self._call("remove", app_id)

    @override
    async def _list(self) -> AsyncGenerator[ListAppResponse]:
        names = (await self._call("list") or "").split()
        apps = [describe(app_id, found) for app_id, found in (await self._look(names)).items()]
        for app in sorted(apps, key=lambda app: str(app.created_at), reverse=True):
            handle, created = make_app_handle(self.backend, app.session, app.app_id), app.created_at
            yield ListAppResponse(app.app_id, app.state, handle, name=app.name, session=app.session, created_at=created)

    @override
    async def _log_sources(
        self, app: DescribeAppResponse, replicas: Sequence[ReplicaStatus], query: LogQuery
    ) -> Sequence[LogSource]:
        files = {Stream.STDOUT: "out", Stream.STDERR: "err"}
        wanted = [stream for stream in files if query.streams in (stream, Stream.COMBINED)]
        roles = [role.name for role in app.roles]
        sources: list[LogSource] = []
        for replica in replicas:
            folder = self._spool / app.app_id / f"{roles.index(replica.role)}.{replica.id}"
            for stream in wanted:
                origin = LogOrigin(app.app_id, replica.role, replica.id, stream)
                file, lines = folder / files[stream], query.tail_lines
                sources.append(FileSource(file, origin, follow=query.tail, tail_lines=lines, clock=self.clock))
        return sources


def create_scheduler(session_name: str, spool: str = "spool", **tunables: Unpack[Tunables]) -> SpoolScheduler:
    return SpoolScheduler(session_name, spool, **tunables)
