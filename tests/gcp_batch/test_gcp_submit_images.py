"""Images of Google Cloud Batch: built here, pushed to a real registry that takes the token of the account."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from asyncsched.errors import AuthError, RunOptionError, WorkspaceError
from asyncsched.schedulers.gcp_batch import GCPBatchScheduler
from asyncsched.schedulers.gcp_batch.submit import GOOGLE_REGISTRIES
from asyncsched.specs import AppDef, AppState, Role
from asyncsched.workspace import build_workspace_image
from tests.gcp_batch.conftest import lead_to, quick
from tests.gcp_double.runs import Containers
from tests.gcp_double.server import Double
from tests.services.dockerd import BUSYBOX_IMAGE, Dockerd
from tests.services.registry import PASSWORD, Registry

pytestmark = [pytest.mark.service, pytest.mark.usefixtures("docker_host")]

CREATE = "POST /v1/projects/*/locations/*/jobs"


@pytest.fixture
def containers(dockerd: Dockerd, surroundings: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Double]:
    """A double whose tasks are containers, and whose token is the registry's password."""
    with Double(Containers(dockerd.host, BUSYBOX_IMAGE, {})) as made:
        made.tokens.minted = PASSWORD
        lead_to(made, surroundings, monkeypatch)
        yield made
    assert [] == made.problems


@pytest.fixture
async def scheduler(containers: Double, registry: Registry) -> AsyncIterator[GCPBatchScheduler]:
    """A scheduler for which the tests' registry is one of Google's."""
    async with quick("session") as made:
        made.google_registries = re.compile(re.escape(registry.address))  # type: ignore[misc]
        yield made


def job(image: str = BUSYBOX_IMAGE) -> AppDef:
    return AppDef("job", [Role("main", image, entrypoint="cat", args=["file"])])


async def lines_of(scheduler: GCPBatchScheduler, app_id: str) -> list[str]:
    lines = [line.text async for line in scheduler.log_iter(app_id, should_tail=True)]
    found = await scheduler.describe(app_id)
    assert AppState.SUCCEEDED == getattr(found, "state", None), lines
    return lines


def pushes(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if "Pushed" in record.message]


@pytest.mark.parametrize(
    ("host", "is_googles"),
    [
        ("us-central1-docker.pkg.dev", True),
        ("europe-docker.pkg.dev", True),
        ("gcr.io", True),
        ("eu.gcr.io", True),
        ("docker.io", False),
        ("gcr.io.example.com", False),
        ("us-docker.pkg.dev.example.com", False),
    ],
)
def test_the_token_goes_to_googles_registries_only(host: str, is_googles: bool) -> None:
    assert is_googles == (GOOGLE_REGISTRIES.fullmatch(host) is not None)


async def test_a_workspace_is_pushed_with_the_token_and_once(
    scheduler: GCPBatchScheduler, workspace: Path, repository: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "asyncsched.workspace")
    cfg = {"image_repo": repository}

    info = await scheduler.submit_dryrun(job(), cfg, str(workspace))
    ((image, (named, tag)),) = info.request.images_to_push.items()
    lines = await lines_of(scheduler, await scheduler.schedule(info))
    first = pushes(caplog)
    caplog.clear()
    await scheduler.submit(job(), cfg, str(workspace))

    assert (repository, f"{repository}:{tag}") == (named, image)
    assert [(workspace / "file").read_text()] == lines
    assert first
    assert [] == pushes(caplog)


async def test_without_the_token_nothing_is_pushed_or_submitted(
    containers: Double, workspace: Path, repository: str
) -> None:
    async with quick("session") as made:  # for which the registry is not one of Google's
        with pytest.raises(AuthError, match="docker login"):
            await made.submit(job(), {"image_repo": repository}, str(workspace))

    assert 0 == containers.calls[CREATE]


async def test_a_token_that_the_registry_does_not_take_is_told(
    containers: Double, scheduler: GCPBatchScheduler, workspace: Path, repository: str
) -> None:
    containers.tokens.minted = "another"
    with pytest.raises(AuthError):
        await scheduler.submit(job(), {"image_repo": repository}, str(workspace))

    assert 0 == containers.calls[CREATE]


async def test_an_image_named_by_its_id_is_pushed(
    scheduler: GCPBatchScheduler, workspace: Path, repository: str
) -> None:
    image = await build_workspace_image(BUSYBOX_IMAGE, str(workspace))
    info = await scheduler.submit_dryrun(job(image), {"image_repo": repository})
    lines = await lines_of(scheduler, await scheduler.schedule(info))

    assert {image: (repository, image.removeprefix("sha256:"))} == info.request.images_to_push
    assert [(workspace / "file").read_text()] == lines


async def test_what_cannot_be_pushed_or_run_is_said_at_dry_run(
    scheduler: GCPBatchScheduler, workspace: Path, repository: str
) -> None:
    for app, given in ((job(), str(workspace)), (job(f"sha256:{'0' * 64}"), None)):
        with pytest.raises(RunOptionError, match="gcp_batch needs the run option image_repo"):
            await scheduler.submit_dryrun(app, {}, given)
    for given in (str(workspace), None):
        cfg = {"image_repo": repository, "image_platform": "linux/arm64"}
        with pytest.raises(WorkspaceError, match="is for linux/amd64, not for linux/arm64"):
            await scheduler.submit_dryrun(job(), cfg, given)
