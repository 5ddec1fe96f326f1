"""The status of an app, its roles and its replicas."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum, StrEnum

from asyncsched.errors import AppStatusError
from asyncsched.specs.app import NONE
from asyncsched.specs.rich_display import RichDisplay
from asyncsched.specs.value import Value

__all__ = [
    "AppState",
    "AppStatus",
    "FailureCause",
    "ReplicaState",
    "ReplicaStatus",
    "RoleStatus",
    "combine",
    "find_cause",
    "is_started",
    "is_terminal",
]


class AppState(int, Enum):
    """The state of an app, or of one of its replicas."""

    UNSUBMITTED = 0
    """Not submitted to a scheduler yet."""
    SUBMITTED = 1
    """Submitted; the scheduler has not reported a state yet."""
    PENDING = 2
    """Waiting: for resources, for an image, for its turn, or for a restart."""
    RUNNING = 3
    SUCCEEDED = 4
    FAILED = 5
    CANCELLED = 6
    """Ended because somebody cancelled it."""
    UNKNOWN = 7
    """The scheduler reports no state, or one that is not understood."""

    def is_terminal(self) -> bool:
        """Return whether this state is final."""
        return self in (AppState.SUCCEEDED, AppState.FAILED, AppState.CANCELLED)

    def is_started(self) -> bool:
        """Return whether it is running or has ended."""
        return self is AppState.RUNNING or self.is_terminal()

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"{self.name} ({self.value})"


class FailureCause(StrEnum):
    """The kind of cause for which an app or a replica failed, or cannot start."""

    EXIT = "exit"
    """Its program returned an exit code other than 0."""
    SIGNAL = "signal"
    """A signal ended its program."""
    OOM = "oom"
    """It needed more memory than it was allowed."""
    TIMEOUT = "timeout"
    """It ran longer than it was allowed to."""
    PREEMPTED = "preempted"
    """Its host was reclaimed, or another job took its place."""
    NODE = "node"
    """Its host failed."""
    IMAGE = "image"
    """Its image cannot be pulled, or its program is not in it."""
    CONFIG = "config"
    """Something it refers to is missing or wrong, such as a secret or a volume."""
    UNSCHEDULABLE = "unschedulable"
    """No host is large enough, or none was free in time."""
    QUOTA = "quota"
    """A quota does not allow it."""
    CANCELLED = "cancelled"
    """Somebody cancelled it."""
    UNKNOWN = "unknown"
    """The scheduler reports no cause."""


ReplicaState = AppState


def is_terminal(state: AppState) -> bool:
    """Return whether this state is final."""
    return state.is_terminal()


def is_started(state: AppState) -> bool:
    """Return whether an app or replica in this state is running or has ended."""
    return state.is_started()


@dataclass(eq=False, repr=False)
class ReplicaStatus(Value):
    """The status of one replica.

    Args:
        id: Its number in the role.
        state: Its state.
        role: Its role's name.
        hostname: The host it runs on.
        structured_error_msg: The error that the program itself reported, as JSON, or ``<NONE>``.
        exit_code: The exit code of its program, if it ended by itself.
        signal: The number of the signal that ended it, if one did.
        reason: Why it failed or waits, in the scheduler's words.
        num_restarts: How often it was restarted, if known.
        started_at: When its last attempt started (aware, UTC).
        finished_at: When its last attempt ended (aware, UTC).
        cause: Why it failed or cannot start, as a kind; None while nothing is wrong.
    """

    id: int
    state: ReplicaState
    role: str
    hostname: str
    structured_error_msg: str = NONE
    exit_code: int | None = field(default=None, kw_only=True)
    signal: int | None = field(default=None, kw_only=True)
    reason: str = field(default="", kw_only=True)
    num_restarts: int | None = field(default=None, kw_only=True)
    started_at: datetime | None = field(default=None, kw_only=True)
    finished_at: datetime | None = field(default=None, kw_only=True)
    cause: FailureCause | None = field(default=None, kw_only=True)


@dataclass(eq=False, repr=False)
class RoleStatus(Value):
    """The status of the replicas of one role."""

    role: str
    replicas: list[ReplicaStatus]


@dataclass(eq=False, repr=False)
class AppStatus(RichDisplay, Value):
    """The status of an app.

    Args:
        state: The app's state.
        num_restarts: How often the whole app was restarted.
        msg: Why it failed or waits, in the scheduler's words.
        structured_error_msg: The earliest error that a replica reported, as JSON, or ``<NONE>``.
        ui_url: The address of its page in the scheduler's web UI.
        roles: Its roles; a replica that was retried appears with its latest attempt.
        handle: The app's handle, if the status comes from a runner. It is ignored when statuses are compared or
            printed.
        cause: Why it failed or cannot start, as a kind; None while nothing is wrong.
    """

    state: AppState
    num_restarts: int = 0
    msg: str = ""
    structured_error_msg: str = NONE
    ui_url: str | None = None
    roles: list[RoleStatus] = field(default_factory=list[RoleStatus])
    handle: str = field(default="", kw_only=True, compare=False, repr=False)
    cause: FailureCause | None = field(default=None, kw_only=True)

    def is_terminal(self) -> bool:
        """Return whether the app has ended."""
        return self.state.is_terminal()

    def raise_for_status(self) -> None:
        """Raise unless the app has succeeded.

        Raises:
            AppStatusError: Its `status` is this status.
        """
        if self.state != AppState.SUCCEEDED:
            raise AppStatusError("job did not succeed", why=repr(self), status=self)

    def format(self, filter_roles: Iterable[str] | None = None) -> str:
        """Return the status as text for people.

        Args:
            filter_roles: The roles to print; empty means all.
        """
        from asyncsched.specs.status_text import format_status

        return format_status(self, self._roles(filter_roles))

    def to_json(self, filter_roles: Iterable[str] | None = None) -> dict[str, object]:
        """Return the status as plain data that ``json.dumps`` takes: states by name, times in ISO format.

        Args:
            filter_roles: The roles to include; empty means all.
        """
        from asyncsched.specs.status_text import status_to_json

        return status_to_json(self, self._roles(filter_roles))

    def __str__(self) -> str:
        return self.format().rstrip()

    def __repr__(self) -> str:
        from asyncsched.specs.status_text import status_to_yaml

        return status_to_yaml(self)

    def _line(self) -> str:
        """Return what a notebook tells of it in an error."""
        from asyncsched.views.cards import status_line

        return status_line(self)

    def _repr_html_(self) -> str:
        from asyncsched.views.cards import status_card  # imported late: only notebooks need it

        return status_card(self, datetime.now(UTC))

    def _roles(self, names: Iterable[str] | None) -> list[RoleStatus]:
        wanted = set(names or ())
        return [role for role in self.roles if not wanted or role.role in wanted]


def combine(replicas: Iterable[ReplicaStatus | AppState], *, cancelled: bool = False) -> AppState:
    """Return the state of an app from the states of its replicas.

    Until all replicas have ended, the app is RUNNING if any has started, else PENDING. When all have ended, it is
    CANCELLED if it was cancelled, else FAILED if any failed, else CANCELLED if any was cancelled, else SUCCEEDED.
    An app without replicas is PENDING (CANCELLED if it was cancelled); one whose replicas are all unknown is UNKNOWN.

    Neither order nor repetition matters.

    Args:
        replicas: The replicas or their states.
        cancelled: Whether somebody cancelled the app.
    """
    states = {item if isinstance(item, AppState) else item.state for item in replicas}
    if not states:
        return AppState.CANCELLED if cancelled else AppState.PENDING
    if states == {AppState.UNKNOWN}:
        return AppState.UNKNOWN
    if not all(state.is_terminal() for state in states):
        return AppState.RUNNING if any(state.is_started() for state in states) else AppState.PENDING
    if cancelled:
        return AppState.CANCELLED
    for verdict in (AppState.FAILED, AppState.CANCELLED):
        if verdict in states:
            return verdict
    return AppState.SUCCEEDED


def find_cause(state: AppState, replicas: Iterable[ReplicaStatus]) -> FailureCause | None:
    """Return the cause for an app in this state: that of the first replica in the same state with a known cause.

    Args:
        state: The app's state.
        replicas: Its replicas, in order.
    """
    if state is AppState.CANCELLED:
        return FailureCause.CANCELLED
    if state in (AppState.RUNNING, AppState.SUCCEEDED):
        return None
    causes = [replica.cause for replica in replicas if replica.state is state and replica.cause is not None]
    unknown = FailureCause.UNKNOWN if causes or state is AppState.FAILED else None
    return next((cause for cause in causes if cause is not FailureCause.UNKNOWN), unknown)
