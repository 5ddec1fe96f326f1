"""What a job's tags tell of its app's roles, also where there is no room for it, or where a stranger writes it."""

from __future__ import annotations

import base64
import dataclasses
import logging
import zlib
from random import Random
from typing import Any

import pytest

from asyncsched.errors import ConfigError
from asyncsched.schedulers import DescribeAppResponse
from asyncsched.schedulers.aws_batch.names_note import note_tags, read_note
from asyncsched.schedulers.aws_batch.status import describe_app
from asyncsched.specs import (
    AppDef,
    AppDryRunInfo,
    BindMount,
    DeviceMount,
    NotKept,
    Resource,
    RetryPolicy,
    Role,
    Secret,
    VolumeMount,
    reveal,
)
from asyncsched.specs.not_kept import NOT_KEPT
from tests.aws_batch.conftest import QUEUE, Virtual
from tests.aws_emulator import shapes
from tests.aws_emulator.model import Job

CFG = {"queue": QUEUE}
STEPS = '[["sleep", 5]]'

FULL = Role(
    "worker",
    "script",
    min_replicas=1,
    entrypoint="play",
    args=[STEPS, "${replica_id}", "$${app_id}"],
    env={"A": "1", "K": "${replica_id}", "EMPTY": ""},
    num_replicas=2,
    max_retries=2,
    retry_policy=RetryPolicy.REPLICA,
    resource=Resource(2, 0, 100, {"node.kubernetes.io/instance-type": "m5"}, {"vpc.amazonaws.com/efa": 1}),
    port_map={"http": 80},
    metadata={"a": {"b": [1]}},
    mounts=[BindMount("/a", "/b", read_only=True), VolumeMount("fs-1", "/c"), DeviceMount("/dev/null", "/dev/x")],
)
PLAIN = Role("main", "script", entrypoint="play", args=[STEPS], env={"A": "1"})


def noise(size: int) -> str:
    """Return text that cannot be compressed much."""
    return base64.b64encode(Random(size).randbytes(size)).decode()[:size]


async def described(virtual: Virtual, app_id: str) -> DescribeAppResponse:
    before = virtual.calls
    found = await virtual.scheduler().describe(app_id)

    assert found is not None
    assert virtual.calls - before <= 2  # its name is looked up, and then the job and its nodes
    return found


def sent(job: Job) -> list[Any]:
    """Return what the job's containers get of the service."""
    kept = ("command", "environment", "mountPoints", "volumes", "resourceRequirements", "linuxParameters", "secrets")
    return [{key: node.container.get(key) for key in kept} for node in job.nodes.values()]


async def test_a_described_app_submitted_again_is_the_same_job(virtual: Virtual) -> None:
    scheduler = virtual.scheduler()
    virtual.cloud.pace.starting = 1e9  # what it would run needs a shell
    plain = dataclasses.replace(PLAIN, resource=Resource(1, 0, 64, FULL.resource.capabilities))
    app = AppDef("app", [plain, FULL], metadata={"team": "blue"})
    cfg: dict[str, Any] = {**CFG, "spot_retries": 2}
    found = await described(virtual, await scheduler.submit(app, cfg))
    await scheduler.submit(AppDef(found.name, found.roles, metadata=found.metadata), cfg)
    first, second = virtual.cloud.jobs

    assert (app.roles, app.metadata) == (found.roles, found.metadata)
    assert str(sent(first)).replace(first.name, "NAME") == str(sent(second)).replace(second.name, "NAME")


async def test_no_secret_is_in_a_tag(virtual: Virtual) -> None:
    scheduler = virtual.scheduler()
    env = {"A_TOKEN": "marker", "B": Secret("marker"), "C": "c"}
    role = dataclasses.replace(PLAIN, env=env, args=[Secret("marker"), "A_KEY=marker", *PLAIN.args])
    app_id = await scheduler.submit(AppDef("app", [role], metadata={"PASSWORD": "marker", "team": "blue"}), CFG)
    found = await described(virtual, app_id)
    notes = [repr(read_note({"jobId": "x", "tags": job.tags}, 0)) for job in virtual.cloud.jobs]

    assert "'C': 'c'" in notes[0]
    assert [] == [text for text in (*notes, repr(virtual.cloud.jobs[0].tags)) if "marker" in text]
    assert ("blue", NotKept) == (found.metadata["team"], type(found.metadata["PASSWORD"]))
    assert [NotKept, NotKept, str] == [type(value) for value in found.roles[0].env.values()]
    assert [NotKept, NotKept, str] == [type(value) for value in found.roles[0].args]


