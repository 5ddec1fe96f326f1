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
from asyncsched.schedulers._common.untrusted import last_line

__all__ = ["BACKEND", "being_submitted", "foreign", "open_to_others", "translate", "unwritable"]

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
    return kind(f"{told.program} failed", why=_complaint(told), backend=BACKEND, operation=operation)


def _complaint(told: Finished) -> str:
    """Return what a command complains of, and not where it says to read more."""
    lines = told.stderr.splitlines()
    return last_line(b"\n".join(line for line in lines if not line.startswith(b"Try "))) or told.complaint


def foreign(path: str, operation: str) -> PermissionDeniedError:
    """Return the error for a directory of an app that belongs to somebody else."""
    return PermissionDeniedError(
        f"{path} is not used",
        why="it belongs to another user, is not a directory, or others may write there",
        fix="move it away, or name another place by `job_dir`",
        backend=BACKEND,
        operation=operation,
    )


def open_to_others(path: str, within: str, operation: str) -> PermissionDeniedError:
    """Return the error for a place of apps in which another user may put something else in the place of one."""
    return PermissionDeniedError(
        f"{within} is not used for apps",
        why=f"{path} belongs to another user, or others may write there: they could have a job run what they like",
        fix="take that permission away (chmod go-w), or name another place by `job_dir`",
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
