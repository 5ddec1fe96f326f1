"""A backend gets workspaces by one class attribute, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from asyncsched._dockerd import Daemon, find_remote, inspect_image
from asyncsched.errors import RunOptionError
from asyncsched.specs import AppDef, Role
from asyncsched.testing.fake import FakeOptions, FakeScheduler
from asyncsched.workspace import ImageWorkspaces
from asyncsched.workspace.image import docker_login
from tests.services.dockerd import BUSYBOX_IMAGE, Dockerd
from tests.services.registry import Registry

pytestmark = pytest.mark.service

APP = AppDef("app", [Role("one", BUSYBOX_IMAGE, entrypoint="true"), Role("two", BUSYBOX_IMAGE, entrypoint="true")])


class PlainScheduler(FakeScheduler):
    workspace_builder = ImageWorkspaces


@dataclass(frozen=True, kw_only=True)
class PushingOptions(FakeOptions):
    image_repo: str | None = None
    """Where images are pushed to."""


class PushingScheduler(FakeScheduler):
    options = PushingOptions
    workspace_builder = ImageWorkspaces


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace/data").write_text(f"{tmp_path}")
    return tmp_path / "workspace"


@pytest.fixture
async def daemon(docker_host: str, dockerd: Dockerd) -> AsyncIterator[Daemon]:
    daemon = Daemon()
    yield daemon
    await daemon.close()


async def test_images_stay_with_the_daemon(daemon: Daemon, workspace: Path) -> None:
    async with PlainScheduler("session") as scheduler:
        info = await scheduler.submit_dryrun(APP, None, str(workspace))
        (name,) = {role.image for role in info.request.app.roles}
        before = await inspect_image(daemon, name)
        await scheduler.schedule(info)

    assert before is None
    assert await inspect_image(daemon, name) is not None


async def test_images_are_pushed_where_there_is_an_option_for_it(
    daemon: Daemon, workspace: Path, registry: Registry, logged_in: Path
) -> None:
    cfg = {"image_repo": f"{registry.address}/plain"}
    async with PushingScheduler("session") as scheduler:
        with pytest.raises(RunOptionError, match="image_repo"):
            await scheduler.submit_dryrun(APP, None, str(workspace))
        info = await scheduler.submit_dryrun(APP, cfg, str(workspace))
        await scheduler.schedule(info)

    (name,) = {role.image for role in info.request.app.roles}
    assert name.startswith(cfg["image_repo"])
    assert await find_remote(daemon, name, await docker_login(name)) is not None
