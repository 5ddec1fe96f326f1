"""One app as a row: its state, replicas, times and reason, made of what is known of it."""

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
    """What is shown of an app.

    Attributes:
        handle: Its handle.
        state: Its state; None if its scheduler does not know it.
        tally: How its replicas are doing.
        roles: The same in full, where it is known.
        name: The name that it was given.
        session: The session that submitted it.
        reason: Why it failed or waits, in one line.
        kind: The same without counts and names of replicas, which is equal for those that failed alike.
        created_at: When it was submitted.
        started_at: When its first replica started.
        finished_at: When its last replica ended; None while one has not.
        last_line: What was last read of what it writes; of one that failed, what the first failure wrote last.
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
        """Since when it is as it is: its end, its start, or its submission; None where that is not known."""
        if self.is_over:
            return self.finished_at
        return self.started_at or self.created_at

    def duration(self, now: datetime) -> timedelta | None:
        """Return how long it has run, or ran; None if it has not started."""
        if self.started_at is None or (self.is_over and self.finished_at is None):
            return None
        return ((self.finished_at if self.is_over else now) or now) - self.started_at

    def age(self, now: datetime) -> str:
        """Tell how long it has run, or ran; of one that has not started, how long ago it was submitted."""
        if self.started_at is not None:
            over = self.is_over and self.finished_at is not None
            until = self.finished_at if over and self.finished_at else now
            return f"{'ran' if over else 'running for'} {span(until - self.started_at)}"
        return f"{span(now - self.created_at)} old" if self.created_at else ""

    def with_last_line(self, line: str) -> AppView:
        """Return the same with what it has written last."""
        return replace(self, last_line=" ".join(line.split()))


def app_view(handle: str, status: AppStatus | None) -> AppView:
    """Return what is shown of an app whose status this is; None: its scheduler does not know it."""
    return (
        AppView(handle=handle, state=None) if status is None else seen(handle, status.state, status.msg, status.roles)
    )


def seen(handle: str, state: AppState, msg: str, roles: Sequence[RoleStatus]) -> AppView:
    """Return what is shown of an app of whose roles this is known."""
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
    """Order apps by their states: those that failed first, and those that have succeeded last."""
    return 1 if state is None else _ATTENTION[state]


def common_prefix(handles: Collection[str]) -> str:
    """Return what all handles begin with, up to a slash: the scheduler, and the session where there is but one."""
    head, slash, _ = shared_beginning(handles).rpartition("/")
    return head + slash


def shared_beginning(texts: Collection[str]) -> str:
    """Return what all texts begin with."""
    first, last = min(texts, default=""), max(texts, default="")  # what these share, those between them do, too
    same = next((k for k, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first))
    return first[:same]


def distinct(names: Collection[str]) -> int:
    """Return how much of each name has to be shown, so that no two read alike and none the beginning of another."""
    return max((len(shared_beginning(pair)) + 1 for pair in pairwise(sorted({*names}))), default=0)


def _times(replicas: Sequence[ReplicaStatus]) -> tuple[datetime | None, datetime | None]:
    """Return when the first replica started, and when the last one ended if all have."""
    started = [replica.started_at for replica in replicas if replica.started_at is not None]
    ended = [replica.finished_at for replica in replicas if replica.finished_at is not None]
    over = bool(ended) and len(ended) == len(replicas)
    return min(started, default=None), max(ended) if over else None
