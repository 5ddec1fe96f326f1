"""What the demo scheduler schedules on: processes of this process, in memory."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from asyncsched import AppState, FailureCause, ReplicaStatus, Stream
from asyncsched.logs import LogLine, LogOrigin, label
from asyncsched.specs.secret import revealed_env
from asyncsched.specs.state import combine

_CAUSES = {AppState.FAILED: FailureCause.EXIT, AppState.CANCELLED: FailureCause.CANCELLED}


@dataclass(kw_only=True)
class Command:
    """One replica's process, as it will be started."""

    role: str
    id: int
    argv: list[str]
    env: dict[str, str]


@dataclass(eq=False)
class Replica:
    """A process and what it has written."""

    app_id: str
    command: Command
    state: AppState = AppState.PENDING
    exit_code: int | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    lines: list[LogLine] = field(default_factory=list[LogLine])
    listeners: set[Callable[[], None]] = field(default_factory=set[Callable[[], None]])
    process: asyncio.subprocess.Process | None = None

    def status(self) -> ReplicaStatus:
        """Return its state as a scheduler describes it."""
        failed = self.state is AppState.FAILED
        return ReplicaStatus(
            self.command.id,
            self.state,
            self.command.role,
            "localhost",
            exit_code=self.exit_code,
            reason=f"exited with code {self.exit_code}" if failed else "",
            started_at=self.started_at,
            finished_at=self.finished_at,
            cause=_CAUSES.get(self.state),
        )

    async def start(self, environment: Mapping[str, str]) -> None:
        """Start the process; raises OSError if there is no such program."""
        self.process = await asyncio.create_subprocess_exec(
            *self.command.argv,
            env={**environment, **revealed_env(self.command.env)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=1 << 20,
        )
        self.state, self.started_at = AppState.RUNNING, datetime.now(UTC)

    async def follow(self, is_cancelled: Callable[[], bool]) -> None:
        """Read what it writes, to its end."""
        assert self.process is not None
        outputs = ((self.process.stdout, Stream.STDOUT), (self.process.stderr, Stream.STDERR))
        await asyncio.gather(*(self._read(output, stream) for output, stream in outputs))
        self.exit_code = await self.process.wait()
        ended = AppState.FAILED if self.exit_code else AppState.SUCCEEDED
        self.state = AppState.CANCELLED if is_cancelled() else ended
        self.finished_at = datetime.now(UTC)
        self._tell()

    async def _read(self, output: asyncio.StreamReader | None, stream: Stream) -> None:
        assert output is not None
        origin = LogOrigin(app_id=self.app_id, role=self.command.role, replica=self.command.id, stream=stream)
        while data := await output.readline():
            self.lines += label([data.decode(errors="replace")], origin, time.time_ns())
            self._tell()

    def _tell(self) -> None:
        for listener in list(self.listeners):
            listener()

    def kill(self) -> None:
        """End the process, if it runs."""
        if self.process is not None and self.process.returncode is None:
            self.process.kill()


@dataclass(eq=False)
class App:
    """An app and its replicas."""

    app_id: str
    name: str
    session: str
    digest: str
    replicas: list[Replica]
    created_at: datetime
    note: object = None
    cancelled: bool = False
    followed: asyncio.Task[None] | None = None

    @property
    def state(self) -> AppState:
        """What its replicas' states come to."""
        return combine((replica.status() for replica in self.replicas), cancelled=self.cancelled)


class Cluster:
    """All apps of this process."""

    def __init__(self) -> None:
        self.apps: dict[str, App] = {}
        self.watchers: set[Callable[[str], None]] = set()

    async def launch(self, app: App) -> None:
        """Start all replicas, or none: an app that cannot be started as a whole raises OSError and is forgotten."""
        self.apps[app.app_id] = app
        for replica in app.replicas:
            await replica.start(os.environ)
        app.followed = asyncio.create_task(self._follow(app))
        self.changed(app.app_id)

    async def _follow(self, app: App) -> None:
        async def one(replica: Replica) -> None:
            await replica.follow(lambda: app.cancelled)
            self.changed(app.app_id)

        await asyncio.gather(*(one(replica) for replica in app.replicas))

    async def end(self, app: App) -> None:
        """End an app's processes and wait for that."""
        for replica in app.replicas:
            replica.kill()
        if app.followed is not None:
            await asyncio.wait([app.followed])
        else:
            await asyncio.gather(*(r.process.wait() for r in app.replicas if r.process is not None))

    def forget(self, app_id: str) -> None:
        """Know an app no more."""
        self.apps.pop(app_id, None)
        self.changed(app_id)

    def changed(self, app_id: str) -> None:
        """Tell all who watch."""
        for watcher in list(self.watchers):
            watcher(app_id)

    def newest_first(self) -> Sequence[App]:
        """Return all apps."""
        return sorted(self.apps.values(), key=lambda app: app.created_at, reverse=True)
