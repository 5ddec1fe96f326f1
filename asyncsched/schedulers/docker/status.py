"""From what the daemon tells of containers to states: no I/O, no SDK.

A list of containers carries everything but a few details (restarts, out of memory, exact times), for which
a container has to be inspected: `needs_details` says of which containers anybody would miss them.
"""

from __future__ import annotations

import logging
import re
import signal as signals
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from asyncsched.schedulers._common.untrusted import Once
from asyncsched.schedulers.docker import names
from asyncsched.schedulers.docker.identity import Identity, read_identity
from asyncsched.schedulers.docker.rebuild import read_metadata, rebuilt_roles
from asyncsched.schedulers.responses import DescribeAppResponse, ListAppResponse
from asyncsched.specs.handle import make_app_handle
from asyncsched.specs.state import AppState, FailureCause, ReplicaStatus, RoleStatus, combine, find_cause

__all__ = [
    "KILLED",
    "Container",
    "by_app",
    "describe_app",
    "last_run",
    "list_row",
    "members_of",
    "needs_details",
    "read_container",
    "with_details",
]

_log = logging.getLogger("asyncsched.schedulers.docker")
_once = Once(_log)

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
_BY_SIGNAL = 128  # a shell's convention, and Docker's: this and the signal's number
KILLED = _BY_SIGNAL + signals.SIGKILL
_NOT_STARTED = range(126, 129)  # what the daemon says of a container that it could not start, and shells of programs
_NO_PROGRAM = ("exec: ", "executable file not found", "exec format error")
_NEVER = "0001-01-01"
_EPOCH = datetime.fromtimestamp(0, UTC)
_BEFORE_START = timedelta(milliseconds=75)  # within which the first lines of a first run are stamped too early


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container that asyncsched has made, as far as it is known.

    Attributes:
        id: The daemon's id of it.
        name: Its name now: it tells whether it was cancelled.
        state: The daemon's word.
        exit_code: What its last run ended with, if it has ended or waits to be started again.
        created: When it was made, in seconds since the epoch.
        image: Its image's name.
        labels: Its labels, as they are.
        identity: What they say of its place in an app.
        restarts: How often it was started again; None where nobody has asked.
        out_of_memory: Whether its last run was killed for want of memory.
        error: Why it could not be started.
        started_at: When its last run started, where that is known.
        finished_at: When its last run ended, where that is known.
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
        """The app that it belongs to; empty if it belongs to none."""
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
        """How many seconds one of its runs may take; any number without the label."""
        return self.identity.timeout

    @property
    def created_at(self) -> datetime:
        """When it was made."""
        return datetime.fromtimestamp(self.created, UTC)

    @property
    def max_retries(self) -> int:
        """How often it may be started again."""
        return self.identity.max_retries

    @property
    def remove_after(self) -> float:
        """How many seconds after its end it may be removed; never without the label."""
        return self.identity.remove_after

    @property
    def over(self) -> bool:
        """Whether it has ended and will not be started again."""
        return _state(self).is_terminal()


def read_container(entry: Mapping[str, Any]) -> Container:
    """Read an item of ``GET /containers/json``; its status text carries the exit code."""
    code = _CODE.match(entry.get("Status") or "")
    names = entry.get("Names") or [f"/{entry['Id']}"]
    own: Mapping[str, str] = entry.get("Labels") or {}
    return Container(
        id=entry["Id"],
        name=names[0].removeprefix("/"),
        state=entry.get("State") or "",
        exit_code=int(code[1]) if code else None,
        created=float(entry.get("Created") or 0),
        image=entry.get("Image") or "",
        labels=own,
        identity=read_identity(own),
    )


