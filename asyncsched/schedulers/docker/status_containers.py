"""Turn the daemon's answers about containers into records: no I/O, no SDK.

A list of containers has everything except a few details (restarts, out of memory, exact times), for which a container
must be inspected: `needs_details` returns for which containers the details matter.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from asyncsched.schedulers._common.exit_codes import BY_SIGNAL, SIGKILL
from asyncsched.schedulers._common.untrusted import Once, shown
from asyncsched.schedulers.docker import names
from asyncsched.schedulers.docker.names import Identity, read_identity
from asyncsched.specs.state import AppState

__all__ = [
    "KILLED",
    "Container",
    "by_app",
    "last_run",
    "needs_details",
    "read_container",
    "state_of",
    "with_details",
]

_once = Once(logging.getLogger("asyncsched.schedulers.docker"))

# Every state that the Engine API documents.
_STATES = {
    "created": AppState.SUBMITTED,
    "running": AppState.RUNNING,
    "paused": AppState.PENDING,
    "restarting": AppState.PENDING,
    "removing": AppState.PENDING,
    "exited": None,  # its exit code decides
    "dead": AppState.FAILED,
}
_CODE = re.compile(r"(?:Exited|Restarting) \((\d+)\)")
KILLED = BY_SIGNAL + SIGKILL
_NOT_STARTED = range(126, 129)  # the daemon's codes for a container that it could not start, and shells' for a program
_NEVER = "0001-01-01"
_EPOCH = datetime.fromtimestamp(0, UTC)
_FOREIGN = (
    "the container %s is ignored: asyncsched has not created it under this name, so its labels of the app %s come from"
    " its image or from another program"
)
_BEFORE_START = timedelta(milliseconds=75)  # how much too early the first lines of a first run may be stamped


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container that asyncsched has created, as far as it is known.

    Attributes:
        id: The daemon's id for it.
        name: Its current name, which shows whether it was cancelled.
        state: The daemon's word for its state.
        exit_code: The exit code of its last run, if it has ended or waits to be restarted.
        created: When it was created, in seconds since the epoch.
        image: Its image's name.
        labels: The labels that asyncsched has written for it; none if it belongs to another program.
        identity: Its place in an app, read from the labels.
        restarts: How often it was restarted; None if it was not inspected.
        out_of_memory: Whether its last run was killed for lack of memory.
        error: Why it could not be started.
        started_at: When its last run started, if known.
        finished_at: When its last run ended, if known.
        detailed: Whether it has been inspected.
    """

    id: str
    name: str
    state: str
    exit_code: int | None
    created: float
    image: str
    labels: Mapping[str, str]
    identity: Identity
    restarts: int | None = None
    out_of_memory: bool = False
    error: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    detailed: bool = False

    @property
    def app_id(self) -> str:
        """The id of its app; empty if it belongs to none."""
        return self.identity.app_id

    @property
    def role(self) -> str:
        """Its role's name."""
        return self.identity.role

    @property
    def replica(self) -> int:
        """Its number in the role."""
        return self.identity.replica

    @property
    def cancelled(self) -> bool:
        """Whether its app was cancelled while it ran."""
        return self.name.endswith(names.CANCELLED)

    @property
    def stopped(self) -> bool:
        """Whether it was stopped because another replica had failed."""
        return self.name.endswith(names.STOPPED)

    @property
    def timed_out(self) -> bool:
        """Whether it was stopped because it ran longer than its timeout."""
        return self.name.endswith(names.TIMED_OUT)

    @property
    def timeout(self) -> float:
        """The seconds that one of its runs may take; infinite without the label."""
        return self.identity.timeout

    @property
    def created_at(self) -> datetime:
        """When it was created."""
        return datetime.fromtimestamp(self.created, UTC)

    @property
    def max_retries(self) -> int:
        """How often it may be restarted."""
        return self.identity.max_retries

    @property
    def remove_after(self) -> float:
        """The seconds after its end when it may be removed; infinite without the label."""
        return self.identity.remove_after

    @property
    def over(self) -> bool:
        """Whether it has ended and will not be restarted."""
        return state_of(self).is_terminal()


def read_container(entry: Mapping[str, Any]) -> Container:
    """Read an item of ``GET /containers/json``; its status text has the exit code."""
    code = _CODE.match(entry.get("Status") or "")
    name = _own_name(entry)
    found: Mapping[str, str] = entry.get("Labels") or {}
    own = names.own_labels(found, name)
    if names.APP_ID in found and not own:
        app_id = shown(found[names.APP_ID])
        _once.warn(("foreign", app_id), _FOREIGN, name, app_id)
    return Container(
        id=entry["Id"],
        name=name,
        state=entry.get("State") or "",
        exit_code=int(code[1]) if code else None,
        created=float(entry.get("Created") or 0),
        image=entry.get("Image") or "",
        labels=own,
        identity=read_identity(own),
    )