async def test_metadata_that_say_a_secret_of_an_edited_request_are_in_no_tag(virtual: Virtual) -> None:
    scheduler = virtual.scheduler()
    info = await scheduler.submit_dryrun(AppDef("app", [PLAIN], metadata={"x": "at marker", "team": "blue"}), CFG)
    definition: Any = info.request.job_def
    definition["containerProperties"]["environment"].append({"name": "A_TOKEN", "value": Secret("marker")})
    found = await described(virtual, await scheduler.schedule(info))

    assert "marker" not in repr(virtual.cloud.jobs[0].tags)
    assert ("blue", NotKept) == (found.metadata["team"], type(found.metadata["x"]))


@pytest.mark.parametrize("large", ["env", "args"])
async def test_command_or_variables_beyond_the_tags_are_refused_until_they_are_filled_in(
    virtual: Virtual, large: str
) -> None:
    scheduler = virtual.scheduler()
    long = {"LONG": noise(4000)} if large == "env" else {}
    words = [noise(4000)] if large == "args" else []
    role = dataclasses.replace(FULL, args=["${app_id}", *words, STEPS], env={"ID": "${app_id}", "EMPTY": "", **long})
    app_id = await scheduler.submit(AppDef("app", [role]), CFG)
    (again,) = (await described(virtual, app_id)).roles

    kept = ("mounts", "port_map", "resource", "max_retries", "metadata", "retry_policy", "min_replicas")
    assert [getattr(role, name) for name in kept] == [getattr(again, name) for name in kept]
    assert app_id not in repr([again.args, *map(reveal, again.env.values())])
    with pytest.raises(ConfigError, match="role 'worker': not all of it was kept") as caught:
        await scheduler.submit(AppDef("app", [again]), CFG)
    assert f"{large} did not fit into the service's note" == caught.value.why
    again.args, again.env = role.args, role.env
    await scheduler.submit(AppDef("app", [again]), CFG)
    first, second = virtual.cloud.jobs
    assert str(sent(first)).replace(first.name, "NAME") == str(sent(second)).replace(second.name, "NAME")


def test_a_node_that_the_service_does_not_show_has_variables_all_the_same() -> None:
    container = {**BARE, "environment": [{"name": "TORCHX_ROLE_NAME", "value": "worker"}]}
    ranges = [{"targetNodes": "0:1", "container": container}]
    row = {
        "jobId": "11111111-2222-3333-4444-555555555555",
        "jobName": "job",
        "jobQueue": QUEUE,
        "status": "RUNNABLE",
        "nodeProperties": {"numNodes": 2, "mainNode": 0, "nodeRangeProperties": ranges},
    }
    (role,) = describe_app(row, {}).roles

    assert "AWS Batch shows env and args once the first node of the role exists" == role.env[NOT_KEPT].why  # type: ignore[attr-defined] # it is one


async def test_what_even_the_service_does_not_show_is_named(virtual: Virtual) -> None:
    scheduler = virtual.scheduler()
    role = dataclasses.replace(PLAIN, metadata={"long": noise(4000)})
    found = await described(virtual, await scheduler.submit(AppDef("app", [role]), CFG))

    assert "1" == reveal(found.roles[0].env["A"])
    with pytest.raises(ConfigError, match="role 'main': not all of it was kept") as caught:
        await scheduler.submit(AppDef("app", found.roles), CFG)
    assert "metadata did not fit into the service's note" == caught.value.why


async def test_without_room_for_a_note_what_the_service_shows_is_not_submitted_again(virtual: Virtual) -> None:
    scheduler = virtual.scheduler()
    app = AppDef("app", [dataclasses.replace(PLAIN, max_retries=1)], metadata={f"t{n}": "x" for n in range(44)})
    found = await described(virtual, await scheduler.submit(app, CFG))

    assert [] == [key for key in virtual.cloud.jobs[0].tags if key.startswith("asyncsched/role-")]
    assert app.metadata == found.metadata
    assert ("play", 1) == (found.roles[0].entrypoint, found.roles[0].max_retries)
    with pytest.raises(ConfigError, match="role 'main': not all of it was kept") as caught:
        await scheduler.submit(AppDef("app", found.roles), CFG)
    assert "env and args are shown as sent to AWS Batch" in str(caught.value.why)


async def test_a_job_that_was_made_by_hand_is_told_as_the_service_shows_it(virtual: Virtual) -> None:
    scheduler = virtual.scheduler()
    request = (await scheduler.submit_dryrun(AppDef("app", [PLAIN]), CFG)).request
    found = await described(virtual, await scheduler.schedule(AppDryRunInfo(request, repr)))
    await scheduler.submit(AppDef("app", found.roles), CFG)
    first, second = virtual.cloud.jobs

    assert {"A": "1"} == {name: reveal(value) for name, value in found.roles[0].env.items()}
    assert sent(first) == sent(second)


