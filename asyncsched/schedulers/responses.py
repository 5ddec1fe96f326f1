"""The answers of a scheduler: descriptions, rows of lists, and events."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import TypeAlias

from asyncsched._typing import NamedTuple
from asyncsched.specs.app import NONE, Role
from asyncsched.specs.copies import copied
from asyncsched.specs.secret import masked_env
from asyncsched.specs.state import AppState, FailureCause, ReplicaStatus, RoleStatus
from asyncsched.specs.value import Value

__all__ = ["DescribeAppResponse", "Fingerprint", "ListAppResponse", "StateEvent", "fingerprint", "own_copy"]

Fingerprint: TypeAlias = tuple[object, ...]
"""The values of an app that a watch compares; see `fingerprint`."""

NOT_SET = "<NOT_SET>"


@dataclass(slots=True, eq=False, repr=False)
class DescribeAppResponse(Value):
    """The description of an app.

    A response belongs to the caller; changing it affects nothing else.

    Attributes:
        app_id: The app.
        state: Its state.
        num_restarts: How often the whole app was restarted; -1 if the service does not report it.
        msg: Why it failed, or what it waits for. Backends set "" if there is nothing to say; ``<NONE>`` is the default
            of a response that is made by hand.
        structured_error_msg: The error file of the replica that failed first, as JSON; ``<NONE>`` if there is none.
        ui_url: The address of its page in the service's web UI.
        roles_statuses: The status of each role, with its replicas.
        roles: The roles, as far as they can be restored.
        name: The name in its AppDef.
        session: The session that submitted it.
        created_at: When it was submitted, aware UTC.
        started_at: When its first replica started.
        finished_at: When its last replica ended.
        metadata: The AppDef's metadata, if the service keeps it.
        cause: Why it failed or cannot start, as a kind; None while nothing is wrong.
        native_id: The service's id, if it differs from `app_id`.
        native: The service's data, for the backend's log sources. It is not printed, compared, copied or pickled, and
            a watch drops it.
    """

    app_id: str = NOT_SET
    state: AppState = AppState.UNSUBMITTED
    num_restarts: int = -1
    msg: str = NONE
    structured_error_msg: str = NONE
    ui_url: str | None = None
    roles_statuses: list[RoleStatus] = field(default_factory=list[RoleStatus])
    roles: list[Role] = field(default_factory=list[Role])
    name: str = field(default="", kw_only=True)
    session: str = field(default="", kw_only=True)
    created_at: datetime | None = field(default=None, kw_only=True)
    started_at: datetime | None = field(default=None, kw_only=True)
    finished_at: datetime | None = field(default=None, kw_only=True)
    metadata: dict[str, str] = field(default_factory=dict[str, str], kw_only=True)
    cause: FailureCause | None = field(default=None, kw_only=True)
    native_id: str = field(default="", kw_only=True)
    native: object = field(default=None, kw_only=True, repr=False, compare=False)

    @property
    def replicas(self) -> list[ReplicaStatus]:
        """The replicas of all roles, in order."""
        return [replica for role in self.roles_statuses for replica in role.replicas]

    def __repr__(self) -> str:
        shown = {item.name: getattr(self, item.name) for item in fields(self) if item.repr}
        shown |= {"metadata": masked_env(self.metadata)}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def __getstate__(self) -> tuple[None, dict[str, object]]:
        state: dict[str, object] = {item.name: getattr(self, item.name) for item in fields(self)}
        return None, {**state, "native": None}


_NAMES = tuple(item.name for item in fields(DescribeAppResponse))


def own_copy(response: DescribeAppResponse) -> DescribeAppResponse:
    """Return a deep copy without `native`."""
    copy = object.__new__(DescribeAppResponse)
    for name in _NAMES:
        setattr(copy, name, getattr(response, name))
    copy.roles_statuses = [_copied_status(each) for each in response.roles_statuses]
    copy.roles = copied(response.roles)
    copy.metadata = dict(response.metadata)
    copy.native = None
    return copy


def _copied_status(status: RoleStatus) -> RoleStatus:
    replicas: list[ReplicaStatus] = []
    for replica in status.replicas:  # there may be thousands; their values are immutable, so a shallow copy is enough
        copy = object.__new__(ReplicaStatus)
        copy.__dict__ = replica.__dict__.copy()
        replicas.append(copy)
    return RoleStatus(status.role, replicas)


@dataclass(slots=True, eq=False, repr=False)
class ListAppResponse(Value):
    """One app in a list; a row belongs to the caller, who may change it.

    Its hash depends on id, handle and state, so do not change a row that is in a set or a dict.

    Attributes:
        app_id: The app.
        state: Its state.
        app_handle: Its handle.
        name: The name that it was given in its AppDef.
        session: The session that submitted it.
        created_at: When it was submitted, aware UTC, if known.
        native_id: The service's id, if it differs from `app_id`.
    """

    app_id: str
    state: AppState
    app_handle: str = NOT_SET
    name: str = field(default="", kw_only=True)
    session: str = field(default="", kw_only=True)
    created_at: datetime | None = field(default=None, kw_only=True)
    native_id: str = field(default="", kw_only=True)

    def __hash__(self) -> int:
        return hash((self.app_id, self.app_handle, self.state))


class StateEvent(NamedTuple):
    """A change of an app, or its present state at the start of a watch.

    Attributes:
        app_id: The app.
        previous: The watch's previous description; None at first.
        current: The newest description; None if the app was never found.
        gone: Whether the service does not know it, or no longer; then `current` is the last description.
    """

    app_id: str
    previous: DescribeAppResponse | None = None
    current: DescribeAppResponse | None = None
    gone: bool = False

    @property
    def state(self) -> AppState:
        """The app's state; UNKNOWN if it is gone but has not ended."""
        if self.current is None or (self.gone and not self.current.state.is_terminal()):
            return AppState.UNKNOWN
        return self.current.state

    def is_terminal(self) -> bool:
        """Return whether this is the app's last event: it has ended, or its service no longer knows it."""
        return self.gone or (self.current is not None and self.current.state.is_terminal())


def fingerprint(response: DescribeAppResponse) -> Fingerprint:
    """Return the values that a watch compares: state, message, restarts, and each replica's state and restarts."""
    return (
        response.state,
        response.msg,
        response.num_restarts,
        *((r.role, r.id, r.state, r.num_restarts) for s in response.roles_statuses for r in s.replicas),
    )
