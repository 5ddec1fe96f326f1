"""The emulator against the documented facts: what it shows must be what a client of the real service may meet."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest
from docker.errors import DockerException

from tests.aws_batch.conftest import in_bulk
from tests.aws_emulator.__main__ import node_runner, paced
from tests.aws_emulator.cloud import Cloud
from tests.aws_emulator.errors import ApiError
from tests.aws_emulator.processes import run_process
from tests.aws_emulator.server import Server


class Console:
    """A cloud whose time is moved by hand, and the few calls that these tests make."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0
        self.cloud = Cloud(clock=lambda: self.now)

    def __call__(self, service: str, operation: str, **request: Any) -> dict[str, Any]:
        answer = self.cloud.call(service, operation, request)
        assert [] == self.cloud.traffic.problems
        return answer

    def submit(self, *steps: list[Any], nodes: int = 0, retries: int = 0, **more: Any) -> str:
        container = {"image": "script", "command": [json.dumps(steps)]}
        definition: dict[str, Any] = {"type": "container", "containerProperties": container}
        if nodes:
            ranges = [{"targetNodes": f"0:{nodes - 1}", "container": container}]
            definition = {
                "type": "multinode",
                "nodeProperties": {"numNodes": nodes, "mainNode": 0, "nodeRangeProperties": ranges},
            }
        made = self("batch", "registerjobdefinition", jobDefinitionName="d", **definition)
        job = {"jobName": "job", "jobQueue": "default", "jobDefinition": made["jobDefinitionArn"], **more}
        if retries:
            job["retryStrategy"] = {"attempts": retries}
        return str(self("batch", "submitjob", **job)["jobId"])

    def show(self, *ids: str) -> list[dict[str, Any]]:
        return list(self("batch", "describejobs", jobs=list(ids))["jobs"])

    def wait(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def console() -> Console:
    return Console()


def test_states_follow_each_other(console: Console) -> None:
    job = console.submit(["sleep", 1])
    seen: list[Any] = []
    for _ in range(300):
        status = console.show(job)[0]["status"]
        if [status] != seen[-1:]:
            seen.append(status)
        console.wait(0.01)

    assert ["SUBMITTED", "RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED"] == seen


def test_the_main_node_alone_decides(console: Console) -> None:
    died = console.submit(["sleep", 1], ["exit", 0], nodes=3)
    console.wait(0.5)
    assert "RUNNING" == console.show(died)[0]["status"]
    job = console.cloud.batch.jobs[died]
    child = job.nodes[2].current
    assert child is not None
    console.cloud.life.node_ended(job, job.nodes[2], child, 9, None)
    assert ["RUNNING", "RUNNING", "RUNNING", "FAILED"] == [
        row["status"] for row in console.show(died, *(f"{died}#{k}" for k in range(3)))
    ]
    console.wait(5)

    parent, main, one, two = console.show(died, *(f"{died}#{k}" for k in range(3)))
    assert ("SUCCEEDED", "SUCCEEDED", "FAILED") == (parent["status"], main["status"], two["status"])
    assert one["attempts"][0]["container"]["exitCode"] in (0, 143)
    assert len({row["container"]["logStreamName"] for row in (main, one, two)}) == 3


def test_attempts_hold_what_has_ended_and_each_has_its_stream(console: Console) -> None:
    job = console.submit(["sleep", 1], ["exit", [1, 0]], retries=2)
    console.wait(0.5)
    assert [] == console.show(job)[0]["attempts"]
    first = console.show(job)[0]["container"]["logStreamName"]
    console.wait(5)

    ended = console.show(job)[0]
    assert [1, 0] == [attempt["container"]["exitCode"] for attempt in ended["attempts"]]
    assert first == ended["attempts"][0]["container"]["logStreamName"] != ended["container"]["logStreamName"]
    assert "Essential container in task exited" == ended["statusReason"]


def test_terminating_says_so_and_waits_for_the_grace(console: Console) -> None:
    job = console.submit(["ignore_term"], ["sleep", 100])
    console.wait(0.5)
    console("batch", "terminatejob", jobId=job, reason="enough")
    console.wait(1)
    assert ("RUNNING", True) == (console.show(job)[0]["status"], console.show(job)[0]["isTerminated"])
    console.wait(2)

    ended = console.show(job)[0]
    assert ("FAILED", "enough", 137) == (ended["status"], ended["statusReason"], ended["container"]["exitCode"])
    console("batch", "terminatejob", jobId=job, reason="again")
    console("batch", "terminatejob", jobId="11111111-2222-3333-4444-555555555555", reason="nobody")


def test_a_time_limit_is_not_retried(console: Console) -> None:
    job = console.submit(["sleep", 1000], retries=3, timeout={"attemptDurationSeconds": 60})
    console.wait(59)
    assert "RUNNING" == console.show(job)[0]["status"]
    console.wait(5)

    assert ("FAILED", "Job attempt duration exceeded timeout") == (
        console.show(job)[0]["status"],
        console.show(job)[0]["statusReason"],
    )


def test_lists_have_pages_filters_and_a_default_status(console: Console) -> None:
    ids = [console.submit(["sleep", 100]) for _ in range(120)]
    console.wait(1)
    running = console("batch", "listjobs", jobQueue="default")
    named = console("batch", "listjobs", jobQueue="default", filters=[{"name": "JOB_NAME", "values": ["JO*"]}])
    rest = console(
        "batch",
        "listjobs",
        jobQueue="default",
        filters=[{"name": "JOB_NAME", "values": ["JO*"]}],
        nextToken=named["nextToken"],
    )

    assert ids[::-1] == [row["jobId"] for row in running["jobSummaryList"]]
    assert (100, 20) == (len(named["jobSummaryList"]), len(rest["jobSummaryList"]))
    assert "startedAt" not in named["jobSummaryList"][0]
    assert "tags" not in running["jobSummaryList"][0]


@pytest.mark.parametrize(
    ("operation", "request_", "message"),
    [
        ("describejobs", {"jobs": ["x"] * 101}, "100"),
        ("listjobs", {}, "Exactly one"),
        ("listjobs", {"jobQueue": "default", "filters": [{"name": "JOB_NAME"}, {"name": "JOB_NAME"}]}, "one filter"),
        ("listjobs", {"jobQueue": "nowhere"}, "can not be found"),
        ("submitjob", {"jobName": "x", "jobQueue": "default", "jobDefinition": "nothing"}, "can not be found"),
        pytest.param("terminatejobs", {"jobs": ["x"] * 51, "reason": "r"}, "50", marks=in_bulk),
        ("describejobs", {"jobs": "x"}, "Invalid type"),
        ("describejobs", {"jobs": [], "surprise": 1}, "surprise"),
    ],
)
def test_refusals(console: Console, operation: str, request_: dict[str, Any], message: str) -> None:
    with pytest.raises(ApiError, match=message):
        console("batch", operation, **request_)


def test_streams_come_with_their_first_line_and_queries_want_them_all(console: Console) -> None:
    job = console.submit(["sleep", 1], ["line", "hello"], ["sleep", 9])
    console.wait(0.5)
    name = console.show(job)[0]["container"]["logStreamName"]
    where = {"logGroupName": "/aws/batch/job", "logStreamNames": [name]}
    with pytest.raises(ApiError, match="log stream does not exist"):
        console("logs", "filterlogevents", **where)
    console.wait(1)

    assert ["hello"] == [event["message"] for event in console("logs", "filterlogevents", **where)["events"]]
    with pytest.raises(ApiError, match="log stream does not exist"):
        console("logs", "filterlogevents", **{**where, "logStreamNames": [name, "other"]})


def test_a_token_stays_the_same_at_the_end_and_late_lines_lie_behind_it(console: Console) -> None:
    where: dict[str, Any] = {"logGroupName": "/aws/batch/job", "logStreamName": "s", "startFromHead": True}
    for number in range(5):
        console.cloud.events.put("/aws/batch/job", "s", 1000 + number, str(number), 2000)
    first = console("logs", "getlogevents", limit=3, **where)
    second = console("logs", "getlogevents", nextToken=first["nextForwardToken"], **where)
    end = console("logs", "getlogevents", nextToken=second["nextForwardToken"], **where)
    console.cloud.events.put("/aws/batch/job", "s", 1000, "late", 2001)
    after = console("logs", "getlogevents", nextToken=second["nextForwardToken"], **where)
    back = console("logs", "getlogevents", **{**where, "startFromHead": False}, limit=2)

    assert [["0", "1", "2"], ["3", "4"], [], []] == [
        [event["message"] for event in page["events"]] for page in (first, second, end, after)
    ]
    assert second["nextForwardToken"] == end["nextForwardToken"]
    assert ["3", "4"] == [event["message"] for event in back["events"]]
    console.cloud.events.expire_tokens()
    with pytest.raises(ApiError, match="expired"):
        console("logs", "getlogevents", nextToken=second["nextForwardToken"], **where)


def test_limits_are_kept_and_calls_counted(console: Console) -> None:
    console.cloud.traffic.throttle(DescribeJobQueues=(1, 2))
    for _ in range(2):
        console("batch", "describejobqueues")
    with pytest.raises(ApiError) as caught:
        console("batch", "describejobqueues")
    console.wait(1.0)
    console("batch", "describejobqueues")

    assert (429, 4, 1) == (
        caught.value.status,
        console.cloud.traffic.calls["DescribeJobQueues"],
        console.cloud.traffic.throttled["DescribeJobQueues"],
    )


def test_the_knobs_have_the_names_that_the_first_sketch_of_the_emulator_gave_them(server: Server) -> None:
    def ask(method: str, knob: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{server.url}/moto-api/plus/{knob}", data, method=method)
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    ask("POST", "throttle", {"DescribeJobs": [1, 2]})
    server.cloud.traffic.calls["DescribeJobs"] = 7

    assert {"DescribeJobs": 7} == ask("GET", "calls")
    assert {"DescribeJobs": 7} == ask("DELETE", "calls")
    assert {} == ask("GET", "calls")
    for _ in range(2):
        server.cloud.traffic.enter("batch", "DescribeJobs")
    with pytest.raises(ApiError):
        server.cloud.traffic.enter("batch", "DescribeJobs")


def test_the_pace_comes_from_the_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PLUS_INGEST_DELAY": "1.5", "PLUS_STOP_TIMEOUT": "9", "PLUS_RUNNABLE": "0.2"}.items():
        monkeypatch.setenv(name, value)

    pace = paced(Cloud()).pace

    assert (1.5, 9.0, 0.2) == (pace.ingest, pace.grace, pace.runnable)


def test_nodes_are_processes_where_no_docker_daemon_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")

    assert run_process is node_runner()
    assert run_process is node_runner("none")
    with pytest.raises(DockerException):
        node_runner("tcp://127.0.0.1:1")
