"""Errors of the kernel: mistakes in an app, or resources that the machine lacks for now."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Any

from asyncsched._platform import WANTS
from asyncsched.errors import InvalidRequestError, SchedulerError, UnavailableError
from asyncsched.schedulers.local.status_record import BACKEND

__all__ = ["SupervisorGoneError", "failed", "help_with", "translate"]

#: What to do about errors that pass.
_PASSING: Mapping[int, str] = {
    **WANTS,
    errno.EIO: "look for disk errors in the kernel's log (dmesg)",
    errno.ENOBUFS: "let other programs end",
    errno.ESTALE: "try again, or mount the file system anew",
    errno.ETIMEDOUT: "look whether the file server works",
    errno.ETXTBSY: "wait until the program is no longer being written",
}

#: What to do about errors in the state directory.
_OURS: Mapping[int, str] = {
    errno.EACCES: "make the state directory yours to write to",
    errno.ENOENT: "do not remove the state directory while it is in use; a new scheduler creates it again",
    errno.EPERM: "make the state directory yours to write to",
    errno.EROFS: "mount the disk of the state directory writable, or set ASYNCSCHED_HOME to another directory",
}


#: Errors that only a different request can avoid.
_OF_THE_APP = frozenset({errno.E2BIG, errno.EILSEQ, errno.EINVAL, errno.ENAMETOOLONG})


class SupervisorGoneError(UnavailableError):
    """The supervisor of an app has ended, and the app with it."""


def translate(answer: Mapping[str, Any], operation: str, *, app_id: str = "") -> SchedulerError:
    """Return the exception for an error that a supervisor answered.

    Args:
        answer: The answer; a supervisor of another release may not give the kind of error.
        operation: The requested operation.
        app_id: The app.
    """
    if operation == "submit":
        return _cannot_start(app_id, answer)
    if operation == "hello":
        return _cannot_work(answer) if answer.get("error") == "refused" else _other_release(answer)
    why = str(answer.get("message", ""))
    return SchedulerError("the supervisor of local apps refused", why=why, backend=BACKEND, operation=operation)


def _cannot_start(app_id: str, answer: Mapping[str, Any]) -> SchedulerError:
    number, why = int(answer.get("errno", 0)), str(answer.get("message", ""))
    if number in _PASSING or (answer.get("ours") and number not in _OF_THE_APP):
        fix = f"no replica was started; {help_with(number)}, then submit again"
        return UnavailableError(f"cannot start {app_id}", why=why, fix=fix, backend=BACKEND, operation="submit")
    return InvalidRequestError(
        f"cannot start {app_id}",
        why=why,
        fix="no replica was started; correct it and submit again",
        backend=BACKEND,
        operation="submit",
    )


def _cannot_work(answer: Mapping[str, Any]) -> UnavailableError:
    return UnavailableError(
        "the supervisor of local apps cannot work",
        why=str(answer.get("message", "")),
        fix=help_with(int(answer.get("errno", 0))),
        backend=BACKEND,
        operation="start",
    )


def _other_release(answer: Mapping[str, Any]) -> SchedulerError:
    return SchedulerError(
        "this app's supervisor was started by another release of asyncsched",
        why=str(answer.get("message", "")),
        fix="use that release for this app",
        backend=BACKEND,
    )


def failed(
    what: str, error: OSError, *, otherwise: type[SchedulerError] = SchedulerError, fix: str = ""
) -> SchedulerError:
    """Return the error for a system call on the state: an UnavailableError if it may pass.

    Args:
        what: What happened.
        error: The kernel's error.
        otherwise: The class of the error for any other reason.
        fix: What to do about it, if that does not follow from the kernel's error.
    """
    kind = UnavailableError if error.errno in _PASSING else otherwise
    return kind(what, why=error.strerror or str(error), fix=fix or help_with(error.errno or 0), backend=BACKEND)


def help_with(number: int) -> str:
    """Return what to do about a kernel error that is not the app's fault."""
    return _PASSING.get(number) or _OURS.get(number) or "fix that if it does not go away by itself"