def with_details(container: Container, inspected: Mapping[str, Any]) -> Container:
    """Return the container with what ``GET /containers/<id>/json`` adds; the state is the newer one, too."""
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
    """Tell whether the list leaves something out that a reader would miss.

    That is why one was killed (out of memory looks like any KILL), how often one was restarted, and whether one could
    not be started. All others cost nothing more than the list.
    """
    if container.detailed:
        return False
    if container.max_retries > 0 and container.state != "created":
        return True
    if container.cancelled or container.stopped or container.timed_out:
        return False
    return container.exit_code in (KILLED, *_NOT_STARTED) or container.state == "dead"


def last_run(inspected: Mapping[str, Any]) -> tuple[int, int]:
    """Return since when lines are of a container's last run, in nanoseconds (0 if there is none), and its number."""
    state: Mapping[str, Any] = inspected["State"]
    started, ended = _time(state.get("StartedAt")), _time(state.get("FinishedAt"))
    # A restart is counted when its predecessor has ended.
    number = int(inspected.get("RestartCount") or 0) - bool(state.get("Restarting"))
    if started is None:
        return 0, number
    # First lines may be stamped before their run's beginning is noted, and last ones after its end: what lies between
    # two runs, a tenth of a second and more, is divided.
    margin = (started - ended) / 2 if ended is not None and ended < started else _BEFORE_START
    return _nanoseconds(started - margin), number


def _nanoseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000


def _time(text: object) -> datetime | None:
    if not isinstance(text, str) or not text or text.startswith(_NEVER):
        return None
    # Nanoseconds, and as many digits as are needed: datetime reads six.
    whole, _, fraction = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{whole}.{fraction[:6]:0<6}+00:00")


def by_app(containers: Iterable[Container]) -> dict[str, list[Container]]:
    """Gather containers by their app's id, each app's in the order of roles and replicas.

    One with foreign labels makes an app whose state is not known, but has no part in an app that has others: what a
    stranger writes changes nothing that is told of our own.
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
    return "not one that asyncsched has made" if container.app_id else "passed over"


def _place(container: Container) -> tuple[int, int]:
    return container.identity.role_index, container.replica


def _state(container: Container) -> AppState:
    if container.state not in _STATES:
        _log.warning(
            "Docker says %r of the container %s, which is no state that is known",
            container.state,
            container.name,
        )
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


def _known_state(container: Container) -> AppState:
    """Return the state of the replica that a container is; UNKNOWN where nobody knows which one that would be."""
    return AppState.UNKNOWN if container.identity.fault else _state(container)


def _reason(container: Container) -> str:
    if fault := container.identity.fault:
        return f"{names.base_name(container.name)} is not one that asyncsched has made: {fault}"
    if container.error:
        return container.error
    ending = _ending(container)
    if container.cancelled and container.exit_code is not None:
        return f"cancelled; {ending}"
    if container.stopped and container.exit_code is not None:
        return f"stopped because another replica failed; {ending}"
    if container.timed_out and container.exit_code is not None:
        return f"stopped because it ran longer than its timeout of {container.timeout:g} s; {ending}"
    if container.state == "restarting":
        return f"waits to be started again after {ending}"
    if container.state == "exited" and container.exit_code != 0:
        return ending
    return {"paused": "paused", "removing": "being removed", "dead": "dead"}.get(container.state, "")


def _cause(container: Container, state: AppState) -> FailureCause | None:
    """Return why a replica in this state failed, or why its next attempt is to come."""
    if state is AppState.CANCELLED:
        return FailureCause.CANCELLED
    if state in (AppState.RUNNING, AppState.SUCCEEDED, AppState.UNKNOWN):
        return None
    if container.timed_out and state is AppState.FAILED:
        return FailureCause.TIMEOUT
    if container.error:
        no_program = any(phrase in container.error for phrase in _NO_PROGRAM)
        return FailureCause.IMAGE if no_program else FailureCause.CONFIG
    if container.out_of_memory:
        return FailureCause.OOM
    if container.exit_code:
        return FailureCause.EXIT if _signal(container) is None else FailureCause.SIGNAL
    return FailureCause.UNKNOWN if state is AppState.FAILED else None


def _ending(container: Container) -> str:
    code = container.exit_code
    if container.out_of_memory:
        return f"out of memory: killed, exit code {code}"
    name = _signal_name(container)
    return f"killed by {name}, exit code {code}" if name else f"exit code {code}"


def _signal(container: Container) -> int | None:
    code = container.exit_code or 0
    return code - _BY_SIGNAL if _BY_SIGNAL < code <= _BY_SIGNAL + signals.SIGRTMAX else None


def _signal_name(container: Container) -> str:
    number = _signal(container)
    try:
        return signals.Signals(number).name if number is not None else ""
    except ValueError:
        return f"signal {number}"


def _replica(container: Container) -> ReplicaStatus:
    retries = container.max_retries
    state = _known_state(container)
    return ReplicaStatus(
        id=container.replica,
        state=state,
        role=container.role,
        hostname=names.base_name(container.name),
        exit_code=container.exit_code,
        signal=_signal(container),
        reason=_reason(container),
        num_restarts=container.restarts if retries else 0,
        started_at=container.started_at,
        finished_at=container.finished_at,
        cause=_cause(container, state),
    )


def describe_app(app_id: str, members: Sequence[Container]) -> DescribeAppResponse | None:
    """Describe an app from its containers, in their order; None if there are none."""
    if not members:
        return None
    statuses: dict[str, list[ReplicaStatus]] = {}
    for container in members:
        statuses.setdefault(container.role, []).append(_replica(container))
    replicas = [replica for members_ in statuses.values() for replica in members_]
    state = combine(replicas, cancelled=any(container.cancelled for container in members))
    first = members[0]
    return DescribeAppResponse(
        app_id=app_id,
        state=state,
        num_restarts=sum(replica.num_restarts or 0 for replica in replicas),
        msg=_message(replicas, state),
        roles_statuses=[RoleStatus(role=role, replicas=each) for role, each in statuses.items()],
        roles=rebuilt_roles(members),
        name=first.identity.app_name,
        session=first.identity.session,
        created_at=_created(members),
        started_at=min((r.started_at for r in replicas if r.started_at), default=None),
        finished_at=_finished(replicas, state),
        metadata=read_metadata(first),
        cause=find_cause(state, replicas),
        native=tuple(members),
    )


def members_of(answer: object) -> Sequence[Container]:
    """Return the containers that an app's description was made from."""
    native = answer.native if isinstance(answer, DescribeAppResponse) else None
    return cast("tuple[Container, ...]", native) if isinstance(native, tuple) else ()


