"""Translate the error messages of Slurm's commands into asyncsched's errors."""

from __future__ import annotations

import errno

from asyncsched._platform import WANTS
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

__all__ = ["BACKEND", "absent", "being_submitted", "foreign", "open_to_others", "translate", "unreadable", "unwritable"]

BACKEND = "slurm"

LONGEST = 500

_ELSEWHERE = (
    "use another directory that only you may write to and that the nodes share: set the option `job_dir`, or the "
    "variable ASYNCSCHED_SLURM_HOME for all that is not in `job_dir`"
)
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_PASSING = frozenset({*WANTS, errno.EIO, errno.ESTALE, errno.ETIMEDOUT})

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
"""Parts of error messages, in lower case, for each class of error; the first class that matches is used."""


def translate(told: Finished, operation: str, *, refusal: type[SchedulerError] = InvalidRequestError) -> SchedulerError:
    """Return the error for a command that failed.

    Args:
        told: The finished command.
        operation: The scheduler's operation.
        refusal: The class of the error if its message is unknown.
    """
    text = told.stderr.decode(errors="replace").lower()
    kind = next((kind for kind, words in _KINDS if any(word in text for word in words)), refusal)
    return kind(f"{told.program} failed", why=_complaint(told), backend=BACKEND, operation=operation)


def _complaint(told: Finished) -> str:
    """Return a command's error message, without the hint where to read more; a site's own lines come first in it."""
    lines = (line.strip() for line in told.stderr.decode(errors="replace").split("\n") if not line.startswith("Try "))
    return "; ".join(filter(None, lines))[-LONGEST:] or told.complaint


def absent(operation: str) -> UnavailableError:
    """Return the error for a machine without Slurm's commands, from which nothing was submitted either."""
    error = UnavailableError(
        "there is no Slurm on this machine",
        why="no program squeue is in PATH",
        fix="run asyncsched where Slurm's commands work, such as on a login node",
        backend=BACKEND,
        operation=operation,
        retryable=False,
    )
    error.is_set_up = False
    return error


def foreign(path: str, why: str, operation: str) -> PermissionDeniedError:
    """Return the error for an app's directory that does not belong to this user alone."""
    return PermissionDeniedError(
        f"{path} cannot be used",
        why=why,
        fix="move it away, or use another directory with the option `job_dir`",
        backend=BACKEND,
        operation=operation,
    )


def open_to_others(place: str, why: str, operation: str, *, fix: str = "") -> PermissionDeniedError:
    """Return the error for a place of apps in which another user could replace an app's directory."""
    return PermissionDeniedError(
        f"{place} cannot be used for apps",
        why=f"{why}: another user could run any program as your job",
        fix=f"{fix}{_ELSEWHERE}",
        backend=BACKEND,
        operation=operation,
    )


def unreadable(path: str, error: OSError, operation: str = "") -> SchedulerError:
    """Return the error for a file that cannot be read, so that nothing is known of it."""
    return (UnavailableError if error.errno in _PASSING else SchedulerError)(
        f"{path} cannot be read",
        why=error.strerror or str(error),
        fix=WANTS.get(error.errno or 0, "check the file system on which it is"),
        backend=BACKEND,
        operation=operation,
    )


def unwritable(path: str, error: OSError, operation: str) -> SchedulerError:
    """Return the error for a directory that an app's files cannot be written to."""
    want = WANTS.get(error.errno or 0)
    otherwise = PermissionDeniedError if isinstance(error, PermissionError) else SchedulerError
    return (UnavailableError if want else otherwise)(
        f"cannot write the app to {path}",
        why=error.strerror or str(error),
        fix=f"free space there, or {_ELSEWHERE}" if error.errno in _FULL else want or _ELSEWHERE,
        backend=BACKEND,
        operation=operation,
    )


def being_submitted(app_id: str) -> ConflictError:
    """Return the error for an app that another process is still submitting."""
    return ConflictError(
        f"{app_id} is being submitted by another process",
        fix="try again",
        backend=BACKEND,
        operation="submit",
    )
