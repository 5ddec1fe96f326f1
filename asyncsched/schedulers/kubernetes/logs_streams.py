"""Build log requests, and find out whether the cluster can separate stdout from stderr."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from asyncsched.errors import SchedulerError
from asyncsched.schedulers.kubernetes import lookup_paths as paths
from asyncsched.schedulers.kubernetes import names
from asyncsched.schedulers.kubernetes.errors import failure_of
from asyncsched.schedulers.kubernetes.logs_table import is_about_streams
from asyncsched.specs.stream import Stream

if TYPE_CHECKING:
    from asyncsched.logs.query import LogQuery
    from asyncsched.schedulers.kubernetes.client import KubeClient
    from asyncsched.schedulers.kubernetes.logs_runs import Run

__all__ = ["check_streams", "is_wanted", "parameters"]

FIRST_VERSION = (1, 32)
"""Older servers ignore the parameter `stream`, and send both."""

_STREAMS = {Stream.STDOUT: "Stdout", Stream.STDERR: "Stderr"}
_SECOND = 1_000_000_000


def parameters(run: Run, query: LogQuery, since_ns: int | None, *, follow: bool, tail: bool) -> dict[str, str]:
    """Return the parameters of a log request.

    Args:
        run: The run to read.
        query: The query.
        since_ns: The start; the server truncates it to whole seconds.
        follow: Whether to follow new lines.
        tail: Whether the last lines are enough.
    """
    asked = {"container": names.CONTAINER, "timestamps": "true"}
    if follow:
        asked["follow"] = "true"
    if run.is_previous:
        asked["previous"] = "true"
    if since_ns is not None:
        asked["sinceTime"] = datetime.fromtimestamp(since_ns // _SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if query.streams is not Stream.COMBINED:
        asked["stream"] = _STREAMS[query.streams]
    elif tail and query.tail_lines is not None and query.until_ns is None:
        asked["tailLines"] = str(max(query.tail_lines, 1))  # one line is needed to know where to continue
    return asked


def is_wanted(run: Run, query: LogQuery) -> bool:
    """Return whether a run may have lines that match the query."""
    if query.attempts is not None and run.attempt not in query.attempts:
        return False
    record = run.record()
    if query.since_ns is None or record is None or record.finished_at is None or not run.ended:
        return True
    return (record.finished_at.timestamp() + 1) * 1e9 >= query.since_ns


async def check_streams(client: KubeClient, namespace: str, name: str, stream: Stream) -> None:
    """Raise ValueError if the cluster cannot separate stdout from stderr.

    The server checks a request's parameters before it looks for the pod, so a request for any pod shows it.
    """
    try:
        async with client.stream(
            f"{paths.pods(namespace)}/{name}/log", {"stream": _STREAMS[stream], "limitBytes": "1"}
        ):
            pass
    except SchedulerError as error:
        failure = failure_of(error)
        if failure is None or failure.code not in (400, 404, 422):
            raise
        if is_about_streams(failure):
            raise ValueError(_refusal(stream, failure.message)) from error
    if await client.discovery.version() < FIRST_VERSION:
        raise ValueError(_refusal(stream, "its version is older than 1.32"))


def _refusal(stream: Stream, why: str) -> str:
    return (
        f"this cluster cannot separate stdout from stderr ({why}); got streams={stream}: use streams=Stream.COMBINED, "
        "or ask an administrator to turn on the feature gate PodLogsQuerySplitStreams"
    )
