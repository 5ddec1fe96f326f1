"""Parse a supervisor's record of an app; the file is not trusted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from asyncsched._typing import NamedTuple
from asyncsched.errors import SchedulerError
from asyncsched.schedulers._common.untrusted import read_ns
from asyncsched.schedulers.local.supervisor.formats import FORMAT
from asyncsched.specs.handle import make_app_handle

__all__ = [
    "BACKEND",
    "AppRecord",
    "ReplicaRecord",
    "SpoiltError",
    "SupervisorRecord",
    "parse_event",
    "parse_record",
    "read_record",
]

BACKEND = "local_cwd"


class SpoiltError(SchedulerError):
    """The record of an app is damaged, and no release can read it; the app may be deleted."""


class ReplicaRecord(NamedTuple):
    """One replica.

    Attributes:
        role: Its role's name.
        k: Its number in the role.
        directory: The directory of its index, relative to the app's directory.
        logs: The directory of its output, if the user named one.
        pid: Its first process.
        start: When that started, in ticks since boot; with the pid it identifies the process.
        over: Whether it has ended and no process of it is left.
        stopped: Whether it was asked to end.
        timed_out: Whether it was ended by the timeout.
        exit_code: The exit code of its first process; negative for a signal.
        signal: That signal.
        reason: Why it could not be executed.
        started_ns: When it was started.
        finished_ns: When its first process ended.
        error: Its error file.
        result_of_another: Inode, time and size of a result file that existed before it started.
    """

    role: str
    k: int
    directory: str
    logs: str
    pid: int
    start: int | None
    over: bool
    stopped: bool
    timed_out: bool
    exit_code: int | None
    signal: int | None
    reason: str
    started_ns: int | None
    finished_ns: int | None
    error: str | None
    result_of_another: tuple[int, ...] | None


class SupervisorRecord(NamedTuple):
    """The supervisor of an app.

    Attributes:
        pid: Its worker, which writes the record.
        start: When that started.
        watcher_pid: Its parent process, which cleans up after it.
        watcher_start: When that started.
        socket: The name of its socket.
    """

    pid: int
    start: int
    watcher_pid: int
    watcher_start: int
    socket: str


class AppRecord(NamedTuple):
    """One app.

    Attributes:
        app_id: Its id.
        revision: Increases with each change; 0 under a supervisor of the first release.
        session: The session that submitted it.
        name: The name in its AppDef.
        digest: A hash of the app and its options.
        host: The machine it runs on.
        boot_id: The boot id of that machine.
        pid_namespace: The pid namespace of its processes.
        supervisor: Its supervisor.
        created_ns: When it was submitted.
        started_ns: When its replicas started; None while they are being set up.
        finished_ns: When its last replica ended.
        ended_by: What ended it: ``cancel``, ``kill``, ``stop``, ``timeout``, ``close``, ``owner``, ``terminated``,
            ``supervisor`` or ``removed``; empty if nothing did.
        blames: The replica whose failure stopped the others, as ``role/k``.
        disk_full: Whether output waits for free space on the disk.
        merge_streams: Whether stdout and stderr share one pipe.
        log_dir: The directory of its logs.
        spec: Its roles and metadata, without secrets.
        replicas: Its replicas, in order.
    """

    app_id: str
    revision: int
    session: str
    name: str
    digest: str
    host: str
    boot_id: str
    pid_namespace: str
    supervisor: SupervisorRecord
    created_ns: int
    started_ns: int | None
    finished_ns: int | None
    ended_by: str
    blames: str
    disk_full: bool
    merge_streams: bool
    log_dir: str
    spec: Mapping[str, Any]
    replicas: tuple[ReplicaRecord, ...]

    @property
    def run(self) -> tuple[object, ...]:
        """Identifies this run of the app, among all runs with its id; changes when it starts."""
        return self.host, self.boot_id, self.supervisor, self.created_ns, self.started_ns


def read_record(app_id: str, data: bytes) -> AppRecord:
    """Read the file of an app.

    Raises:
        SpoiltError: It is damaged.
        SchedulerError: Its format is that of a later release.
    """
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _damaged(app_id, str(error)) from error
    return parse_record(app_id, found)


def parse_record(app_id: str, found: object) -> AppRecord:
    """Parse an app's record from a file or a supervisor; unknown fields are ignored."""
    if not isinstance(found, dict):
        raise _damaged(app_id, "it is not a JSON object")
    data = cast("dict[str, Any]", found)
    _check_format(app_id, str(data.get("format", "")))
    try:
        make_app_handle(BACKEND, str(data["session"]), app_id)
        if data["app_id"] != app_id:
            raise ValueError(f"it is the record of {data['app_id']!r}")
        return _app(data)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise _damaged(app_id, f"{type(error).__name__}: {error}") from error


