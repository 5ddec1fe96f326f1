"""What Slurm's commands complain of, as our errors."""

from __future__ import annotations

from asyncsched.errors import (
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    SchedulerError,
    ThrottledError,
    UnavailableError,
)
from asyncsched.schedulers._common.program import Finished

__all__ = ["BACKEND", "being_submitted", "foreign", "translate", "unwritable"]

BACKEND = "slurm"

_KINDS: tuple[tuple[type[SchedulerError], tuple[str, ...]], ...] = (
    (ThrottledError, ("rate limit", "rpc limit", "too many requests")),
    (
        UnavailableError,
        (
            "unable to contact",
            "timed out",
            "connection refused",
            "connection reset",
            "connection abort",
            "endpoint is not connected",
            "broken pipe",
            "no route to host",
            "network is unreachable",
            "unexpected message received",
            "communication connection failure",
            "zero bytes were transmitted",
            "temporarily unavailable",
            "connect failure",
            "auth/munge",
            "munge encode failed",
            "slurm_persist_conn",
            "backup controller",
        ),
    ),
    (PermissionDeniedError, ("access/permission denied", "permission denied", "accounts", "not authorized")),
    (NotFoundError, ("invalid job id",)),
)
"""What a complaint holds, in small letters, of each kind of error; the first kind that fits."""


def translate(told: Finished, operation: str, *, refusal: type[SchedulerError] = InvalidRequestError) -> SchedulerError:
    """Return the error for a command that failed.

    Args:
        told: How it ended.
        operation: What it was run for.
        refusal: The kind of error where its complaint is not a known one.
    """
    text = told.stderr.decode(errors="replace").lower()
    kind = next((kind for kind, words in _KINDS if any(word in text for word in words)), refusal)
    return kind(f"{told.program} failed", why=told.complaint, backend=BACKEND, operation=operation)


def foreign(path: str, operation: str) -> PermissionDeniedError:
    """Return the error for a directory of an app that belongs to somebody else."""
    return PermissionDeniedError(
        f"{path} is not used",
        why="it belongs to another user, is not a directory, or others may write there",
        fix="move it away, or name another place by `job_dir`",
        backend=BACKEND,
        operation=operation,
    )


def unwritable(path: str, error: OSError, operation: str) -> SchedulerError:
    """Return the error for a directory in which an app cannot be written down."""
    kind = PermissionDeniedError if isinstance(error, PermissionError) else SchedulerError
    return kind(
        f"the app cannot be written to {path}",
        why=error.strerror or str(error),
        fix="name a directory that you may write to, and that the nodes share, by `job_dir`",
        backend=BACKEND,
        operation=operation,
    )


def being_submitted(app_id: str) -> ConflictError:
    """Return the error for an app that another process keeps submitting."""
    return ConflictError(
        f"{app_id} is being submitted by another process",
        fix="try again",
        backend=BACKEND,
        operation="submit",
    )
