"""What the answers to a request of a log mean: one table, which every connection goes by."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from asyncsched.schedulers.kubernetes.logs_lines import NO_FILE, REMOVED

if TYPE_CHECKING:
    from asyncsched.schedulers.kubernetes.errors import ApiFailure
    from asyncsched.schedulers.kubernetes.logs_runs import Run

__all__ = ["Next", "after_end", "after_refusal", "is_about_streams", "is_removed"]


class Next(enum.Enum):
    """What to do next."""

    WAIT = "look again when the pod has changed, or after a while"
    AGAIN = "connect again after a pause"
    ONCE_MORE = "ask once more for what there is: the end of the stream may have come before the log's"
    OVER = "go on with the next run: this one has no more to read"
    LOST = "say that its log is gone, and go on with the next run"
    FAIL = "raise the error"


def after_refusal(failure: ApiFailure, run: Run, *, has_ended: bool, has_begun: bool) -> Next:
    """Return what to do after a status of 400 or more.

    Args:
        failure: The refusal.
        run: The run whose log was asked for, as its pod is known after the refusal.
        has_ended: Whether a stream of this run has come to a clean end before.
        has_begun: Whether the container has run, as far as it is known.
    """
    text = failure.message
    if failure.code == 404:
        if run.gone:
            return Next.LOST if has_begun and not has_ended else Next.OVER
        return Next.WAIT  # kubelet does not know the pod yet, or the pod has gone a moment ago
    if failure.code == 400:
        if "previous terminated container" in text:
            return Next.OVER if has_ended else Next.LOST
        if "is not valid for pod" in text:
            return Next.FAIL
        if "is waiting to start" in text or "is not available" in text or "not found" in text:
            return Next.OVER if run.ended else Next.WAIT
    return Next.FAIL if failure.code < 500 and failure.code != 429 else Next.AGAIN


def after_end(run: Run, notice: str, *, follows: bool, is_last_look: bool, has_ended: bool) -> Next:
    """Return what to do after a stream that has ended cleanly.

    Args:
        run: The run, as its pod is known by now.
        notice: What kubelet said instead of lines, if it did.
        follows: Whether the stream was to go on with the run.
        is_last_look: Whether it was asked for what there is, after the run's end.
        has_ended: Whether this stream or one before it has come to its end with the container's.
    """
    if is_removed(notice, run):
        return Next.OVER if has_ended else Next.LOST
    if notice:
        return Next.AGAIN
    if is_last_look or not follows:
        return Next.OVER
    if run.gone:
        return Next.OVER  # kubelet had sent all before it took the container away
    # A kubelet that is stopped ends its streams as cleanly as a container that exits.
    return Next.ONCE_MORE if run.ended else Next.AGAIN


def is_removed(notice: str, run: Run) -> bool:
    """Tell whether kubelet has said that a run's log is there no more."""
    # While a container runs, its file is away for a moment at each rotation.
    return notice.startswith(REMOVED) or (run.ended and notice.startswith(NO_FILE))


def is_about_streams(failure: ApiFailure) -> bool:
    """Tell whether a request was refused because the server does not tell stdout and stderr apart."""
    return failure.code == 422 and "stream" in failure.message
