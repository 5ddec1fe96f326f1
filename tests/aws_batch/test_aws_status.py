"""What AWS says of a job, as the state of an app."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from asyncsched.schedulers.aws_batch.logs_streams import LogStreamRefs
from asyncsched.schedulers.aws_batch.status import STATES, describe_app, job_state
from asyncsched.specs import AppState, BindMount, DeviceMount, FailureCause, Secret, SecretRef, VolumeMount
from tests.aws_emulator import shapes

JOB: dict[str, Any] = {
    "jobId": "11111111-2222-3333-4444-555555555555",
    "jobArn": "arn:aws:batch:eu-west-1:1:job/11111111-2222-3333-4444-555555555555",
    "jobName": "app-x",
    "jobQueue": "arn:aws:batch:eu-west-1:1:job-queue/torchx",
    "jobDefinition": "arn:aws:batch:eu-west-1:1:job-definition/asx-app:1",
    "createdAt": 1_700_000_000_000,
    "startedAt": 1_700_000_001_000,
    "status": "RUNNING",
}


def row(**more: Any) -> dict[str, Any]:
    return {**JOB, **more}


def test_the_table_holds_every_documented_status() -> None:
    status = shapes.operations("batch")["listjobs"].input_shape.members["jobStatus"]

    assert set(status.enum) == set(STATES)


@pytest.mark.parametrize(
    ("job", "state"),
    [
        *((row(status=name), state) for name, state in STATES.items()),
        (row(status="FAILED", isTerminated=True), AppState.CANCELLED),
        (row(status="FAILED", isCancelled=True), AppState.CANCELLED),
        (row(status="FAILED", statusReason="cancelled through asyncsched"), AppState.CANCELLED),
        (row(status="FAILED", statusReason="Host EC2 (instance i-1) terminated."), AppState.FAILED),
        (row(status="SUCCEEDED", isTerminated=True), AppState.SUCCEEDED),
        (row(status="PENDING", arrayProperties={"size": 2, "statusSummary": {"RUNNING": 1}}), AppState.RUNNING),
        (row(status="PENDING", arrayProperties={"size": 2, "statusSummary": {"RUNNING": 0}}), AppState.PENDING),
    ],
)
def test_states(job: dict[str, Any], state: AppState) -> None:
    assert state is job_state(job)


def test_a_status_that_is_new_is_unknown_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        states = {job_state(row(status="DREAMING")) for _ in range(3)}

    assert {AppState.UNKNOWN} == states
    assert ["DREAMING"] == [record.getMessage().rpartition(" ")[2] for record in caplog.records]


def test_a_failure_tells_code_reason_and_signal() -> None:
    container = {"exitCode": 137, "reason": "OutOfMemoryError: Container killed due to memory usage"}
    found = describe_app(
        row(status="FAILED", statusReason="Essential container in task exited", container=container), {}
    )
    replica = found.replicas[0]

    assert (AppState.FAILED, 137, 9) == (replica.state, replica.exit_code, replica.signal)
    assert "Essential container in task exited: OutOfMemoryError" in found.msg
    assert "exit code 137" in found.msg


EXITED = "Essential container in task exited"
SPOT = {"attempts": 2, "evaluateOnExit": [{"onExitCode": "0"}, {"onStatusReason": "host ec2*", "action": "retry"}]}


@pytest.mark.parametrize(
    ("job", "cause"),
    [
        (row(), None),
        (row(status="SUCCEEDED", statusReason=EXITED), None),
        (row(status="FAILED", statusReason=EXITED, container={"exitCode": 3}), FailureCause.EXIT),
        (row(status="FAILED", statusReason=EXITED, container={"exitCode": 139}), FailureCause.SIGNAL),
        (
            row(
                status="FAILED", statusReason=EXITED, container={"exitCode": 137, "reason": "OutOfMemoryError: killed"}
            ),
            FailureCause.OOM,
        ),
        (
            row(status="FAILED", statusReason="Job attempt duration exceeded timeout", container={"exitCode": 143}),
            FailureCause.TIMEOUT,
        ),
        (row(status="FAILED", statusReason="Host EC2 (instance i-1) terminated."), FailureCause.NODE),
        (
            row(status="FAILED", statusReason="Host EC2 (instance i-1) terminated.", retryStrategy=SPOT),
            FailureCause.PREEMPTED,
        ),
        (row(status="FAILED", statusReason="Your Spot Task was interrupted."), FailureCause.PREEMPTED),
        (
            row(
                status="FAILED",
                statusReason="Task failed to start",
                container={"reason": "CannotPullContainerError: x"},
            ),
            FailureCause.IMAGE,
        ),
        (
            row(
                status="FAILED", container={"reason": 'CannotStartContainerError: exec: "x": executable file not found'}
            ),
            FailureCause.IMAGE,
        ),
        (row(status="FAILED", container={"reason": "CannotCreateContainerError: conflict"}), FailureCause.CONFIG),
        (
            row(status="FAILED", statusReason="ResourceInitializationError: unable to pull secrets or registry auth"),
            FailureCause.CONFIG,
        ),
        (row(status="FAILED", statusReason="DockerTimeoutError: no answer"), FailureCause.NODE),
        (row(status="FAILED", statusReason="Dependent Job failed"), FailureCause.UNKNOWN),
        (row(status="FAILED"), FailureCause.UNKNOWN),
        (row(status="FAILED", isTerminated=True, statusReason="OutOfMemory"), FailureCause.CANCELLED),
        (
            row(status="RUNNABLE", statusReason="MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - x"),
            FailureCause.UNSCHEDULABLE,
        ),
        (row(status="RUNNABLE", statusReason="CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY"), FailureCause.UNSCHEDULABLE),
        (row(status="RUNNABLE", statusReason="MISCONFIGURATION: the vCPU quota of the account"), FailureCause.QUOTA),
        (row(status="RUNNABLE", statusReason="Host EC2 (instance i-1) terminated."), None),
        (row(status="DREAMING", statusReason="CAPACITY:x"), None),
    ],
)
def test_causes(job: dict[str, Any], cause: FailureCause | None) -> None:
    found = describe_app(job, {})

    assert (cause, [cause]) == (found.cause, [replica.cause for replica in found.replicas])


def test_a_job_of_several_nodes_has_the_cause_of_its_own_row_and_else_that_of_a_node() -> None:
    nodes = dict([node(0, status="FAILED", container={"exitCode": 3}), node(1, status="SUCCEEDED")])
    timed_out = row(status="FAILED", statusReason="Job attempt duration exceeded timeout", nodeProperties=NODES)
    silent = row(status="FAILED", nodeProperties=NODES)
    found = [describe_app(job, nodes) for job in (timed_out, silent)]

    assert [FailureCause.TIMEOUT, FailureCause.EXIT] == [app.cause for app in found]
    assert [FailureCause.EXIT, None, FailureCause.TIMEOUT] == [replica.cause for replica in found[0].replicas]


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - x", "ask for less"),
        ("MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE - x", "maxvCpus"),
        ("MISCONFIGURATION:SERVICE_ROLE_PERMISSIONS - x", "service role"),
        ("CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - x", "other types"),
        ("something new", ""),
    ],
)
def test_a_stuck_job_says_why_and_what_helps(reason: str, advice: str) -> None:
    message = describe_app(row(status="RUNNABLE", statusReason=reason), {}).msg

    assert reason in message
    assert advice in message


@pytest.mark.parametrize(
    ("status", "ended", "restarts"),
    [("RUNNING", 0, 0), ("RUNNING", 2, 2), ("RUNNABLE", 1, 1), ("FAILED", 3, 2), ("SUCCEEDED", 1, 0)],
)
def test_restarts_count_attempts(status: str, ended: int, restarts: int) -> None:
    attempts = [{"stoppedAt": 1, "container": {"exitCode": 1}}] * ended

    assert restarts == describe_app(row(status=status, attempts=attempts), {}).num_restarts


def test_an_attempt_that_still_runs_is_not_a_restart() -> None:
    """Some servers list the running attempt too."""
    assert 0 == describe_app(row(attempts=[{"startedAt": 1, "container": {}}]), {}).num_restarts


NODES = {
    "numNodes": 3,
    "mainNode": 0,
    "nodeRangeProperties": [
        {
            "targetNodes": "0",
            "container": {"image": "a", "environment": [{"name": "TORCHX_ROLE_NAME", "value": "head"}]},
        },
        {"targetNodes": "1:", "container": {"image": "b"}},
    ],
}


def node(index: int, **more: Any) -> tuple[str, dict[str, Any]]:
    identifier = f"{JOB['jobId']}#{index}"
    return identifier, row(jobId=identifier, **more)


def test_replicas_are_numbered_in_their_role() -> None:
    nodes = dict(
        [
            node(0, container={"networkInterfaces": [{"privateIpv4Address": "10.0.0.7"}]}),
            node(1, status="FAILED", container={"exitCode": 3}),
        ]
    )
    found = describe_app(row(nodeProperties=NODES), nodes)

    assert [
        ("head", 0, AppState.RUNNING, "10.0.0.7", None),
        ("group-1", 0, AppState.FAILED, "", 3),
        ("group-1", 1, AppState.PENDING, "", None),
    ] == [(r.role, r.id, r.state, r.hostname, r.exit_code) for r in found.replicas]
    assert [("head", 1, "a"), ("group-1", 2, "b")] == [(r.name, r.num_replicas, r.image) for r in found.roles]
    assert (
        found.ui_url
        == f"https://eu-west-1.console.aws.amazon.com/batch/home?region=eu-west-1#jobs/mnp-job/{JOB['jobId']}"
    )


def test_a_cancelled_app_has_no_failed_replicas() -> None:
    nodes = dict([node(0, status="FAILED", container={"exitCode": 143}), node(1, status="SUCCEEDED")])
    found = describe_app(row(status="FAILED", isTerminated=True, nodeProperties=NODES), nodes)

    assert [AppState.CANCELLED, AppState.SUCCEEDED, AppState.CANCELLED] == [r.state for r in found.replicas]


def test_a_job_that_somebody_else_made_is_described_too() -> None:
    found = describe_app(row(container={"image": "i", "command": ["x", "y"], "vcpus": 2, "memory": 512}), {})

    assert ("torchx:app-x", JOB["jobId"], "app-x", "") == (found.app_id, found.native_id, found.name, found.session)
    assert ("app-x", "x", ["y"], 2, 512) == (
        found.roles[0].name,
        found.roles[0].entrypoint,
        found.roles[0].args,
        found.roles[0].resource.cpu,
        found.roles[0].resource.memMB,
    )


def test_variables_come_back_as_secrets_and_mounts_as_they_were() -> None:
    container = {
        "environment": [{"name": "X", "value": "1"}, {"name": "TORCHX_ROLE_NAME", "value": "main"}],
        "volumes": [
            {"name": "a", "host": {"sourcePath": "/s"}},
            {"name": "b", "efsVolumeConfiguration": {"fileSystemId": "fs-1"}},
        ],
        "mountPoints": [
            {"sourceVolume": "a", "containerPath": "/d", "readOnly": True},
            {"sourceVolume": "b", "containerPath": "/e"},
        ],
        "linuxParameters": {"devices": [{"hostPath": "/dev/x", "permissions": ["READ"]}], "sharedMemorySize": 128},
        "resourceRequirements": [{"type": "MEMORY", "value": "128"}],
    }
    role = describe_app(row(container=container), {}).roles[0]

    assert {"X": Secret("1")} == role.env  # the other one is ours, and set by every submit
    assert [BindMount("/s", "/d", True), VolumeMount("fs-1", "/e"), DeviceMount("/dev/x", "/dev/x", "r")] == role.mounts


def test_secrets_come_back_as_what_names_them() -> None:
    vault = "arn:aws:secretsmanager:eu-west-1:1:secret:login-AbCdEf"
    sources = {"WHOLE": vault, "PASS": f"{vault}:password::", "OLD": f"{vault}::AWSPREVIOUS:", "PARAMETER": "/a/b"}
    container = {"secrets": [{"name": name, "valueFrom": source} for name, source in sources.items()]}
    env = describe_app(row(container=container), {}).roles[0].env

    assert {
        "WHOLE": (vault, ""),
        "PASS": (vault, "password"),
        "OLD": (sources["OLD"], ""),
        "PARAMETER": ("/a/b", ""),
    } == {name: (value.name, value.key) for name, value in env.items() if isinstance(value, SecretRef)}


@pytest.mark.parametrize(
    ("partition", "console"),
    [("aws-cn", "console.amazonaws.cn"), ("aws-us-gov", "console.amazonaws-us-gov.com"), ("aws-new", None)],
)
def test_consoles_of_partitions(partition: str, console: str | None) -> None:
    url = describe_app(row(jobArn=f"arn:{partition}:batch:r:1:job/x"), {}).ui_url

    assert (console is None) == (url is None)
    assert console is None or console in str(url)


@pytest.mark.parametrize(
    "attempt",
    [
        {"container": {"logStreamName": "s1"}},
        {"container": {}, "taskProperties": [{"containers": [{"name": "main", "logStreamName": "s1"}]}]},
    ],
)
@pytest.mark.parametrize(
    "present",
    [
        {"container": {"logStreamName": "s2"}},
        {"container": {}, "ecsProperties": {"taskProperties": [{"containers": [{"logStreamName": "s2"}]}]}},
    ],
)
def test_streams_are_found_wherever_they_stand(attempt: dict[str, Any], present: dict[str, Any]) -> None:
    places = LogStreamRefs(row(attempts=[attempt], **present), {})

    assert [(0, "s1"), (1, "s2")] == [(place.attempt, place.stream) for _, place in places]


def test_containers_of_one_task_are_named() -> None:
    containers = [{"name": "main", "logStreamName": "a"}, {"name": "side", "logStreamName": "b"}]
    job = row(container={}, ecsProperties={"taskProperties": [{"containers": containers}]})

    assert [("main", "a"), ("side", "b")] == [(place.container, place.stream) for _, place in LogStreamRefs(job, {})]