def parse_event(app_id: str, message: bytes) -> AppRecord | None:
    """Parse a supervisor's message of a change; None if it has no readable record."""
    try:
        event: dict[str, object] = json.loads(message)
        return parse_record(app_id, event["app"])
    except (KeyError, TypeError, ValueError, RecursionError, SchedulerError):
        return None


def _check_format(app_id: str, version: str) -> None:
    major = version.partition(".")[0]
    if not major.isdecimal():
        raise _damaged(app_id, "it has no format version")
    if int(major) > FORMAT[0]:
        raise SchedulerError(
            f"cannot read the record of {app_id}",
            why=f"it is in format {version}, and this release reads {FORMAT[0]}.x",
            fix="upgrade asyncsched",
            backend=BACKEND,
        )


def _damaged(app_id: str, why: str) -> SpoiltError:
    return SpoiltError(f"the record of {app_id} is damaged", why=why, fix="delete the app", backend=BACKEND)


def _app(data: Mapping[str, Any]) -> AppRecord:
    place: Mapping[str, Any] = data["place"]
    supervisor: Mapping[str, Any] = data["supervisor"]
    return AppRecord(
        app_id=str(data["app_id"]),
        revision=int(data.get("revision", 0)),
        session=str(data["session"]),
        name=str(data["name"]),
        digest=str(data["digest"]),
        host=str(place["host"]),
        boot_id=str(place["boot_id"]),
        pid_namespace=str(place["pid_namespace"]),
        supervisor=SupervisorRecord(
            pid=int(supervisor["pid"]),
            start=int(supervisor["start"]),
            watcher_pid=int(supervisor["watcher_pid"]),
            watcher_start=int(supervisor["watcher_start"]),
            socket=str(supervisor["socket"]),
        ),
        created_ns=read_ns(data["created_ns"]),
        started_ns=_ns(data["started_ns"]),
        finished_ns=_ns(data["finished_ns"]),
        ended_by=str(data["ended_by"]),
        blames=str(data["blames"]),
        disk_full=bool(data["disk_full"]),
        merge_streams=bool(data["merge_streams"]),
        log_dir=str(data["log_dir"]),
        spec=dict(data["spec"]),
        replicas=tuple(_replica(each) for each in data["replicas"]),
    )


def _replica(data: Mapping[str, Any]) -> ReplicaRecord:
    return ReplicaRecord(
        role=str(data["role"]),
        k=int(data["k"]),
        directory=str(data["dir"]),
        logs=str(data["logs"]),
        pid=int(data["pid"]),
        start=_number(data["start"]),
        over=bool(data["over"]),
        stopped=bool(data["stopped"]),
        timed_out=bool(data.get("timed_out")),
        exit_code=_number(data["exit_code"]),
        signal=_number(data["signal"]),
        reason=str(data["reason"]),
        started_ns=_ns(data["started_ns"]),
        finished_ns=_ns(data["finished_ns"]),
        error=None if data["error"] is None else str(data["error"]),
        result_of_another=_numbers(data.get("result_of_another")),
    )


def _numbers(value: Any) -> tuple[int, ...] | None:
    return None if value is None else tuple(int(each) for each in value)


def _ns(value: Any) -> int | None:
    return None if value is None else read_ns(value)


def _number(value: Any) -> int | None:
    return None if value is None else int(value)