SAMPLES: dict[str, Any] = {"string": "x", "integer": 7, "boolean": True, "long": 7}


def sample(shape: Any) -> Any:
    """Return a value of a shape of the service, with all that it can hold."""
    if shape.type_name == "structure":
        return {name: sample(member) for name, member in shape.members.items()}
    if shape.type_name == "list":
        return [sample(shape.member)]
    if shape.type_name == "map":
        return {"key": sample(shape.value)}
    return shape.enum[0] if getattr(shape, "enum", None) else SAMPLES[shape.type_name]


DEFINITION = shapes.operations("batch")["registerjobdefinition"].input_shape.members["containerProperties"]
BARE: dict[str, Any] = {
    "image": "script",
    "command": ["play", STEPS],
    "environment": [{"name": "A", "value": "1"}],
    "resourceRequirements": [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "128"}],
    "linuxParameters": {"sharedMemorySize": 128},
}
VOLUME = {"mountPoints": [{"sourceVolume": "v", "containerPath": "/v"}]}
BY_HAND: list[tuple[str, dict[str, Any]]] = [
    *((name, {name: sample(shape)}) for name, shape in DEFINITION.members.items() if name not in {*BARE, *VOLUME}),
    *(
        (f"linuxParameters.{name}", {"linuxParameters": {"sharedMemorySize": 128, name: sample(shape)}})
        for name, shape in DEFINITION.members["linuxParameters"].members.items()
    ),
    ("the volume at /v", VOLUME),
    ("the volume at /v", {**VOLUME, "volumes": [{"name": "v"}]}),
    ("the volume at /v", {**VOLUME, "volumes": [{"name": "v", "host": {}}]}),
    *(
        (
            f"{name} of the volume at /v",
            {**VOLUME, "volumes": [{"name": "v", kind: {needed: "x", name: sample(shape)}}]},
        )
        for kind, needed in (("efsVolumeConfiguration", "fileSystemId"), ("host", "sourcePath"))
        for name, shape in DEFINITION.members["volumes"].member.members[kind].members.items()
    ),
    ("resourceRequirements.VCPU", {"resourceRequirements": [{"type": "VCPU", "value": "0.5"}]}),
]
CARRIED = {
    "instanceType",
    "linuxParameters.devices",
    "secrets",
    "vcpus",
    "memory",
    "volumes",
    "fileSystemId of the volume at /v",
    "sourcePath of the volume at /v",
}
"""What a role holds; volumes that nothing is mounted from are of no use."""


@pytest.mark.parametrize(("name", "more"), BY_HAND, ids=[name for name, _ in BY_HAND])
def test_what_no_role_holds_of_a_job_that_was_made_by_hand_is_named(name: str, more: dict[str, Any]) -> None:
    tags = {"asyncsched/version": "1", "asyncsched/by-hand": "true"}
    row = {"jobId": "x", "jobName": "job", "jobQueue": QUEUE, "status": "RUNNABLE", "tags": tags}
    for container in (
        {**BARE, **more},
        {"exitCode": 0, "privileged": False, "ulimits": [], "user": None, **BARE, **more},
    ):
        (role,) = describe_app({**row, "container": container}, {}).roles
        (by_stranger,) = describe_app({**row, "tags": {}, "container": container}, {}).roles

        assert role == by_stranger
        assert (0.5 if "VCPU" in name else 1) == role.resource.cpu
        why = getattr(role.env.get(NOT_KEPT), "why", "")
        assert (name in CARRIED) == (why == ""), why
        assert name in CARRIED or name in why


