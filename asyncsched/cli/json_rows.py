"""The fields of JSON output about apps, and the exit code of a state."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from asyncsched.cli.errors import CANCELLED, FAILED, NOT_FOUND, OK
from asyncsched.specs.state import AppState

if TYPE_CHECKING:
    from asyncsched.specs.handle import AppHandle
    from asyncsched.specs.state import AppStatus, ReplicaStatus
    from asyncsched.views.apps import AppView

__all__ = ["age", "error_row", "handle_row", "list_row", "replica_counts", "state_code", "status_row"]

_CODES = {AppState.SUCCEEDED: OK, AppState.FAILED: FAILED, AppState.CANCELLED: CANCELLED, AppState.UNKNOWN: NOT_FOUND}


def state_code(state: AppState) -> int:
    """Return the exit code for an app that ended, or disappeared, in this state."""
    return _CODES.get(state, OK)


def handle_row(handle: AppHandle) -> dict[str, object]:
    """Return a handle and its parts."""
    return {"handle": str(handle), "scheduler": handle.scheduler, "session": handle.session, "app_id": handle.app_id}


def status_row(handle: AppHandle, status: AppStatus | None, roles: Collection[str] | None = None) -> dict[str, object]:
    """Return an app's status, with these roles; its state is null if the scheduler does not know it."""
    return {**handle_row(handle), **({"state": None} if status is None else status.to_json(roles))}


def list_row(view: AppView, now: datetime) -> dict[str, object]:
    """Return one app of a list; unknown values are null."""
    from asyncsched.specs.handle import AppHandle

    created = view.created_at.isoformat() if view.created_at else None
    duration = view.duration(now)
    return {
        **handle_row(AppHandle(view.handle)),
        "state": view.word,
        "name": view.name,
        "created_at": created,
        **(replica_counts(view.replicas) if view.replicas else {"replicas": None, "counts": None}),
        "duration": None if duration is None else duration.total_seconds(),
        "reason": view.reason,
    }


def replica_counts(replicas: Collection[ReplicaStatus]) -> dict[str, object]:
    """Return how many replicas have started, of how many, and how many are in which state."""
    from asyncsched.views.replicas import tally

    started = sum(replica.state.is_started() for replica in replicas)
    return {"replicas": f"{started}/{len(replicas)}", "counts": tally(replicas)._asdict()}


def error_row(subject: str, error: BaseException) -> dict[str, object]:
    """Return the error for a handle or a scheduler."""
    told = {name: getattr(error, name, "") for name in ("what", "why", "fix")}
    return {"subject": subject, "error": {"type": type(error).__name__, **told, "what": told["what"] or str(error)}}


def age(when: datetime | None, now: datetime | None = None) -> str:
    """Format how long ago something was, in the largest unit."""
    if when is None:
        return ""
    seconds = max(0, int(((now or datetime.now(UTC)) - when).total_seconds()))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
