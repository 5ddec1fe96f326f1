"""The service behind the fake scheduler: apps, replicas and their logs, in memory."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from asyncsched._typing import NamedTuple
from asyncsched.clock import Clock, TimerHandle
from asyncsched.errors import AsyncSchedError
from asyncsched.logs.line import utc
from asyncsched.schedulers._common.app_notes import app_note, read_app_note
from asyncsched.specs.app import AppDef, Role
from asyncsched.specs.result import RESULT_FILE
from asyncsched.specs.secret import revealed_env
from asyncsched.specs.secret_ref import SecretRef
from asyncsched.specs.state import AppState, FailureCause, ReplicaStatus
from asyncsched.specs.stream import Stream
from asyncsched.specs.to_plain import JsonValue

if TYPE_CHECKING:
    from asyncsched.testing.shell import Step

__all__ = ["NEVER_STARTS", "FakeApp", "FakeReplica", "FakeService", "Limits", "Record"]

NEVER_STARTS = "never-starts"
"""An entrypoint that the service never schedules."""


class Limits(NamedTuple):
    """Seconds that an app may run, and wait; None for no limit."""

    timeout: float | None = None
    pending_timeout: float | None = None


NO_LIMITS = Limits()


class Record:
    """A line that a replica wrote, or its last output without a newline."""

    __slots__ = ("attempt", "data", "ns", "number", "stream")

    def __init__(self, number: int, ns: int, stream: Stream, data: bytes, attempt: int) -> None:
        self.number = number
        self.ns = ns
        self.stream = stream
        self.data = data
        self.attempt = attempt


class FakeReplica:
    """One replica, and everything that it has written."""

    def __init__(self, role: str, number: int) -> None:
        self.role = role
        self.id = number
        self.state: AppState = AppState.PENDING
        self.attempt = 0
        self.exit_code: int | None = None
        self.reason = ""
        self.started_at: datetime | None = None
        self.finished_at: datetime | None = None
        self.records: list[Record] = []
        self.cause: FailureCause | None = None
        self.result: bytes | None = None
        self.unfinished: dict[Stream, bytes] = {}
        self.purged = 0  # records with lower numbers can no longer be read
        self.listeners: set[Callable[[], None]] = set()

    def status(self) -> ReplicaStatus:
        """Return its status, as a scheduler describes it."""
        return ReplicaStatus(
            self.id,
            self.state,
            self.role,
            f"fake-{self.role}-{self.id}",
            exit_code=self.exit_code,
            reason=self.reason,
            num_restarts=self.attempt,
            started_at=self.started_at,
            finished_at=self.finished_at,
            cause=self.cause,
        )

    @property
    def next_number(self) -> int:
        """The number of the next record."""
        return self.records[-1].number + 1 if self.records else 0

    def readable(self) -> Sequence[Record]:
        """Return the records that have not been purged."""
        return self.records[self.purged :]


class FakeApp:
    """An app that was submitted.

    `roles` and `metadata` come from its note; `app` is what runs.
    """

    def __init__(
        self,
        app_id: str,
        app: AppDef,
        session: str,
        digest: str,
        created_ns: int,
        limits: Limits,
        roles: list[Role],
        metadata: dict[str, str],
    ) -> None:
        self.app_id = app_id
        self.app = app
        self.session = session
        self.digest = digest
        self.created_ns = created_ns
        self.limits = limits
        self.roles = roles
        self.metadata = metadata
        self.cancelled = False
        self.replicas: dict[tuple[str, int], FakeReplica] = {}

    @property
    def ended(self) -> bool:
        """Whether every replica has ended."""
        return all(replica.state.is_terminal() for replica in self.replicas.values())


class FakeService:
    """The fake scheduler's counterpart to a cluster: it is independent of schedulers, and can be made to misbehave.

    Args:
        clock: The clock, usually a `VirtualClock`.
        start_delay: Seconds between a submit and the start of its replicas; None: they wait until `start` is called.
        log_delay: Seconds until a query finds a new line.
    """

    def __init__(self, clock: Clock, *, start_delay: float | None = 0.0, log_delay: float = 0.0) -> None:
        self.clock = clock
        self.log_delay_ns = round(log_delay * 1e9)
        self.start_delay = start_delay
        self.apps: dict[str, FakeApp] = {}
        self.calls: Counter[str] = Counter()
        self.secrets: dict[SecretRef, str] = {}
        self.connections = 0
        self.watchers: set[Callable[[str], None]] = set()
        self.cuts: set[Callable[[], None]] = set()
        self._failures: dict[str, deque[AsyncSchedError]] = {}
        self._delays: dict[str, float] = {}
        self._timers: set[TimerHandle] = set()
        self._hooks: dict[str, Callable[[], None]] = {}

    # Controls for tests.

    def start(self, app_id: str, role: str = "", k: int | None = None) -> None:
        """Start waiting replicas."""
        for replica in self._chosen(app_id, role, k):
            if replica.state is AppState.PENDING:
                self._start(self.apps[app_id], replica)

    def say(self, app_id: str, text: str | bytes, role: str = "", k: int | None = None, *, err: bool = False) -> None:
        """Make replicas write `text` unchanged: no newline is added."""
        data = text.encode() if isinstance(text, str) else text
        for replica in self._chosen(app_id, role, k):
            self._write(replica, data, Stream.STDERR if err else Stream.STDOUT)

    def exit(self, app_id: str, code: int = 0, role: str = "", k: int | None = None) -> None:
        """End replicas with an exit code."""
        for replica in self._chosen(app_id, role, k):
            self._exit(self.apps[app_id], replica, code)

    def add_replica(self, app_id: str, role: str, k: int, *, start: bool = True) -> None:
        """Add a replica after the submit."""
        app = self.apps[app_id]
        replica = app.replicas[role, k] = FakeReplica(role, k)
        if start:
            self._set(app, replica, AppState.RUNNING)
        self._changed(app_id)

    def set_reason(self, app_id: str, reason: str, role: str = "", k: int | None = None) -> None:
        """Set the reason in the status of replicas."""
        for replica in self._chosen(app_id, role, k):
            replica.reason = reason
        self._changed(app_id)

    def purge(self, app_id: str, keep: int = 0, role: str = "", k: int | None = None) -> None:
        """Make all but the last `keep` records unreadable, as a log rotation does."""
        for replica in self._chosen(app_id, role, k):
            replica.purged = max(replica.next_number - keep, 0)

    def vanish(self, app_id: str) -> None:
        """Forget an app, as services do with old ones."""
        self.apps.pop(app_id, None)
        self._changed(app_id)

    def cut(self) -> None:
        """Break every open connection."""
        for cut in list(self.cuts):
            cut()

    def fail(self, operation: str, *errors: AsyncSchedError) -> None:
        """Make the next calls of an operation fail with these errors."""
        self._failures.setdefault(operation, deque()).extend(errors)

    def slow(self, operation: str, seconds: float) -> None:
        """Make each call of an operation take this long from now on."""
        self._delays[operation] = seconds

    def on_call(self, operation: str, hook: Callable[[], None]) -> None:
        """Call `hook` at each call of an operation, before it is done."""
        self._hooks[operation] = hook

    def close(self) -> None:
        """Cancel the timers of scripts that still run."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    # Called by the fake scheduler.

    async def call(self, operation: str) -> None:
        """Count a call, take its time, and fail it if a test said so."""
        self.calls[operation] += 1
        if operation in self._hooks:
            self._hooks[operation]()
        await self.clock.sleep(self._delays.get(operation, 0.0))
        errors = self._failures.get(operation)
        if errors:
            raise errors.popleft()

    def launch(
        self,
        app_id: str,
        app: AppDef,
        session: str,
        digest: str,
        limits: Limits = NO_LIMITS,
        note: Mapping[str, JsonValue] | None = None,
    ) -> None:
        """Run an app, and keep its note."""
        told = read_app_note(app_note(app) if note is None else note)
        made = FakeApp(app_id, app, session, digest, self.clock.time_ns(), limits, *told)
        for role in app.roles:
            for k in range(role.num_replicas):
                made.replicas[role.name, k] = FakeReplica(role.name, k)
        self.apps[app_id] = made
        self._changed(app_id)
        if self.start_delay is not None:
            self._later(self.start_delay, lambda: self.start(app_id) if app_id in self.apps else None)
        if limits.pending_timeout is not None:
            self._later(limits.pending_timeout, lambda: self._give_up(made))

    def cancel(self, app_id: str) -> None:
        """End an app."""
        app = self.apps[app_id]
        app.cancelled = True
        for replica in app.replicas.values():
            self._stop(app, replica, AppState.CANCELLED, FailureCause.CANCELLED)

    def replica(self, app_id: str, role: str, k: int) -> FakeReplica | None:
        """Return a replica, or None if it is not known."""
        app = self.apps.get(app_id)
        return app.replicas.get((role, k)) if app is not None else None

    # Running apps.

    def _chosen(self, app_id: str, role: str, k: int | None) -> list[FakeReplica]:
        return [
            replica
            for (name, number), replica in self.apps[app_id].replicas.items()
            if role in ("", name) and k in (None, number)
        ]

    def _stop(self, app: FakeApp, replica: FakeReplica, state: AppState, cause: FailureCause, reason: str = "") -> None:
        if not replica.state.is_terminal():
            self._finish_lines(replica)
            replica.cause, replica.reason = cause, reason
            self._set(app, replica, state)

    def _give_up(self, app: FakeApp) -> None:
        """End an app if none of its replicas has started in time."""
        if not any(replica.started_at for replica in app.replicas.values()):
            for replica in app.replicas.values():
                self._stop(app, replica, AppState.FAILED, FailureCause.UNSCHEDULABLE, "no place was found in time")

    def _time_out(self, app: FakeApp, replica: FakeReplica, attempt: int) -> None:
        if replica.attempt == attempt:
            self._stop(app, replica, AppState.FAILED, FailureCause.TIMEOUT, "it ran too long")

    def _env(self, role: Role) -> dict[str, str]:
        filled_in = {name: self.secrets[value] for name, value in role.env.items() if isinstance(value, SecretRef)}
        return {RESULT_FILE: "result.json", **revealed_env(role.env), **filled_in}

    def _start(self, app: FakeApp, replica: FakeReplica) -> None:
        role = next((role for role in app.app.roles if role.name == replica.role), None)
        if role is not None and role.entrypoint == NEVER_STARTS:
            return
        self._set(app, replica, AppState.RUNNING)
        if (timeout := app.limits.timeout) is not None:
            attempt = replica.attempt
            self._later(timeout, lambda: self._time_out(app, replica, attempt))
        if role is not None and role.args[:1] == ["-c"]:
            from asyncsched.testing.shell import parse_script

            script = role.args[1] if len(role.args) > 1 else "exit 2"  # as a shell without a script exits
            self._run(app, replica, role, parse_script(script, self._env(role)), replica.attempt)

    def _run(
        self,
        app: FakeApp,
        replica: FakeReplica,
        role: Role,
        steps: Iterator[Step],
        attempt: int,
    ) -> None:
        from asyncsched.testing.shell import Exit, Result, Sleep, Unknown, Write

        for step in steps:
            if replica.state is not AppState.RUNNING or replica.attempt != attempt:
                return
            match step:
                case Write():
                    self._write(replica, step.text.encode(errors="surrogateescape"), step.stream)
                case Result():
                    replica.result = step.text.encode()
                case Sleep():
                    self._later(step.seconds, lambda: self._run(app, replica, role, steps, attempt))
                    return
                case Exit():
                    self._exit(app, replica, step.code)
                    return
                case Unknown():
                    self._stop(app, replica, AppState.FAILED, FailureCause.CONFIG, step.reason)
                    return
        self._exit(app, replica, 0)

    def _exit(self, app: FakeApp, replica: FakeReplica, code: int) -> None:
        if replica.state.is_terminal():
            return
        self._finish_lines(replica)
        role = next((role for role in app.app.roles if role.name == replica.role), None)
        if code and role is not None and replica.attempt < role.max_retries:
            replica.attempt += 1
            self._set(app, replica, AppState.PENDING)
            self._later(0.0, lambda: self._start(app, replica))
            return
        replica.exit_code = code
        replica.reason = f"exited with code {code}" if code else ""
        replica.cause = FailureCause.EXIT if code else None
        self._set(app, replica, AppState.FAILED if code else AppState.SUCCEEDED)

    def _set(self, app: FakeApp, replica: FakeReplica, state: AppState) -> None:
        replica.state = state
        now = utc(self.clock.time_ns())
        if state is AppState.RUNNING:
            replica.started_at = now
        elif state.is_terminal():
            replica.finished_at = now
        self._changed(app.app_id)
        _tell(replica)

    def _write(self, replica: FakeReplica, data: bytes, stream: Stream) -> None:
        *whole, rest = (replica.unfinished.pop(stream, b"") + data).split(b"\n")
        for line in whole:
            self._record(replica, line + b"\n", stream)
        if rest:
            replica.unfinished[stream] = rest
        _tell(replica)

    def _record(self, replica: FakeReplica, data: bytes, stream: Stream) -> None:
        replica.records.append(Record(replica.next_number, self.clock.time_ns(), stream, data, replica.attempt))

    def _finish_lines(self, replica: FakeReplica) -> None:
        for stream, data in replica.unfinished.items():
            self._record(replica, data, stream)
        replica.unfinished.clear()

    def _changed(self, app_id: str) -> None:
        for watcher in list(self.watchers):
            watcher(app_id)

    def _later(self, seconds: float, callback: Callable[[], None]) -> None:
        def run() -> None:
            self._timers.discard(timer)
            callback()

        timer = self.clock.call_later(seconds, run)
        self._timers.add(timer)


def _tell(replica: FakeReplica) -> None:
    for listener in list(replica.listeners):
        listener()
