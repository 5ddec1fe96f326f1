"""What a scheduler answers: about one app, in a list, and when something changes."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import NamedTuple, TypeAlias

from asyncsched.specs.app import NONE, Role
from asyncsched.specs.copies import copied
from asyncsched.specs.secret import masked_env
from asyncsched.specs.state import AppState, FailureCause, ReplicaStatus, RoleStatus
from asyncsched.specs.value import Value

__all__ = ["DescribeAppResponse", "Fingerprint", "ListAppResponse", "StateEvent", "fingerprint", "own_copy"]

Fingerprint: TypeAlias = tuple[object, ...]
"""What a watch compares of an app; see `fingerprint`."""

NOT_SET = "<NOT_SET>"


@dataclass(slots=True, eq=False, repr=False)
class DescribeAppResponse(Value):
    """What is known of an app.

    A response is the caller's: what is changed in it changes nothing for anybody else.

    Attributes:
        app_id: The app.
        state: Its state.
        num_restarts: How often it was restarted as a whole; -1 where the service does not tell.
        msg: Why it failed, or what it waits for. Backends set "" where there is nothing to say; ``<NONE>`` is the
            default of one that is made by hand.
        structured_error_msg: The error file of the replica that failed first, as JSON; ``<NONE>`` if there is none.
        ui_url: A page that shows it.
        roles_statuses: The state of each replica.
        roles: The roles as far as they can be rebuilt.
        name: The name that it was given in its AppDef.
        session: The session that submitted it.
        created_at: When it was submitted, aware UTC.
        started_at: When its first replica started.
        finished_at: When its last replica ended.
        metadata: The AppDef's metadata, where the service keeps it.
        cause: Why it failed or cannot start, as a kind; None while nothing is wrong.
        native_id: What the service itself calls it, where that is something else than `app_id`.
        native: What the backend has read, for its own log sources: it is neither printed, compared, copied nor
            pickled, and a watch drops it.
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
    """Return a copy that shares nothing that can change, and is without `native`."""
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
    for replica in status.replicas:  # a thousand of them for each who watches: what they hold cannot change
        copy = object.__new__(ReplicaStatus)
        copy.__dict__ = replica.__dict__.copy()
        replicas.append(copy)
    return RoleStatus(status.role, replicas)


@dataclass(slots=True, eq=False, repr=False)
class ListAppResponse(Value):
    """One app in a list; a row is the caller's, who may assign to it.

    Its hash is that of id, handle and state: a row that is in a set or a dict is left as it is.

    Attributes:
        app_id: The app.
        state: Its state.
        app_handle: Its handle.
        name: The name that it was given in its AppDef.
        session: The session that submitted it.
        created_at: When it was submitted, aware UTC, where that is known.
        native_id: What the service itself calls it, where that is something else than `app_id`.
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
    """A change of an app, or its present state when a watch begins.

    Attributes:
        app_id: The app.
        previous: What the watch had told of it before; None at first.
        current: What is known of it now; None if nothing ever was.
        gone: Whether the service does not know it (any more); `current` is then what was known last.
    """

    app_id: str
    previous: DescribeAppResponse | None = None
    current: DescribeAppResponse | None = None
    gone: bool = False

    @property
    def state(self) -> AppState:
        """The app's state; UNKNOWN for one that is gone without having ended."""
        if self.current is None or (self.gone and not self.current.state.is_terminal()):
            return AppState.UNKNOWN
        return self.current.state

    def is_terminal(self) -> bool:
        """Tell whether this is the app's last event: the app has ended, or its service does not know it any more."""
        return self.gone or (self.current is not None and self.current.state.is_terminal())


def fingerprint(response: DescribeAppResponse) -> Fingerprint:
    """Return what a watch compares: state, message, restarts, and each replica's state and restarts."""
    return (
        response.state,
        response.msg,
        response.num_restarts,
        *((r.role, r.id, r.state, r.num_restarts) for s in response.roles_statuses for r in s.replicas),
    )
