"""From what the daemon tells to states, without a daemon."""

from __future__ import annotations

import json
import logging
import math
from datetime import datetime
from typing import Any

import pytest

from asyncsched.schedulers.docker import names
from asyncsched.schedulers.docker.status import describe_app, list_row
from asyncsched.schedulers.docker.status_containers import by_app, last_run, needs_details, read_container, with_details
from asyncsched.specs import AppState, FailureCause


def entry(state: str, status: str = "", *, name: str = "", replica: int = 0, retries: int = 0) -> dict[str, Any]:
    spec = {"entrypoint": "run", "args": ["-v"], "num_replicas": 2}
    return {
        "Id": f"id{replica}",
        "Names": [f"/{name or f'app-x1-worker-{replica}'}"],
        "Image": "image:1",
        "State": state,
        "Status": status,
        "Created": 1_795_229_382 + replica,
        "Labels": {
            names.APP_ID: "app-x1",
            names.APP_NAME: "app",
            names.SESSION: "me",
            names.ROLE: "worker",
            names.ROLE_INDEX: "0",
            names.REPLICA: str(replica),
            names.SPEC: json.dumps(spec),
            **({names.RETRIES: str(retries)} if retries else {}),
        },
    }


@pytest.mark.parametrize(
    ("state", "status", "expected", "code"),
    [
        ("created", "Created", AppState.SUBMITTED, None),
        ("running", "Up 4 minutes", AppState.RUNNING, None),
        ("running", "Up 4 minutes (unhealthy)", AppState.RUNNING, None),
        ("paused", "Up 4 minutes (Paused)", AppState.PENDING, None),
        ("restarting", "Restarting (3) 1 second ago", AppState.PENDING, 3),
        ("removing", "Removal In Progress", AppState.PENDING, None),
        ("exited", "Exited (0) 5 days ago", AppState.SUCCEEDED, 0),
        ("exited", "Exited (137) 2 hours ago", AppState.FAILED, 137),
        ("dead", "Dead", AppState.FAILED, None),
    ],
)
def test_each_state_of_a_container(state: str, status: str, expected: AppState, code: int | None) -> None:
    found = describe_app("app-x1", [read_container(entry(state, status))])

    assert found is not None
    assert (expected, code) == (found.replicas[0].state, found.replicas[0].exit_code)


def test_a_state_that_nobody_knows(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        each_poll = [describe_app("app-x1", [read_container(entry("frozen"))]) for _ in range(3)]

    assert [AppState.UNKNOWN] * 3 == [found.state for found in each_poll if found is not None]
    assert 1 == len(caplog.messages)
    assert "unknown state 'frozen'" in caplog.text


def test_a_cancelled_container_says_so_by_its_name() -> None:
    cancelled = entry("exited", "Exited (143) 1 second ago", name="app-x1-worker-0.cancelled")
    finished = entry("exited", "Exited (0) 1 second ago", name="app-x1-worker-1", replica=1)
    found = describe_app("app-x1", [read_container(each) for each in (cancelled, finished)])

    assert found is not None
    assert AppState.CANCELLED is found.state
    assert [AppState.CANCELLED, AppState.SUCCEEDED] == [each.state for each in found.replicas]
    assert ("app-x1-worker-0", 15) == (found.replicas[0].hostname, found.replicas[0].signal)
    assert "cancelled; killed by SIGTERM, exit code 143" == found.replicas[0].reason


def test_a_stopped_one_does_not_hide_the_failure() -> None:
    stopped = entry("exited", "Exited (143) 1 second ago", name="app-x1-worker-0.stopped")
    failed = entry("exited", "Exited (2) 1 second ago", name="app-x1-worker-1", replica=1)
    found = describe_app("app-x1", [read_container(each) for each in (stopped, failed)])

    assert found is not None
    assert (AppState.FAILED, "worker/1: exit code 2") == (found.state, found.msg)


def test_details_are_asked_for_only_where_they_are_missed() -> None:
    assert not needs_details(read_container(entry("running", "Up 1 second")))
    assert not needs_details(read_container(entry("exited", "Exited (1) now")))
    assert needs_details(read_container(entry("exited", "Exited (137) now")))
    assert needs_details(read_container(entry("running", "Up 1 second", retries=1)))
    assert not needs_details(read_container(entry("created", "Created", retries=1)))
    assert not needs_details(read_container(entry("exited", "Exited (137) now", name="app-x1-worker-0.cancelled")))


def test_details_complete_the_list() -> None:
    inspected = {
        "Name": "/app-x1-worker-0",
        "RestartCount": 2,
        "State": {
            "Status": "exited",
            "ExitCode": 137,
            "OOMKilled": True,
            "Error": "",
            "StartedAt": "2026-11-21T02:49:45.181777452Z",
            "FinishedAt": "2026-11-21T02:49:45.38Z",
        },
    }
    container = with_details(read_container(entry("running", "Up 1 second", retries=2)), inspected)
    found = describe_app("app-x1", [container])

    assert found is not None
    replica = found.replicas[0]
    assert (AppState.FAILED, 137, 9, 2) == (replica.state, replica.exit_code, replica.signal, replica.num_restarts)
    assert "worker/0: out of memory: killed, exit code 137" == found.msg
    assert "2026-11-21T02:49:45.181777+00:00" == str(replica.started_at).replace(" ", "T")
    assert found.finished_at == replica.finished_at
    assert not needs_details(container)


def test_an_app_is_rebuilt_from_labels() -> None:
    containers = [read_container(entry("running", "Up 1 second", replica=k)) for k in (1, 0)]
    found = describe_app("app-x1", by_app(containers)["app-x1"])

    assert found is not None
    assert ("app", "me", [0, 1]) == (found.name, found.session, [each.id for each in found.replicas])
    (role,) = found.roles
    assert ("worker", "image:1", "run", ["-v"], 2) == (
        role.name,
        role.image,
        role.entrypoint,
        role.args,
        role.num_replicas,
    )
    assert "local_docker://me/app-x1" == list_row("local_docker", "app-x1", containers).app_handle


def test_an_image_keeps_the_name_that_it_was_asked_for_by() -> None:
    moved = entry("running", "Up 1 second")
    moved["Image"] = "sha256:0123"
    moved["Labels"][names.SPEC] = json.dumps({"image": "image:1"})
    found = describe_app("app-x1", [read_container(moved)])

    assert found is not None
    assert "image:1" == found.roles[0].image


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"resource": 3, "args": "x"}', '{"resource": {"cpu": "a"}}'])
def test_labels_that_somebody_else_has_written_break_nothing(text: str) -> None:
    strange = entry("exited", "Exited (0) now")
    strange["Labels"] |= dict.fromkeys((names.SPEC, names.METADATA, names.REMOVE_AFTER, names.RETRIES), text)
    strange["Labels"][names.REPLICA] = "first"
    strange["Labels"] = names.sent_labels(strange["Labels"], "app-x1-worker-0", "", terminal=False)
    container = read_container(strange)
    found = describe_app("app-x1", [container])

    assert found is not None
    assert (AppState.UNKNOWN, 0, ["worker"]) == (found.state, found.replicas[0].id, [r.name for r in found.roles])
    assert [] == found.roles[0].args
    assert isinstance(found.metadata, dict)
    assert container.remove_after == (7 if text == "7" else math.inf)


