"""The page on AWS Batch."""

from __future__ import annotations

from typing import Any

import pytest

from asyncsched.schedulers import Stream
from asyncsched.schedulers.aws_batch import AWSBatchScheduler, BatchJob, create_scheduler
from asyncsched.specs import AppDef, AppDryRunInfo, AppState, Resource, Role, parse_mounts
from tests.documents.table import row
from tests.documents.ways import Way

BACKEND = "aws_batch"

RESOURCE = Resource(cpu=2, gpu=1, memMB=3000)


class StandIn:
    """What a test gives in place of a client."""

    def submit_job(self, **_: Any) -> dict[str, Any]:
        raise AssertionError("a dry run sends nothing")

    def get_log_events(self, **_: Any) -> dict[str, Any]:
        raise AssertionError("a dry run reads nothing")


async def dry_run(way: Way, app: AppDef, **cfg: Any) -> BatchJob:
    scheduler = way.made(way.of(AWSBatchScheduler("session", StandIn(), StandIn())))
    info = await way(scheduler.submit_dryrun(app, {"queue": "torchx", **cfg}))
    request: BatchJob = info.request
    return request


def role(name: str = "main", **more: Any) -> Role:
    return Role(name, "alpine:latest", entrypoint="echo", args=["hello"], **{"resource": RESOURCE, **more})


@row("aws_batch", "A scheduler is made of a session's name, and clients if there are some.", backend=BACKEND)
async def made(way: Way) -> None:
    for scheduler in (
        AWSBatchScheduler("session"),
        AWSBatchScheduler("session", StandIn(), StandIn(), None),
        AWSBatchScheduler("session", client=StandIn(), log_client=StandIn(), docker_client=None),
        create_scheduler("session", StandIn(), StandIn(), None),
    ):
        assert (BACKEND, "session") == (way.made(way.of(scheduler)).backend, scheduler.session_name)


@row(
    "aws_batch",
    "A request has name, queue, share, job definition and the images to push, by position.",
    backend=BACKEND,
)
async def request(way: Way) -> None:
    asked = await dry_run(way, AppDef("job", [role(num_replicas=2), role("other")], metadata={"team": "blue"}))

    assert isinstance(asked, BatchJob)
    assert ("torchx", None, {}) == (asked.queue, asked.share_id, asked.images_to_push)
    assert asked.name.startswith("job-")
    definition: Any = asked.job_def
    assert ("multinode", 3, 0) == (
        definition["type"],
        definition["nodeProperties"]["numNodes"],
        definition["nodeProperties"]["mainNode"],
    )
    groups = definition["nodeProperties"]["nodeRangeProperties"]
    assert ["0:1", "2"] == [group["targetNodes"] for group in groups]
    container = groups[0]["container"]
    assert (["echo", "hello"], "alpine:latest") == (container["command"], container["image"])
    wanted = [{"type": "VCPU", "value": "2"}, {"type": "MEMORY", "value": "3000"}, {"type": "GPU", "value": "1"}]
    assert sorted(map(str, wanted)) == sorted(map(str, container["resourceRequirements"]))
    assert 3000 == container["linuxParameters"]["sharedMemorySize"]
    environment = {pair["name"]: pair["value"] for pair in container["environment"]}
    assert ("0", "main") == (environment["TORCHX_ROLE_IDX"], environment["TORCHX_ROLE_NAME"])
    assert "blue" == definition["tags"]["team"]
    by_hand = BatchJob(asked.name, asked.queue, asked.share_id, asked.job_def, asked.images_to_push)
    assert asked.name == by_hand.name
    assert "jobDefinitionName" in str(by_hand)


@row("aws_batch", "share_id is part of the job's name, and priority is set where it is.", backend=BACKEND)
async def share(way: Way) -> None:
    asked = await dry_run(way, AppDef("job", [role()]), share_id="fair", priority=10)

    assert ("fair", 10) == (asked.share_id, asked.job_def["schedulingPriority"])
    assert "-fair-" in asked.name
    assert "schedulingPriority" not in (await dry_run(way, AppDef("job", [role()]))).job_def


@row("aws_batch", "Roles of AWS, the user and privileged go into the job definition.", backend=BACKEND)
async def rights(way: Way) -> None:
    roles = {"job_role_arn": "arn:aws:iam::1:role/job", "execution_role_arn": "arn:aws:iam::1:role/exec"}
    asked = await dry_run(way, AppDef("job", [role()]), privileged=True, user="me", **roles)
    definition: Any = asked.job_def
    container = definition["containerProperties"]

    assert (True, *roles.values()) == (container["privileged"], container["jobRoleArn"], container["executionRoleArn"])
    assert "me" in definition["tags"].values()


