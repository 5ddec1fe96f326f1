"""The exit code of ``run --pass-exit-code``."""

from __future__ import annotations

from asyncsched.cli.json_rows import state_code
from asyncsched.specs.state import AppState, AppStatus, ReplicaStatus
from asyncsched.views.replicas import signal_of

__all__ = ["code_to_pass"]

_BY_SIGNAL = 128
"""What a shell adds to a signal's number."""


def code_to_pass(status: AppStatus | None) -> int:
    """Return the exit code of the first replica that has failed, as a shell would; else that of the app's state."""
    if status is None or status.state is not AppState.FAILED:
        return state_code(AppState.UNKNOWN if status is None else status.state)
    failed = [each for role in status.roles for each in role.replicas if each.state is AppState.FAILED]
    failed.sort(key=lambda each: each.finished_at.timestamp() if each.finished_at is not None else float("inf"))
    return next((code for each in failed if (code := _code(each))), state_code(AppState.FAILED))


def _code(replica: ReplicaStatus) -> int:
    if number := signal_of(replica):
        return _BY_SIGNAL + number
    return (replica.exit_code & 0xFF or 1) if replica.exit_code else 0  # a process can return no more than a byte
