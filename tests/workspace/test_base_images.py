"""Base images that are pulled for a build, and what is left of them when it is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from asyncsched._dockerd import Daemon, find_remote, inspect_image, push_image, remove_image
from asyncsched.specs.image_progress import ImageProgress
from asyncsched.workspace import build_workspace_image
from asyncsched.workspace.image import docker_login
from tests.services.dockerd import BUSYBOX_IMAGE, Dockerd
from tests.services.registry import Registry

pytestmark = pytest.mark.service


@pytest.fixture
async def daemon(docker_host: str) -> AsyncIterator[Daemon]:
    daemon = Daemon()
    yield daemon
    await daemon.close()


@pytest.fixture
async def base(daemon: Daemon, registry: Registry, logged_in: Path, tmp_path: Path) -> str:
    """An image that only the registry has."""
    repository = f"{registry.address}/pulled"
    (tmp_path / "base").mkdir()
    (tmp_path / "base/which").write_text(f"{tmp_path}")
    built = await build_workspace_image(BUSYBOX_IMAGE, str(tmp_path / "base"))
    await push_image(daemon, built, repository, "1", await docker_login(repository), lambda _: None)
    await remove_image(daemon, f"{repository}:1")
    await _remove_by_id(daemon, built)
    return f"{repository}:1"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace whose image takes some steps."""
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "Dockerfile.asyncsched").write_text("ARG IMAGE\nFROM $IMAGE\nWORKDIR /here\nCOPY . .\n")
    return root


def names(dockerd: Dockerd) -> set[str]:
    """Return the names of all images, and the ids of those that have none."""
    found = dockerd.api.json("GET", "/images/json")
    return {name for each in found for name in each["RepoTags"] or [each["Id"]]}


def containers(dockerd: Dockerd) -> set[str]:
    """Return the ids of all containers."""
    return {each["Id"] for each in dockerd.api.json("GET", "/containers/json?all=1")}


@pytest.mark.one_loop
async def test_a_pull_that_is_cancelled_at_any_step_leaves_no_image_without_a_name(
    dockerd: Dockerd, daemon: Daemon, base: str, workspace: Path
) -> None:
    before, others, cancelled_at, is_over = names(dockerd), containers(dockerd), {""}, False
    loop = asyncio.get_running_loop()
    while not is_over:
        (workspace / "data").write_text(f"{workspace} {len(cancelled_at)}")
        tasks: list[asyncio.Task[str]] = []

        def report(step: ImageProgress, tasks: list[asyncio.Task[str]] = tasks) -> None:
            if step.status == "Sending the workspace":
                tasks.clear()  # the pull is over, and this build may end
            if tasks and step.status not in cancelled_at:
                cancelled_at.add(step.status)
                loop.call_soon(tasks.pop().cancel)  # before anything else comes from the daemon

        building = asyncio.create_task(build_workspace_image(base, str(workspace), on_progress=report))
        tasks.append(building)
        await asyncio.wait([building], timeout=60)
        is_over = not building.cancelled()
        if not is_over:
            assert names(dockerd) <= {*before, base}, f"cancelled at {cancelled_at}"
            assert containers(dockerd) <= others, f"cancelled at {cancelled_at}"
            await remove_image(daemon, base)

    assert any(status.startswith("Status: Downloaded") for status in cancelled_at)
    await _remove_by_id(daemon, building.result())


async def test_a_base_image_whose_name_another_image_has_gets_one_of_its_digest(
    dockerd: Dockerd, daemon: Daemon, base: str, workspace: Path
) -> None:
    repository = base.rpartition(":")[0]
    by_digest = await _digest(daemon, base)
    (workspace / "data").write_text(f"{workspace}")

    built = await build_workspace_image(by_digest, str(workspace))

    name = by_digest.replace("@sha256:", ":sha256-")
    assert name in names(dockerd)
    assert await inspect_image(daemon, base) is None
    await _remove_by_id(daemon, built)
    await remove_image(daemon, name)
    await remove_image(daemon, by_digest)
    assert not any(each.startswith(repository) for each in names(dockerd))


async def _digest(daemon: Daemon, name: str) -> str:
    found = await find_remote(daemon, name, await docker_login(name))
    assert found is not None
    return f"{name.rpartition(':')[0]}@{found.digest}"


async def _remove_by_id(daemon: Daemon, image: str) -> None:
    """Remove an image with all its names."""
    found = await inspect_image(daemon, image)
    assert found is not None
    for name in found["RepoTags"]:
        await remove_image(daemon, name)
