"""The same with real containers: one for each node, on a Docker daemon."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from asyncsched.components import dist
from asyncsched.specs import AppDef, AppState, BindMount, DeviceMount, Resource, Role
from tests.aws_batch.conftest import QUEUE, quick
from tests.aws_emulator.cloud import Cloud
from tests.aws_emulator.containers import Containers
from tests.aws_emulator.server import Server
from tests.services.dockerd import BUSYBOX_IMAGE, Dockerd

pytestmark = pytest.mark.service

SMALL = Resource(cpu=1, gpu=0, memMB=64)


@pytest.fixture
def server(dockerd: Dockerd, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Server]:
    """An emulator whose nodes are containers; the parameter names a network for them."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    containers = Containers(dockerd.host, getattr(request, "param", None))
    cloud = Cloud(run_node=containers)
    cloud.queues.add(QUEUE)
    cloud.pace.stop_children, cloud.pace.waits_for_children = 60.0, True
    cloud.pace.grace = 60.0
    with Server(cloud) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        yield server
    containers.close()
    assert [] == cloud.traffic.problems


def sh(script: str, name: str = "main", **more: object) -> Role:
    return Role(name, BUSYBOX_IMAGE, entrypoint="sh", args=["-c", script], resource=SMALL, **more)  # type: ignore[arg-type] # any


@pytest.mark.usefixtures("server")
@pytest.mark.guard(left_over=False, reason="the emulator's Docker client keeps its connections for a while")
async def test_nodes_are_containers_that_know_their_place(tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("mount")
    (directory / "file").write_text("mounted\n")
    script = (
        "echo node $AWS_BATCH_JOB_NODE_INDEX of $AWS_BATCH_JOB_NUM_NODES, rank ${replica_id}; cat /data/file;"
        "test -c /dev/mine && echo device; touch /data/x 2>/dev/null || echo read-only; exit 0"
    )
    mounts = [BindMount(str(directory), "/data", read_only=True), DeviceMount("/dev/null", "/dev/mine")]
    scheduler = quick("session")
    app = AppDef("app", [sh("sleep 1; echo main"), sh(script, "worker", num_replicas=2, mounts=mounts)])

    app_id = await scheduler.submit(app, {"queue": QUEUE, "shm_size_mb": 16})
    lines = [line async for line in scheduler.log_iter(app_id, should_tail=True)]
    found = await scheduler.describe(app_id)
    await scheduler.close()

    assert {
        ("main", 0): ["main"],
        ("worker", 0): ["node 1 of 3, rank 0", "mounted", "device", "read-only"],
        ("worker", 1): ["node 2 of 3, rank 1", "mounted", "device", "read-only"],
    } == {
        (k, r): [x.text for x in lines if (x.role, x.replica) == (k, r)]
        for k, r in {(x.role, x.replica) for x in lines}
    }
    assert found is not None
    assert AppState.SUCCEEDED == found.state


@pytest.mark.usefixtures("server")
@pytest.mark.guard(left_over=False, reason="the emulator's Docker client keeps its connections for a while")
async def test_cancelling_signals_the_container_and_a_missing_image_says_so() -> None:
    scheduler = quick("session")
    app_id = await scheduler.submit(
        AppDef("app", [sh("trap 'echo bye; exit 0' TERM; echo up; sleep 60 & wait")]), {"queue": QUEUE}
    )
    lines = []
    async for line in scheduler.log_iter(app_id, should_tail=True):
        lines.append(line.text)
        if line.text == "up":
            await scheduler.cancel(app_id)
    missing = await scheduler.submit(
        AppDef("app", [Role("main", "nosuch:1", entrypoint="x", resource=SMALL)]), {"queue": QUEUE}
    )
    ended = [event async for event in scheduler.watch([missing])][-1]
    cancelled = await scheduler.describe(app_id)
    await scheduler.close()

    assert ["up", "bye"] == lines
    assert AppState.CANCELLED == getattr(cancelled, "state", None)
    assert ended.current is not None
    assert (AppState.FAILED, True) == (ended.state, "CannotPullContainerError" in ended.current.msg)


PYTHON = "/usr/bin/python3"
CLI = Path(__file__).parent.parent / "cli"


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("server", ["nodes"], indirect=True)
@pytest.mark.skipif(not Path(PYTHON).exists(), reason="the containers borrow this machine's Python")
@pytest.mark.guard(left_over=False, reason="the emulator's Docker client keeps its connections for a while")
async def test_two_nodes_of_a_distributed_job_meet(tmp_path_factory: pytest.TempPathFactory) -> None:
    job = tmp_path_factory.mktemp("job")
    shutil.copy(CLI / "meeting.py", job)
    shutil.copy(CLI / "torchrun.py", job / "torchrun")
    borrowed = [path for path in ("/usr", "/lib", "/lib64") if Path(path).exists()]
    mounts = [f"type=bind,src={path},dst={path},readonly" for path in borrowed]
    app = dist.ddp(
        script="/job/meeting.py",
        image=BUSYBOX_IMAGE,
        j="2x1",
        cpu=1,
        memMB=256,
        env={"PATH": "/job:/usr/bin:/bin"},
        mounts=[word for each in [*mounts, f"type=bind,src={job},dst=/job,readonly"] for word in each.split(",")],
    )
    scheduler = quick("session")
    app_id = await scheduler.submit(app, {"queue": QUEUE})
    lines = [line.text async for line in scheduler.log_iter(app_id, should_tail=True)]
    await scheduler.close()

    assert ["rank 0 of 2: the ranks add up to 1", "rank 1 of 2: the ranks add up to 1"] == sorted(lines)