def _message(replicas: Sequence[ReplicaStatus], state: AppState) -> str:
    """Say why the app failed or waits: the reason of the first replica that has one."""
    wanted = {
        AppState.FAILED: (AppState.FAILED,),
        AppState.PENDING: (AppState.PENDING, AppState.SUBMITTED),
        AppState.RUNNING: (AppState.FAILED, AppState.PENDING),
        AppState.UNKNOWN: (AppState.UNKNOWN,),
    }.get(state, ())
    for replica in replicas:
        if replica.state in wanted and replica.reason:
            return f"{replica.role}/{replica.id}: {replica.reason}"
    return ""


def _finished(replicas: Sequence[ReplicaStatus], state: AppState) -> datetime | None:
    times = [replica.finished_at for replica in replicas if replica.finished_at is not None]
    return max(times) if state.is_terminal() and len(times) == len(replicas) else None


def _created(members: Sequence[Container]) -> datetime:
    return min(container.created_at for container in members)


def list_row(backend: str, app_id: str, members: Sequence[Container]) -> ListAppResponse:
    """Make an app's row in a list."""
    first = members[0]
    cancelled = any(container.cancelled for container in members)
    return ListAppResponse(
        app_id=app_id,
        state=combine((_known_state(container) for container in members), cancelled=cancelled),
        app_handle=make_app_handle(backend, first.identity.session, app_id),
        name=first.identity.app_name,
        session=first.identity.session,
        created_at=_created(members),
    )