RETRIED = {"onStatusReason": "Host EC2*", "action": "RETRY"}
INDEX = {"name": "TORCHX_ROLE_IDX", "value": "7"}
TWO_NODES: dict[str, Any] = {
    "numNodes": 2,
    "nodeRangeProperties": [{"targetNodes": "0:1", "container": BARE}],
}


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("parameters", {"parameters": {"x": "1"}, "container": BARE}),
        ("eksProperties", {"eksProperties": {"podProperties": {"hostNetwork": True}}}),
        ("other containers", {"ecsProperties": {"taskProperties": [{"containers": [BARE, {**BARE, "name": "b"}]}]}}),
        ("ipcMode", {"ecsProperties": {"taskProperties": [{"ipcMode": "host", "containers": [BARE]}]}}),
        ("user", {"ecsProperties": {"taskProperties": [{"containers": [{**BARE, "user": "me"}]}]}}),
        ("arrayProperties", {"arrayProperties": {"size": 2}, "container": BARE}),
        ("environment.TORCHX_ROLE_IDX", {"container": {**BARE, "environment": [INDEX]}}),
        ("linuxParameters.sharedMemorySize, which is not set", {"container": {**BARE, "linuxParameters": {}}}),
        ("timeout", {"timeout": {"attemptDurationSeconds": 60}, "container": BARE}),
        ("schedulingPriority", {"schedulingPriority": 5, "container": BARE}),
        ("shareIdentifier", {"shareIdentifier": "mine", "container": BARE}),
        ("propagateTags", {"propagateTags": True, "container": BARE}),
        ("dependsOn", {"dependsOn": [{"jobId": "1"}], "container": BARE}),
        (
            "consumableResourceProperties",
            {"consumableResourceProperties": {"consumableResourceList": [{}]}, "container": BARE},
        ),
        (
            "retryStrategy.evaluateOnExit",
            {"retryStrategy": {"attempts": 2, "evaluateOnExit": [RETRIED]}, "container": BARE},
        ),
        ("somethingNew", {"somethingNew": {"a": 1}, "container": BARE}),
        ("nodeProperties.mainNode", {"nodeProperties": {"mainNode": 1, **TWO_NODES}}),
    ],
)
def test_what_is_not_in_the_container_is_named_too(name: str, more: dict[str, Any]) -> None:
    (role,) = describe_app({"jobId": "x", "jobName": "job", "jobQueue": QUEUE, "status": "RUNNABLE", **more}, {}).roles

    assert f"a role cannot have its {name}" in role.env[NOT_KEPT].why  # type: ignore[attr-defined] # it is one


def test_ranges_that_overlap_have_each_node_once_and_are_named() -> None:
    groups = [{"targetNodes": text, "container": BARE} for text in ("0:", "2:3", "3")]
    row = {"jobId": "x", "jobName": "job", "jobQueue": QUEUE, "status": "RUNNABLE"}
    found = describe_app({**row, "nodeProperties": {"numNodes": 6, "nodeRangeProperties": groups}}, {})

    assert [4, 1, 1] == [role.num_replicas for role in found.roles]
    assert [4, 1, 1] == [len(status.replicas) for status in found.roles_statuses]
    assert all("nodeRangeProperties, which overlap" in each.env[NOT_KEPT].why for each in found.roles)  # type: ignore[attr-defined] # it is one


@pytest.mark.parametrize(("host", "told"), [("localhost", {}), ("first", {"TORCHX_RANK0_HOST": "first"})])
def test_the_first_host_that_a_job_was_given_by_hand_is_told(host: str, told: dict[str, str]) -> None:
    container = {**BARE, "environment": [{"name": "TORCHX_RANK0_HOST", "value": host}]}
    row = {"jobId": "x", "jobName": "job", "jobQueue": QUEUE, "status": "RUNNABLE", "container": container}
    (role,) = describe_app(row, {}).roles

    assert told == role.env


@pytest.mark.parametrize(
    "written",
    [
        "no base64!",
        "AAAA",
        base64.b64encode(zlib.compress(b"[" * 100_000)).decode(),
        base64.b64encode(zlib.compress(b"{")).decode(),
        base64.b64encode(zlib.compress(b"{}")[:-5]).decode(),
        base64.b64encode(zlib.compress(b"\xff")).decode(),
    ],
    ids=["text", "no zlib", "bomb", "no json", "cut off", "no utf-8"],
)
async def test_what_a_stranger_writes_is_told_once_and_believed_never(
    virtual: Virtual, caplog: pytest.LogCaptureFixture, written: str
) -> None:
    scheduler = virtual.scheduler()
    app_id = await scheduler.submit(AppDef("app", [PLAIN]), CFG)
    virtual.cloud.jobs[0].tags["asyncsched/role-0.0"] = written
    with caplog.at_level(logging.WARNING, "asyncsched"):
        for _ in range(2):
            found = await described(virtual, app_id)

            assert ("main", "play") == (found.roles[0].name, found.roles[0].entrypoint)
    assert 1 == len([each for each in caplog.messages if "ignoring the note of a role of the job" in each])


def test_a_job_never_has_more_tags_than_there_is_room_for() -> None:
    app = AppDef("app", [dataclasses.replace(FULL, name=f"r{n}", env={"A": noise(900)}) for n in range(5)])
    for room in range(48):
        tags = note_tags(app, room)

        assert len(tags) <= room
        assert all(len(value) <= 256 for value in tags.values())