def test_foreign_containers_are_nobodys() -> None:
    foreign = {"Id": "x", "Names": ["/x"], "State": "running", "Status": "Up", "Created": 0, "Labels": None}

    assert {} == by_app([read_container(foreign)])
    assert describe_app("app-x1", []) is None


NEVER = "0001-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("started", "ended", "restarts", "status", "expected"),
    [
        (NEVER, NEVER, 0, "created", (0, 0)),
        ("2026-11-21T00:00:10Z", NEVER, 0, "running", ("09.925", 0)),
        ("2026-11-21T00:00:10.5Z", "2026-11-21T00:00:10.1Z", 1, "running", ("10.3", 1)),  # between the two runs
        ("2026-11-21T00:00:10Z", "2026-11-21T00:00:11Z", 1, "exited", ("09.925", 1)),  # it has ended
        ("2026-11-21T00:00:10Z", "2026-11-21T00:00:11Z", 2, "restarting", ("09.925", 1)),  # the next one is to come
        ("2026-11-21T00:00:10Z", "2026-11-21T00:00:09.9998Z", 2, "exited", ("09.925", 2)),  # it lasted a moment
    ],
)
def test_since_when_lines_are_of_the_last_run(
    started: str, ended: str, restarts: int, status: str, expected: tuple[str | int, int]
) -> None:
    state = {"StartedAt": started, "FinishedAt": ended, "Restarting": status == "restarting", "Status": status}
    since, number = last_run({"State": state, "RestartCount": restarts})

    begin = f"2026-11-21T00:00:{expected[0]}+00:00"
    assert expected[1] == number
    assert since == (round(datetime.fromisoformat(begin).timestamp() * 1000) * 1_000_000 if expected[0] else 0)


def inspection(**state: object) -> dict[str, Any]:
    return {"Name": "/app-x1-worker-0", "State": {"Status": "exited", "OOMKilled": False, "Error": "", **state}}


@pytest.mark.parametrize(
    ("state", "status", "details", "expected"),
    [
        ("running", "Up 1 second", None, None),
        ("created", "Created", None, None),
        ("exited", "Exited (0) now", None, None),
        ("exited", "Exited (3) now", None, FailureCause.EXIT),
        ("exited", "Exited (127) now", inspection(ExitCode=127), FailureCause.EXIT),
        ("exited", "Exited (143) now", None, FailureCause.SIGNAL),
        ("exited", "Exited (250) now", None, FailureCause.EXIT),
        ("exited", "Exited (137) now", inspection(ExitCode=137, OOMKilled=True), FailureCause.OOM),
        ("exited", "Exited (137) now", inspection(ExitCode=137), FailureCause.SIGNAL),
        ("exited", "Exited (128) now", inspection(ExitCode=128, Error="error mounting x"), FailureCause.CONFIG),
        ("exited", "Exited (127) now", inspection(ExitCode=127, Error='exec: "x": not found'), FailureCause.IMAGE),
        ("restarting", "Restarting (3) 1 second ago", None, FailureCause.EXIT),
        ("paused", "Up 1 second (Paused)", None, None),
        ("dead", "Dead", None, FailureCause.UNKNOWN),
        ("frozen", "", None, None),
    ],
)
def test_each_end_has_a_cause(
    state: str, status: str, details: dict[str, Any] | None, expected: FailureCause | None
) -> None:
    container = read_container(entry(state, status))
    assert needs_details(container) == (details is not None or state == "dead")
    found = describe_app("app-x1", [with_details(container, details) if details else container])

    assert found is not None
    assert (expected, expected) == (found.cause, found.replicas[0].cause)


def test_who_was_stopped_was_cancelled_and_does_not_hide_the_cause() -> None:
    stopped = entry("exited", "Exited (143) 1 second ago", name="app-x1-worker-0.stopped")
    failed = entry("exited", "Exited (2) 1 second ago", name="app-x1-worker-1", replica=1)
    found = describe_app("app-x1", [read_container(each) for each in (stopped, failed)])

    assert found is not None
    assert FailureCause.EXIT is found.cause
    assert [FailureCause.CANCELLED, FailureCause.EXIT] == [replica.cause for replica in found.replicas]
