"""One app as a row: its state, replicas, times and reason."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise

from asyncsched.specs.state import AppState, AppStatus, ReplicaStatus, RoleStatus
from asyncsched.views.endings import kind_of, reason_of
from asyncsched.views.replicas import NO_REPLICAS, Tally, tally
from asyncsched.views.spans import span

__all__ = ["AppView", "app_view", "by_attention", "common_prefix", "distinct", "seen", "shared_beginning"]

NOT_KNOWN = "not known"

_ATTENTION = {
    AppState.FAILED: 0,
    AppState.UNKNOWN: 1,
    AppState.PENDING: 2,
    AppState.RUNNING: 3,
    AppState.SUBMITTED: 4,
    AppState.UNSUBMITTED: 5,
    AppState.CANCELLED: 6,
    AppState.SUCCEEDED: 7,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AppView:
    """The view of an app.

    Attributes:
        handle: Its handle.
        state: Its state; None if its scheduler does not know it.
        tally: The counts of its replicas by state.
        roles: The status of its roles, if known.
        name: The name in its AppDef.
        session: The session that submitted it.
        reason: Why it failed or waits, in one line.
        kind: The reason without counts and names of replicas, equal for apps that failed in the same way.
        created_at: When it was submitted.
        started_at: When its first replica started.
        finished_at: When its last replica ended; None until all have ended.
        last_line: The last line that was read of its log; for a failed app, the last line of the first failure.
    """

    handle: str
    state: AppState | None
    tally: Tally = NO_REPLICAS
    roles: Sequence[RoleStatus] = ()
    name: str = ""
    session: str = ""
    reason: str = ""
    kind: str = ""
    created_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    last_line: str = ""

    @property
    def app_id(self) -> str:
        """Its id, which is the last part of its handle."""
        return self.handle.rpartition("/")[2]

    @property
    def word(self) -> str:
        """Its state as a word."""
        return NOT_KNOWN if self.state is None else self.state.name

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.state is not None and self.state.is_terminal()

    @property
    def replicas(self) -> list[ReplicaStatus]:
        """The replicas of all roles, in order."""
        return [replica for role in self.roles for replica in role.replicas]

    @property
    def restarts(self) -> int:
        """How often the replica was started again that was so most often."""
        return max((replica.num_restarts or 0 for replica in self.replicas), default=0)

    @property
    def since(self) -> datetime | None:
        """The time of its last step: its end, its start, or its submission; None if unknown."""
        if self.is_over:
            return self.finished_at
        return self.started_at or self.created_at

    def duration(self, now: datetime) -> timedelta | None:
        """Return how long it has run, or ran; None if it has not started."""
        if self.started_at is None or (self.is_over and self.finished_at is None):
            return None
        return ((self.finished_at if self.is_over else now) or now) - self.started_at

    def age(self, now: datetime) -> str:
        """Return how long it has run, or ran; if it has not started, how long ago it was submitted."""
        if self.started_at is not None:
            over = self.is_over and self.finished_at is not None
            until = self.finished_at if over and self.finished_at else now
            return f"{'ran' if over else 'running for'} {span(until - self.started_at)}"
        return f"{span(now - self.created_at)} old" if self.created_at else ""

    def with_last_line(self, line: str) -> AppView:
        """Return a copy with this last line."""
        return replace(self, last_line=" ".join(line.split()))


def app_view(handle: str, status: AppStatus | None) -> AppView:
    """Return the view of an app with this status; None means that its scheduler does not know it."""
    return (
        AppView(handle=handle, state=None) if status is None else seen(handle, status.state, status.msg, status.roles)
    )


def seen(handle: str, state: AppState, msg: str, roles: Sequence[RoleStatus]) -> AppView:
    """Return the view of an app from its state, message and roles."""
    replicas = [replica for role in roles for replica in role.replicas]
    started, ended = _times(replicas)
    return AppView(
        handle=handle,
        state=state,
        tally=tally(replicas),
        roles=roles,
        reason=reason_of(msg, replicas),
        kind=kind_of(msg, replicas),
        started_at=started,
        finished_at=ended if state.is_terminal() else None,
    )


def by_attention(state: AppState | None) -> int:
    """Return a sort key for states: FAILED first, SUCCEEDED last."""
    return 1 if state is None else _ATTENTION[state]


def common_prefix(handles: Collection[str]) -> str:
    """Return the common start of handles, up to a slash: the scheduler, and the session if there is only one."""
    head, slash, _ = shared_beginning(handles).rpartition("/")
    return head + slash


def shared_beginning(texts: Collection[str]) -> str:
    """Return the common start of texts."""
    first, last = min(texts, default=""), max(texts, default="")  # all texts in between share what these two share
    same = next((k for k, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first))
    return first[:same]


def distinct(names: Collection[str]) -> int:
    """Return the length to which names can be cut so that no two are equal, and none is the start of another."""
    return max((len(shared_beginning(pair)) + 1 for pair in pairwise(sorted({*names}))), default=0)


def _times(replicas: Sequence[ReplicaStatus]) -> tuple[datetime | None, datetime | None]:
    """Return when the first replica started, and when the last one ended if all have."""
    started = [replica.started_at for replica in replicas if replica.started_at is not None]
    ended = [replica.finished_at for replica in replicas if replica.finished_at is not None]
    over = bool(ended) and len(ended) == len(replicas)
    return min(started, default=None), max(ended) if over else None
