"""What stands in the way of an app: a mistake of its own, or what the machine is short of for now."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Any

from asyncsched.errors import InvalidRequestError, SchedulerError, UnavailableError
from asyncsched.schedulers.local.status_record import BACKEND

__all__ = ["help_with", "translate"]

#: What to do about that of which a machine, or a user on it, has only so much; it passes, whatever met it.
_PASSING: Mapping[int, str] = {
    errno.EAGAIN: "let other processes end, or raise the limit of processes (ulimit -u)",
    errno.EDQUOT: "make room within your quota on the disk",
    errno.EIO: "look at what the kernel says of the disk (dmesg)",
    errno.EMFILE: "let other apps end, or raise the limit of open files (ulimit -n)",
    errno.ENFILE: "let other programs end, or raise the machine's limit of open files (fs.file-max)",
    errno.ENOBUFS: "let other programs end",
    errno.ENOMEM: "let other programs end, or give the machine more memory",
    errno.ENOSPC: "make room on the disk",
    errno.ETXTBSY: "wait until the program has been written",
}

#: What to do where the state of local apps is not as it has to be.
_OURS: Mapping[int, str] = {
    errno.EACCES: "make the state directory yours to write to",
    errno.ENOENT: "do not remove the state directory while it is used; a new scheduler makes it again",
    errno.EPERM: "make the state directory yours to write to",
    errno.EROFS: "make the disk of the state directory one that can be written to, or set ASYNCSCHED_HOME",
}


#: What only another request can mend, whoever met it.
_OF_THE_APP = frozenset({errno.E2BIG, errno.EILSEQ, errno.EINVAL, errno.ENAMETOOLONG})


def translate(answer: Mapping[str, Any], operation: str, *, app_id: str = "") -> SchedulerError:
    """Return what it means that a supervisor answers with an error.

    Args:
        answer: What it has said; one of another release may not say what kind of refusal it is.
        operation: What it was asked for.
        app_id: The app that this is about.
    """
    if operation == "submit":
        return _cannot_start(app_id, answer)
    if operation == "hello":
        return _cannot_work(answer) if answer.get("error") == "refused" else _other_release(answer)
    why = str(answer.get("message", ""))
    return SchedulerError("the supervisor of local apps has refused", why=why, backend=BACKEND, operation=operation)


def _cannot_start(app_id: str, answer: Mapping[str, Any]) -> SchedulerError:
    number, why = int(answer.get("errno", 0)), str(answer.get("message", ""))
    if number in _PASSING or (answer.get("ours") and number not in _OF_THE_APP):
        fix = f"nothing of it has run: {help_with(number)}, then submit again"
        return UnavailableError(f"cannot start {app_id}", why=why, fix=fix, backend=BACKEND, operation="submit")
    return InvalidRequestError(
        f"cannot start {app_id}",
        why=why,
        fix="nothing of it has run: mend that and submit again",
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


def help_with(number: int) -> str:
    """Return what to do about an error of the kernel's that is not the app's fault."""
    return _PASSING.get(number) or _OURS.get(number) or "see to that, if it does not pass by itself"
