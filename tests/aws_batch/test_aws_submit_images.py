"""Images of AWS Batch: built here, pushed to a real registry that only takes the token of ECR."""

from __future__ import annotations

import io
import re
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from asyncsched.errors import AuthError, NotFoundError, RunOptionError, UnavailableError, WorkspaceError
from asyncsched.schedulers.aws_batch import AWSBatchScheduler
from asyncsched.specs import AppDef, AppState, Resource, Role
from asyncsched.testing.contract import ContractRig
from asyncsched.testing.contract.workspaces import WorkspaceContract
from asyncsched.workspace import build_workspace_image
from tests.aws_batch.conftest import QUEUE, quick
from tests.aws_emulator.cloud import Cloud
from tests.aws_emulator.containers import Containers
from tests.aws_emulator.server import Server
from tests.services.dockerd import BUSYBOX_IMAGE, Dockerd
from tests.services.registry import PASSWORD, USER, Registry

pytestmark = [
    pytest.mark.service,
    pytest.mark.usefixtures("docker_host"),
    pytest.mark.guard(left_over=False, reason="the emulator's Docker client keeps its connections for a while"),
]


@pytest.fixture
def server(dockerd: Dockerd, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """An emulator whose nodes are containers, and whose token is the registry's password."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    containers = Containers(dockerd.host)
    cloud = Cloud(run_node=containers)
    cloud.queues.add(QUEUE)
    cloud.ecr_login = USER, PASSWORD
    with Server(cloud) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        yield server
    containers.close()
    assert [] == cloud.traffic.problems


@pytest.fixture
async def scheduler(server: Server, registry: Registry) -> AsyncIterator[AWSBatchScheduler]:
    """A scheduler for which the tests' registry is one of ECR's."""
    made = quick("session")
    made.ecr_hosts = re.compile(re.escape(registry.address))  # type: ignore[misc]
    yield made
    await made.close()


def job(image: str = BUSYBOX_IMAGE) -> AppDef:
    resource = Resource(cpu=1, gpu=0, memMB=64)
    return AppDef("job", [Role("main", image, entrypoint="cat", args=["file"], resource=resource)])


async def lines_of(scheduler: AWSBatchScheduler, app_id: str) -> list[str]:
    lines = [line.text async for line in scheduler.log_iter(app_id, should_tail=True)]
    found = await scheduler.describe(app_id)
    assert AppState.SUCCEEDED == getattr(found, "state", None), lines
    return lines


def pushes(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if "Pushed" in record.message]


async def test_a_workspace_is_pushed_with_the_token_and_once(
    scheduler: AWSBatchScheduler, server: Server, workspace: Path, repository: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "asyncsched.workspace")
    cfg = {"queue": QUEUE, "image_repo": repository}

    info = await scheduler.submit_dryrun(job(), cfg, str(workspace))
    (container,) = [info.request.job_def["containerProperties"]]
    ((image, (named, tag)),) = info.request.images_to_push.items()
    assert f"{repository}:{tag}" == image == container["image"]  # type: ignore[index]
    assert named == repository
    lines = await lines_of(scheduler, await scheduler.schedule(info))
    first = pushes(caplog)
    caplog.clear()
    await scheduler.submit(job(), cfg, str(workspace))

    assert [(workspace / "file").read_text()] == lines
    assert first
    assert [] == pushes(caplog)
    assert server.cloud.traffic.calls["GetAuthorizationToken"] >= 1
    assert 0 == server.cloud.traffic.calls["CreateRepository"]


@pytest.mark.one_loop
class TestWorkspaceContract(WorkspaceContract):
    """What the contract says of workspaces, where images are pushed and containers run from them."""

    @pytest.fixture
    async def rig(self, scheduler: AWSBatchScheduler, repository: str) -> ContractRig:
        return ContractRig(
            scheduler,
            another=lambda: quick("other"),
            cfg={"queue": QUEUE, "image_repo": repository},
            image=BUSYBOX_IMAGE,
            patience=60.0,
        )


async def test_without_the_token_nothing_is_pushed_or_submitted(
    server: Server, workspace: Path, repository: str
) -> None:
    scheduler = quick("session")  # for which the registry is none of ECR's
    with pytest.raises(AuthError, match="docker login"):
        await scheduler.submit(job(), {"queue": QUEUE, "image_repo": repository}, str(workspace))
    await scheduler.close()

    assert 0 == server.cloud.traffic.calls["SubmitJob"]


async def test_a_registry_that_cannot_be_reached_is_told_before_anything_is_built(
    scheduler: AWSBatchScheduler, server: Server, dockerd: Dockerd, workspace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "asyncsched.workspace")
    cfg = {"queue": QUEUE, "image_repo": "127.0.0.1:9/team"}  # where nothing listens
    before = {image["Id"] for image in dockerd.api.json("GET", "/images/json")}

    with pytest.raises(UnavailableError, match=r"cannot ask the registry for 127\.0\.0\.1:9/team:\w+: .*refused"):
        await scheduler.submit(job(), cfg, str(workspace))
    with pytest.raises(UnavailableError, match="its registry can be reached"):
        await scheduler._push_images({BUSYBOX_IMAGE: ("127.0.0.1:9/team", "1")}, {})

    told = [record.message for record in caplog.records]
    assert any(each.startswith("127.0.0.1:9/team:") and "Waiting for the registry" in each for each in told)
    assert before == {image["Id"] for image in dockerd.api.json("GET", "/images/json")}
    assert 0 == server.cloud.traffic.calls["SubmitJob"]


async def test_an_image_named_by_its_id_is_pushed(
    scheduler: AWSBatchScheduler, workspace: Path, repository: str
) -> None:
    image = await build_workspace_image(BUSYBOX_IMAGE, str(workspace))
    app = job(image)

    info = await scheduler.submit_dryrun(app, {"queue": QUEUE, "image_repo": repository})
    lines = await lines_of(scheduler, await scheduler.schedule(info))

    assert {image: (repository, image.removeprefix("sha256:"))} == info.request.images_to_push
    assert [(workspace / "file").read_text()] == lines
    assert image == app.roles[0].image


async def test_a_missing_image_repo_is_said_at_dry_run(scheduler: AWSBatchScheduler, workspace: Path) -> None:
    for app, given in ((job(), str(workspace)), (job(f"sha256:{'0' * 64}"), None)):
        with pytest.raises(RunOptionError, match="aws_batch needs the run option image_repo"):
            await scheduler.submit_dryrun(app, {"queue": QUEUE}, given)
    with pytest.raises(RunOptionError, match="does not name a repository"):
        await scheduler.submit_dryrun(job(), {"queue": QUEUE, "image_repo": "https://x/y"}, str(workspace))


async def test_another_architecture_is_said_at_dry_run(
    scheduler: AWSBatchScheduler, workspace: Path, repository: str
) -> None:
    cfg = {"queue": QUEUE, "image_repo": repository}
    with pytest.raises(WorkspaceError, match="is for linux/amd64, not for linux/arm64"):
        await scheduler.submit_dryrun(job(), {**cfg, "platform": "FARGATE", "cpu_arch": "ARM64"}, str(workspace))
    with pytest.raises(WorkspaceError, match="is for linux/amd64, not for linux/arm64"):
        await scheduler.submit_dryrun(job(), {**cfg, "image_platform": "linux/arm64"})


FRAMING = ("transfer-encoding", "content-length", "connection")


@asynccontextmanager
async def without_repositories(registry: Registry, made: set[str]) -> AsyncIterator[str]:
    """The registry as ECR answers: a repository that nobody has made cannot be pushed to."""

    async def serve(request: web.Request) -> web.StreamResponse:
        path = request.path.removeprefix("/v2/")
        if path and not any(path.startswith(f"{name}/") for name in made):
            error = {"code": "NAME_UNKNOWN", "message": "The repository with name 'x' does not exist in the registry"}
            return web.json_response({"errors": [error]}, status=404)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in FRAMING}
        async with session.request(
            request.method,
            f"http://{registry.address}{request.path_qs}",
            headers=headers,
            data=io.BytesIO(await request.read()),
            allow_redirects=False,
        ) as answer:
            body = await answer.read()
            kept = {k: v for k, v in answer.headers.items() if k.lower() not in FRAMING}
            if request.method == "HEAD":
                kept["Content-Length"] = answer.headers.get("Content-Length", "0")
            return web.Response(status=answer.status, headers=kept, body=body)

    app = web.Application(client_max_size=1 << 30)
    app.router.add_route("*", "/{path:.*}", serve)
    runner = web.AppRunner(app)
    await runner.setup()
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield "127.0.0.1:" + str(runner.addresses[0][1])
        finally:
            await runner.cleanup()


async def test_a_repository_is_made_only_when_that_is_asked_for(
    scheduler: AWSBatchScheduler, server: Server, workspace: Path, registry: Registry
) -> None:
    name = f"made/{secrets.token_hex(4)}"
    async with without_repositories(registry, server.cloud.repositories) as address:
        scheduler.ecr_hosts = re.compile(re.escape(address))  # type: ignore[misc]
        cfg = {"queue": QUEUE, "image_repo": f"{address}/{name}"}
        with pytest.raises(NotFoundError, match="does not exist"):
            await scheduler.submit(job(), cfg, str(workspace))
        refused = set(server.cloud.repositories)
        await scheduler.submit(job(), {**cfg, "ecr_create_repository": True}, str(workspace))

    assert set() == refused
    assert {name} == server.cloud.repositories