def _own_name(entry: Mapping[str, Any]) -> str:
    """Return a listed container's name, without what containers that link to it call it: ``/other/alias``."""
    own = (name for each in entry.get("Names") or () if "/" not in (name := str(each).removeprefix("/")))
    return next(own, str(entry["Id"]))


def with_details(container: Container, inspected: Mapping[str, Any]) -> Container:
    """Return the container with the details of ``GET /containers/<id>/json``, and its newer state."""
    state: Mapping[str, Any] = inspected["State"]
    status = str(state.get("Status") or container.state)
    ended = status in ("exited", "dead", "restarting")
    return replace(
        container,
        name=str(inspected["Name"]).removeprefix("/"),
        state=status,
        exit_code=int(state["ExitCode"]) if ended else None,
        restarts=int(inspected.get("RestartCount") or 0),
        out_of_memory=bool(state.get("OOMKilled")) and ended,
        error=str(state.get("Error") or ""),
        started_at=_time(state.get("StartedAt")),
        finished_at=_time(state.get("FinishedAt")) if ended else None,
        detailed=True,
    )


def needs_details(container: Container) -> bool:
    """Return whether the list lacks a detail that matters.

    That is why a container was killed (out of memory looks like any KILL), how often it was restarted, and why it could
    not be started. All others need only the list.
    """
    if container.detailed:
        return False
    if container.max_retries > 0 and container.state != "created":
        return True
    if container.cancelled or container.stopped or container.timed_out:
        return False
    return container.exit_code in (KILLED, *_NOT_STARTED) or container.state == "dead"


def last_run(inspected: Mapping[str, Any]) -> tuple[int, int]:
    """Return when a container's last run begins in its log, in nanoseconds (0 if none), and the run's number."""
    state: Mapping[str, Any] = inspected["State"]
    started, ended = _time(state.get("StartedAt")), _time(state.get("FinishedAt"))
    # A restart is counted when the run before it has ended.
    number = int(inspected.get("RestartCount") or 0) - bool(state.get("Restarting"))
    if started is None:
        return 0, number
    # First lines may be stamped before their run's recorded beginning, and last lines after its end: so the pause
    # between two runs, a tenth of a second and more, is divided. The end of a very short run may be recorded before
    # its beginning.
    is_of_one_before = ended is not None and ended < started and state.get("Status") == "running"
    margin = (started - ended) / 2 if ended is not None and is_of_one_before else _BEFORE_START
    return _nanoseconds(started - margin), number


def _nanoseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000


def _time(text: object) -> datetime | None:
    if not isinstance(text, str) or not text or text.startswith(_NEVER):
        return None
    # The daemon writes nanoseconds, with as many digits as needed: datetime reads six.
    whole, _, fraction = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{whole}.{fraction[:6]:0<6}+00:00")


def by_app(containers: Iterable[Container]) -> dict[str, list[Container]]:
    """Group containers by their app's id, each app's in the order of roles and replicas.

    A container with unsound labels makes an app of unknown state, but is left out of an app that has sound containers:
    what strangers write changes nothing about our own apps.
    """
    apps: dict[str, list[Container]] = {}
    strangers: dict[str, list[Container]] = {}
    for container in containers:
        fault = container.identity.fault
        if fault:
            _once.warn(container.id, "the container %s is %s: %s", container.name, _unsound(container), fault)
        if container.app_id:
            (strangers if fault else apps).setdefault(container.app_id, []).append(container)
    apps = {**strangers, **apps}
    for members in apps.values():
        members.sort(key=_place)
    return apps


def _unsound(container: Container) -> str:
    return "not created by asyncsched" if container.app_id else "ignored"


def _place(container: Container) -> tuple[int, int]:
    return container.identity.role_index, container.replica


def state_of(container: Container) -> AppState:
    """Return the state of a container's replica, if the container is ours."""
    if container.state not in _STATES:
        message = "Docker reports the unknown state %r for the container %s"
        _once.warn(container.state, message, container.state, container.name)
        return AppState.UNKNOWN
    state = _STATES[container.state]
    marked = container.cancelled or container.stopped
    if state is None and container.timed_out:
        return AppState.FAILED
    if state is None:
        state = AppState.SUCCEEDED if container.exit_code == 0 else AppState.FAILED
        return AppState.CANCELLED if marked else state
    # Cancelled before it was ever started: nothing will start it now.
    return AppState.CANCELLED if marked and state is AppState.SUBMITTED else state
