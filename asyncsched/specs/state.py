"""How an app, its roles and its replicas are doing."""

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
    """Not handed to a scheduler yet."""
    SUBMITTED = 1
    """Handed to a scheduler, which has not said anything about it yet."""
    PENDING = 2
    """Waiting: for resources, for an image, for its turn, or to be started again."""
    RUNNING = 3
    SUCCEEDED = 4
    FAILED = 5
    CANCELLED = 6
    """Ended because somebody asked for it."""
    UNKNOWN = 7
    """The scheduler says something that we do not understand, or nothing."""

    def is_terminal(self) -> bool:
        """Tell whether this state is the last one."""
        return self in (AppState.SUCCEEDED, AppState.FAILED, AppState.CANCELLED)

    def is_started(self) -> bool:
        """Tell whether it runs or has ended."""
        return self is AppState.RUNNING or self.is_terminal()

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"{self.name} ({self.value})"


class FailureCause(StrEnum):
    """What kind of thing made an app or a replica fail, or keeps it from starting."""

    EXIT = "exit"
    """Its program returned a code other than 0."""
    SIGNAL = "signal"
    """A signal ended its program."""
    OOM = "oom"
    """It needed more memory than it was given."""
    TIMEOUT = "timeout"
    """It ran longer than it was allowed to."""
    PREEMPTED = "preempted"
    """Its host was taken back, or its place was given to another job."""
    NODE = "node"
    """Its host failed."""
    IMAGE = "image"
    """Its image cannot be pulled, or its program is not in it."""
    CONFIG = "config"
    """Something that it refers to does not exist or is wrong, such as a secret or a volume."""
    UNSCHEDULABLE = "unschedulable"
    """No host fits it, or none did in time."""
    QUOTA = "quota"
    """A quota does not allow it."""
    CANCELLED = "cancelled"
    """Somebody asked for its end."""
    UNKNOWN = "unknown"
    """The scheduler does not say."""


ReplicaState = AppState


def is_terminal(state: AppState) -> bool:
    """Tell whether this state is the last one."""
    return state.is_terminal()


def is_started(state: AppState) -> bool:
    """Tell whether something in this state runs or has ended."""
    return state.is_started()


@dataclass(eq=False, repr=False)
class ReplicaStatus(Value):
    """How one replica is doing.

    Args:
        id: Its number in the role.
        state: Its state.
        role: Its role's name.
        hostname: Where it runs.
        structured_error_msg: The error that the program itself has reported, as JSON, or ``<NONE>``.
        exit_code: What its program has returned, if it ended by itself.
        signal: The number of the signal that has ended it, if one did.
        reason: Why it failed or waits, in the scheduler's words.
        num_restarts: How often it has been started again, where that is known.
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
    """How the replicas of one role are doing."""

    role: str
    replicas: list[ReplicaStatus]


@dataclass(eq=False, repr=False)
class AppStatus(RichDisplay, Value):
    """How an app is doing.

    Args:
        state: The app's state.
        num_restarts: How often the app as a whole has been started again.
        msg: Why it failed or waits, in the scheduler's words.
        structured_error_msg: The earliest error that a replica has reported, as JSON, or ``<NONE>``.
        ui_url: Where to look at it in a browser.
        roles: Its roles; a replica that was retried stands there with its latest attempt.
        handle: The app's handle, where the status comes from a runner. It tells whose status this is, not how the
            app is doing, and so is no part of comparing or printing.
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
        """Tell whether the app has ended."""
        return self.state.is_terminal()

    def raise_for_status(self) -> None:
        """Raise unless the app has succeeded.

        Raises:
            AppStatusError: Its `status` is this status.
        """
        if self.state != AppState.SUCCEEDED:
            raise AppStatusError("job did not succeed", why=repr(self), status=self)

    def format(self, filter_roles: Iterable[str] | None = None) -> str:
        """Print the status for people.

        Args:
            filter_roles: The roles to print; none means all.
        """
        from asyncsched.specs.status_text import format_status

        return format_status(self, self._roles(filter_roles))

    def to_json(self, filter_roles: Iterable[str] | None = None) -> dict[str, object]:
        """Return the status as plain data that ``json.dumps`` takes: states by name, times in ISO format.

        Args:
            filter_roles: The roles to include; none means all.
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
        from asyncsched.views.cards import status_card  # only notebooks pay for it

        return status_card(self, datetime.now(UTC))

    def _roles(self, names: Iterable[str] | None) -> list[RoleStatus]:
        wanted = set(names or ())
        return [role for role in self.roles if not wanted or role.role in wanted]


def combine(replicas: Iterable[ReplicaStatus | AppState], *, cancelled: bool = False) -> AppState:
    """Return the state of an app, given those of its replicas.

    While a replica has not ended the app is RUNNING if any has started, else PENDING. When all have ended
    it is CANCELLED if that was asked for, FAILED if any failed, CANCELLED if any was cancelled, and
    SUCCEEDED otherwise. Two cases complete this: an app without replicas is PENDING (CANCELLED if that
    was asked for), and one of whose replicas nothing is known is UNKNOWN.

    Neither order nor repetition matters.

    Args:
        replicas: The replicas or their states.
        cancelled: Whether somebody has asked for the app's end.
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
    """Return the cause for an app in this state: that of the first replica in the same state whose cause is known.

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
