"""The table of answers to a request of a log, row by row."""

from __future__ import annotations

from typing import Any

import pytest

from asyncsched.schedulers.kubernetes.errors import ApiFailure
from asyncsched.schedulers.kubernetes.logs_runs import Run
from asyncsched.schedulers.kubernetes.logs_table import Next, after_end, after_refusal, is_about_streams
from asyncsched.schedulers.kubernetes.status_pods import ContainerRecord, PodRecord

REFUSED = "dial tcp 10.244.7.1:10250: connect: connection refused"
FORBIDDEN = 'PodLogOptions "g" is invalid: stream: Forbidden: may not be specified'


NOT_BEFORE = 'previous terminated container "main" in pod "p" not found'
UNKNOWN = 'pod "p" cannot be found - no logs available'
NOT_YET = 'container "main" in pod "p" is waiting to start: '


def run(phase: Any = None, *, pod_phase: str = "Running", restarts: int = 0, gone: bool = False) -> Run:
    """Return a run whose container is in this phase, or was never told of."""
    container = None if phase is None else ContainerRecord(phase=phase, restart_count=restarts)
    pod = PodRecord(namespace="d", app="a", name="p", uid="u", phase=pod_phase, scheduled=True, container=container)
    return Run(pod, 0, 0, gone=gone)


@pytest.mark.parametrize(
    ("code", "message", "the_run", "has_ended", "expected"),
    [
        (404, "the server could not find the requested resource ( pods/log p)", run(), False, Next.WAIT),
        (404, 'pods "p" not found', run("running", gone=True), False, Next.LOST),
        (404, 'pods "p" not found', run("running", gone=True), True, Next.OVER),
        (400, UNKNOWN, run("running"), False, Next.WAIT),
        (400, UNKNOWN, run("terminated"), True, Next.WAIT),
        (400, UNKNOWN, run("running", gone=True), False, Next.LOST),
        (400, UNKNOWN, run("running", gone=True), True, Next.OVER),
        (400, NOT_YET + "ContainerCreating", run("waiting"), False, Next.WAIT),
        (
            400,
            NOT_YET + "image can't be pulled",
            run("waiting"),
            False,
            Next.WAIT,
        ),
        (400, 'container "main" in pod "p" is not available', run("waiting"), False, Next.WAIT),
        (
            400,
            NOT_YET + "ContainerCreating",
            run("waiting", pod_phase="Failed"),
            False,
            Next.OVER,
        ),
        (400, NOT_BEFORE, run("running", restarts=1), False, Next.LOST),
        # All of it had come before the node took the container away.
        (400, NOT_BEFORE, run("running", restarts=1), True, Next.OVER),
        (400, "container main is not valid for pod p", run(), False, Next.FAIL),
        (403, "pods is forbidden", run(), False, Next.FAIL),
        (401, "Unauthorized", run(), False, Next.FAIL),
        (422, FORBIDDEN, run(), False, Next.FAIL),
        (429, "Too many requests, please try again later.", run(), False, Next.AGAIN),
        (500, f'Get "https://10.244.7.1:10250/containerLogs/": {REFUSED}', run("running"), False, Next.AGAIN),
        (503, "the server is currently unable to handle the request", run("running"), False, Next.AGAIN),
    ],
)
def test_each_refusal_has_one_meaning(code: int, message: str, the_run: Run, has_ended: bool, expected: Next) -> None:
    found = after_refusal(ApiFailure(code, "", message), the_run, has_ended=has_ended, has_begun=True)

    assert expected is found


def test_a_pod_that_is_gone_before_its_container_has_run_has_lost_nothing() -> None:
    failure = ApiFailure(404, "NotFound", 'pods "p" not found')

    assert Next.OVER is after_refusal(failure, run(gone=True), has_ended=False, has_begun=False)


@pytest.mark.parametrize(
    ("the_run", "notice", "follows", "is_last_look", "expected"),
    [
        # A kubelet that is stopped ends its streams as cleanly as a container that exits.
        (run("running"), "", True, False, Next.AGAIN),
        (run("terminated"), "", True, False, Next.ONCE_MORE),
        (run("terminated"), "", False, True, Next.OVER),
        (run("running", restarts=1), "", True, False, Next.ONCE_MORE),
        (run("running", gone=True), "", True, False, Next.OVER),
        (run("running"), "", False, False, Next.OVER),
        (run("running"), "failed to create fsnotify watcher: too many open files", True, False, Next.AGAIN),
        (run("terminated"), "failed to create fsnotify watcher: too many open files", True, False, Next.AGAIN),
        (run("running"), "rpc error: code = Unavailable", True, False, Next.AGAIN),
    ],
)
def test_each_clean_end_has_one_meaning(
    the_run: Run, notice: str, follows: bool, is_last_look: bool, expected: Next
) -> None:
    found = after_end(the_run, notice, follows=follows, is_last_look=is_last_look, has_ended=follows)

    assert expected is found


NO_CONTAINER = "unable to retrieve container logs for containerd://3f"
NO_FILE = 'failed to try resolving symlinks in path "/var/log/pods/0.log": lstat /var/log/pods/0.log: no such file'


@pytest.mark.parametrize("notice", [NO_CONTAINER, NO_FILE])
@pytest.mark.parametrize(("has_ended", "expected"), [(False, Next.LOST), (True, Next.OVER)])
def test_a_container_that_was_removed_has_lost_only_what_had_not_come_before(
    notice: str, has_ended: bool, expected: Next
) -> None:
    found = after_end(run("terminated"), notice, follows=False, is_last_look=True, has_ended=has_ended)

    assert expected is found


def test_a_file_that_is_not_there_while_the_container_runs_is_being_rotated() -> None:
    assert Next.AGAIN is after_end(run("running"), NO_FILE, follows=True, is_last_look=False, has_ended=False)


def test_a_refusal_of_streams_is_told_from_others() -> None:
    assert is_about_streams(ApiFailure(422, "Invalid", FORBIDDEN))
    assert not is_about_streams(ApiFailure(422, "Invalid", "sinceSeconds: Invalid value: -1"))
    assert not is_about_streams(ApiFailure(400, "BadRequest", "stream"))
