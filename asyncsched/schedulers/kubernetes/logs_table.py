"""Decide what to do after each answer to a log request."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from asyncsched.schedulers.kubernetes.logs_lines import NO_FILE, REMOVED

if TYPE_CHECKING:
    from asyncsched.schedulers.kubernetes.errors import ApiFailure
    from asyncsched.schedulers.kubernetes.logs_runs import Run

__all__ = ["Next", "after_end", "after_refusal", "is_about_streams", "is_removed", "is_unknown"]


class Next(enum.Enum):
    """What to do next."""

    WAIT = "check again when the pod changes, or after a while"
    AGAIN = "connect again after a pause"
    ONCE_MORE = "read the existing log once more: the stream may have ended before the log"
    OVER = "continue with the next run: this one has been read"
    LOST = "report that the run's log is gone, and continue with the next run"
    FAIL = "raise the error"


def after_refusal(failure: ApiFailure, run: Run, *, has_ended: bool, has_begun: bool) -> Next:
    """Return what to do after a status of 400 or more.

    Args:
        failure: The refusal.
        run: The run, with its pod as known after the refusal.
        has_ended: Whether a stream of this run has ended cleanly before.
        has_begun: Whether the container has run, as far as known.
    """
    text = failure.message
    if is_unknown(failure):
        if run.gone:
            return Next.LOST if has_begun and not has_ended else Next.OVER
        return Next.WAIT  # kubelet does not know the pod yet, or the pod was just deleted
    if failure.code == 400:
        if "previous terminated container" in text:
            return Next.OVER if has_ended else Next.LOST
        if "is not valid for pod" in text:
            return Next.FAIL
        if "is waiting to start" in text or "is not available" in text or "not found" in text:
            return Next.OVER if run.ended else Next.WAIT
    return Next.FAIL if failure.code < 500 and failure.code != 429 else Next.AGAIN


def after_end(run: Run, notice: str, *, follows: bool, is_last_look: bool, has_ended: bool) -> Next:
    """Return what to do after a stream has ended cleanly.

    Args:
        run: The run, with its pod as known now.
        notice: Kubelet's message in place of lines, if any.
        follows: Whether the stream was following the run.
        is_last_look: Whether the existing log was requested after the run's end.
        has_ended: Whether this stream or an earlier one ended with the container.
    """
    if is_removed(notice, run):
        return Next.OVER if has_ended else Next.LOST
    if notice:
        return Next.AGAIN
    if is_last_look or not follows:
        return Next.OVER
    if run.gone:
        return Next.OVER  # kubelet sends everything before it removes the container
    # A kubelet that stops ends its streams as cleanly as a container that exits.
    return Next.ONCE_MORE if run.ended else Next.AGAIN


def is_removed(notice: str, run: Run) -> bool:
    """Return whether kubelet's message means that a run's log has been removed."""
    # While a container runs, its file is briefly absent at each rotation.
    return notice.startswith(REMOVED) or (run.ended and notice.startswith(NO_FILE))


def is_unknown(failure: ApiFailure) -> bool:
    """Return whether a request was refused because the API server or the kubelet does not know the pod."""
    # A kubelet forgets a deleted pod before the API server does, and has to learn about its pods when it starts.
    return failure.code == 404 or (failure.code == 400 and "cannot be found" in failure.message)


def is_about_streams(failure: ApiFailure) -> bool:
    """Return whether a request was refused because the server cannot separate stdout from stderr."""
    return failure.code == 422 and "stream" in failure.message