@row("aws_batch", "Mounts are directories of the host, EFS volumes and devices.", backend=BACKEND)
async def mounts(way: Way) -> None:
    wanted = parse_mounts(
        [
            *("type=bind", "src=/host", "dst=/container", "readonly"),
            *("type=volume", "src=fs-1234", "dst=/efs"),
            *("type=device", "src=/dev/infiniband/uverbs0", "perm=rw"),
        ]
    )
    definition: Any = (await dry_run(way, AppDef("job", [role(mounts=wanted)]))).job_def
    container = definition["containerProperties"]

    sources = {volume["name"]: volume for volume in container["volumes"]}
    found = [
        (point["containerPath"], point["readOnly"], sources[point["sourceVolume"]])
        for point in container["mountPoints"]
    ]
    assert [("/container", True), ("/efs", False)] == [each[:2] for each in found]
    assert "/host" == found[0][2]["host"]["sourcePath"]
    assert "fs-1234" == found[1][2]["efsVolumeConfiguration"]["fileSystemId"]
    (device,) = container["linuxParameters"]["devices"]
    path = "/dev/infiniband/uverbs0"
    assert {"hostPath": path, "containerPath": path, "permissions": ["READ", "WRITE"]} == device


@row("aws_batch", "An app has at most five roles.", backend=BACKEND)
async def five_roles(way: Way) -> None:
    await dry_run(way, AppDef("job", [role(f"r{n}") for n in range(5)]))
    with pytest.raises(ValueError, match="5"):
        await dry_run(way, AppDef("job", [role(f"r{n}") for n in range(6)]))


@row("aws_batch", "Without a queue nothing is submitted.", backend=BACKEND)
async def queue(way: Way) -> None:
    scheduler = way.made(way.of(AWSBatchScheduler("session", StandIn(), StandIn())))
    with pytest.raises(ValueError, match="queue"):
        await way(scheduler.submit_dryrun(AppDef("job", [role()]), {}))


@row("aws_batch", "An app's id is its queue's and its job's name.", backend=BACKEND, served=True)
async def app_ids(way: Way) -> None:
    assert way.place is not None
    scheduler = way.scheduler()
    info = await way(scheduler.submit_dryrun(AppDef("job", [way.role("echo hello", resource=RESOURCE)]), way.place.cfg))
    app_id = await way(scheduler.schedule(info))
    ended = await way.ended(scheduler, app_id)

    assert f"{info.request.queue}:{info.request.name}" == app_id == ended.app_id
    (again,) = ended.roles
    assert ("main", "sh", RESOURCE) == (again.name, again.entrypoint, again.resource)
    assert "us-east-1.console.aws.amazon.com/batch" in str(ended.ui_url)


@row("aws_batch", "Only both streams together can be read.", backend=BACKEND)
async def combined(way: Way) -> None:
    scheduler = way.made(way.of(AWSBatchScheduler("session", StandIn(), StandIn())))
    with pytest.raises(ValueError, match="COMBINED"):
        scheduler.log_iter("torchx:job-x1", "main", 0, streams=Stream.STDERR)


@row("aws_batch", "A job that was put together by hand is launched.", backend=BACKEND, served=True)
async def job_by_hand(way: Way) -> None:
    container = {
        "command": ["sh", "-c", "echo hello"],
        "image": "alpine:latest",
        "environment": [{"name": "TORCHX_ROLE_IDX", "value": "0"}, {"name": "TORCHX_ROLE_NAME", "value": "main"}],
        "resourceRequirements": [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "100"}],
    }
    nodes = {"numNodes": 1, "mainNode": 0, "nodeRangeProperties": [{"targetNodes": "0:0", "container": container}]}
    definition: dict[str, object] = {
        "jobDefinitionName": "byhand-x1",
        "type": "multinode",
        "nodeProperties": nodes,
        "retryStrategy": {"attempts": 1},
        "tags": {"team": "blue"},
    }
    scheduler = way.scheduler()
    app_id = await way(scheduler.schedule(AppDryRunInfo(BatchJob("byhand-x1", "torchx", None, definition, {}), repr)))

    assert "torchx:byhand-x1" == app_id
    ended = await way.ended(scheduler, app_id)
    assert (AppState.SUCCEEDED, ["main"]) == (ended.state, [each.role for each in ended.roles_statuses])
    assert ["hello\n"] == await way.all(scheduler.log_iter(app_id, "main", 0))
