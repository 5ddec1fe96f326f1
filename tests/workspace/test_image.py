"""Images of workspaces, on a real daemon and a real registry."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from asyncsched import sync
from asyncsched._dockerd import Daemon, inspect_image, push_image, remove_image
from asyncsched.errors import RunOptionError, SchedulerError, WorkspaceError
from asyncsched.schedulers.docker import DockerScheduler
from asyncsched.specs import AppDef, AppState, Role
from asyncsched.specs.image_progress import ImageProgress
from asyncsched.workspace import build_workspace_image
from asyncsched.workspace.image import docker_login
from tests.services.dockerd import BUSYBOX_IMAGE, Dockerd
from tests.services.registry import Registry

pytestmark = pytest.mark.service


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A small workspace with what is easily lost: a mode, a link to a directory, an empty directory."""
    root = tmp_path / "workspace"
    (root / "lib").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "main.sh").write_text("echo from the workspace\n")
    (root / "main.sh").chmod(0o755)
    (root / "lib" / "data").write_text(f"{time.time_ns()}\n")  # no other test has built it
    (root / "lib64").symlink_to("lib")
    return root


@pytest.fixture
async def daemon(docker_host: str) -> AsyncIterator[Daemon]:
    daemon = Daemon()
    yield daemon
    await daemon.close()


@pytest.fixture
async def scheduler(docker_host: str, dockerd: Dockerd) -> AsyncIterator[DockerScheduler]:
    async with DockerScheduler("session") as scheduler:
        yield scheduler
    dockerd.clean()


def sh(script: str, name: str = "main", image: str = BUSYBOX_IMAGE, **more: object) -> Role:
    return Role(name, image, entrypoint="sh", args=["-c", script], **more)  # type: ignore[arg-type]


async def output(scheduler: DockerScheduler, app_id: str) -> list[str]:
    lines = [line.text async for line in scheduler.log_iter(app_id, should_tail=True)]
    found = await scheduler.describe(app_id)
    assert found is not None
    assert AppState.SUCCEEDED == found.state, lines
    return lines


def tagged(dockerd: Dockerd) -> set[str]:
    return {tag for image in dockerd.api.json("GET", "/images/json") for tag in image["RepoTags"] or ()}


async def test_an_app_runs_from_an_image_with_its_workspace(
    scheduler: DockerScheduler, workspace: Path, dockerd: Dockerd
) -> None:
    app = AppDef("app", [sh("./main.sh; ls -A; test -d lib64/ && readlink lib64; test -d empty && echo empty")])

    info = await scheduler.submit_dryrun(app, None, str(workspace))
    assert info.workspace is not None
    assert info.workspace.startswith(f"{BUSYBOX_IMAGE} + workspace ")
    (container,) = info.request.containers
    assert container.image not in tagged(dockerd)
    lines = await output(scheduler, await scheduler.schedule(info))

    assert BUSYBOX_IMAGE == app.roles[0].image
    assert "from the workspace" == lines[0]
    assert {"main.sh", "lib", "lib64", "empty"} <= set(lines)
    assert "workspace" not in lines
    assert "Dockerfile" not in lines
    assert container.image in tagged(dockerd)


async def test_roles_and_apps_build_once(scheduler: DockerScheduler, workspace: Path, dockerd: Dockerd) -> None:
    calls = (await scheduler._docker()).calls
    app = AppDef("app", [sh("cat lib/data", "a"), sh("cat lib/data", "b", num_replicas=2)])

    ids = await asyncio.gather(*(scheduler.submit(app, None, str(workspace)) for _ in range(4)))
    names = {
        container["Image"]
        for container in dockerd.api.json("GET", "/containers/json?all=1")
        if container["Image"].startswith("asyncsched-workspace")
    }
    builds = [each for each in dockerd.api.json("GET", "/images/json") if (each["RepoTags"] or [""])[0] in names]

    assert 4 == len(set(ids))
    assert 1 == len(names) == len(builds)
    assert calls  # the scheduler's own daemon has built it


async def test_calls_at_the_same_time_build_once(workspace: Path, daemon: Daemon) -> None:
    steps: list[list[ImageProgress]] = [[], [], [], []]

    built = [build_workspace_image(BUSYBOX_IMAGE, str(workspace), on_progress=each.append) for each in steps]

    assert 1 == len(set(await asyncio.gather(*built)))
    assert 1 == sum(bool(each) for each in steps)


async def test_the_same_files_are_the_same_image_elsewhere_and_later(workspace: Path, daemon: Daemon) -> None:
    other = workspace.parent / "elsewhere"
    await asyncio.to_thread(lambda: os.system(f"cp -r {workspace} {other}"))
    os.utime(other / "main.sh", (1, 1))

    first = await build_workspace_image(BUSYBOX_IMAGE, str(workspace))
    steps: list[ImageProgress] = []
    second = await build_workspace_image(BUSYBOX_IMAGE, str(other), on_progress=steps.append)

    assert first == second
    assert [] == steps


def test_code_that_cannot_await_builds_the_same(docker_host: str, workspace: Path) -> None:
    first = sync.build_workspace_image(BUSYBOX_IMAGE, str(workspace))

    assert first == asyncio.run(build_workspace_image(BUSYBOX_IMAGE, str(workspace)))


@pytest.mark.parametrize("name", ["Dockerfile.asyncsched", "Dockerfile.torchx"])
async def test_the_workspace_says_how_it_is_built(scheduler: DockerScheduler, workspace: Path, name: str) -> None:
    (workspace / name).write_text(
        "ARG IMAGE\nFROM $IMAGE\nARG WORKSPACE\nENV FROM_WORKSPACE=$WORKSPACE\nCOPY lib /somewhere\n"
    )

    lines = await output(
        scheduler,
        await scheduler.submit(AppDef("app", [sh("ls /somewhere; echo $FROM_WORKSPACE")]), None, str(workspace)),
    )

    assert ["data", str(workspace)] == lines


async def test_a_dockerfile_that_is_left_out_still_counts_and_stays_out(
    scheduler: DockerScheduler, workspace: Path
) -> None:
    (workspace / ".dockerignore").write_text("Dockerfile.*\nlib\n")
    (workspace / "Dockerfile.asyncsched").write_text("ARG IMAGE\nFROM $IMAGE\nWORKDIR /here\nCOPY . .\n")

    lines = await output(scheduler, await scheduler.submit(AppDef("app", [sh("ls -A")]), None, str(workspace)))

    assert sorted([".dockerignore", "empty", "lib64", "main.sh"]) == sorted(lines)


async def test_a_dockerfile_that_is_left_out_cannot_need_buildkit(scheduler: DockerScheduler, workspace: Path) -> None:
    dockerfile = "ARG IMAGE\nFROM $IMAGE\nWORKDIR /here\nRUN --mount=type=cache,target=/c true\nCOPY . .\n"
    (workspace / "Dockerfile.asyncsched").write_text(dockerfile)
    (workspace / ".dockerignore").write_text("Dockerfile.*\n")
    app = AppDef("app", [sh("ls -A")])

    with pytest.raises(WorkspaceError, match=r"left out by \.dockerignore.* write !Dockerfile\.asyncsched"):
        await scheduler.submit_dryrun(app, None, str(workspace))
    (workspace / ".dockerignore").write_text("Dockerfile.*\n!Dockerfile.asyncsched\n")
    await scheduler.submit_dryrun(app, None, str(workspace))


@pytest.mark.parametrize("builder", ["buildkit", "classic"])
async def test_quotes_directives_and_links_of_a_dockerfile_mean_what_they_mean_to_docker(
    scheduler: DockerScheduler, dockerd: Dockerd, workspace: Path, builder: str
) -> None:
    text = '# escape=`\nARG IMAGE\nFROM `\n  "$IMAGE"\nENV SAID=back\\slash\nCOPY main.sh /\n'
    (workspace / "lib" / "Dockerfile").write_text(text)
    (workspace / "Dockerfile.asyncsched").symlink_to("lib/Dockerfile")
    image: str = dockerd.api.json("GET", f"/images/{BUSYBOX_IMAGE}/json")["Id"]  # which BuildKit cannot start from
    role = sh("printf '%s\\n' \"$SAID\"; /main.sh", image=BUSYBOX_IMAGE if builder == "buildkit" else image)

    lines = await output(scheduler, await scheduler.submit(AppDef("app", [role]), None, str(workspace)))

    assert ["back\\slash", "from the workspace"] == lines


async def test_a_dockerfile_comes_from_inside_the_workspace(scheduler: DockerScheduler, workspace: Path) -> None:
    (workspace.parent / "Dockerfile").write_text("FROM scratch\n")
    for target in ("../Dockerfile", str(workspace.parent / "Dockerfile"), "lib64/../../Dockerfile"):
        (workspace / "Dockerfile.asyncsched").symlink_to(target)
        with pytest.raises(WorkspaceError, match=r"Dockerfile\.asyncsched .* is a link that leads out of it"):
            await scheduler.submit_dryrun(AppDef("app", [sh("true")]), None, str(workspace))
        (workspace / "Dockerfile.asyncsched").unlink()


async def test_a_failing_build_shows_the_last_lines_and_nothing_runs(
    scheduler: DockerScheduler, workspace: Path, dockerd: Dockerd
) -> None:
    (workspace / "Dockerfile.asyncsched").write_text("ARG IMAGE\nFROM $IMAGE\nCOPY nothing-of-this-name .\n")

    with pytest.raises(WorkspaceError) as caught:
        await scheduler.submit(AppDef("app", [sh("true")]), None, str(workspace))

    assert "nothing-of-this-name" in str(caught.value)
    assert "last lines" in str(caught.value)
    assert [] == dockerd.api.json("GET", "/containers/json?all=1")


async def test_a_build_that_is_cancelled_while_its_files_are_sent_leaves_nothing(
    docker_host: str, dockerd: Dockerd, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (workspace / "large").open("wb") as file:
        file.truncate(64 << 20)
    temporary = workspace.parent / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    before = {image["Id"] for image in dockerd.api.json("GET", "/images/json?all=1")}
    sending = asyncio.Event()

    def report(step: ImageProgress) -> None:
        if step.status == "Sending the workspace":
            sending.set()

    building = asyncio.create_task(build_workspace_image(BUSYBOX_IMAGE, str(workspace), on_progress=report))
    await asyncio.wait_for(sending.wait(), 60)
    building.cancel()
    with pytest.raises(asyncio.CancelledError):
        await building

    assert [] == [*temporary.iterdir()]
    assert before == {image["Id"] for image in dockerd.api.json("GET", "/images/json?all=1")}
    assert [] == dockerd.api.json("GET", "/containers/json?all=1")


async def test_files_are_laid_over_without_a_builder_but_for_those_that_it_changes(
    docker_host: str, dockerd: Dockerd, workspace: Path
) -> None:
    steps: list[ImageProgress] = []
    await build_workspace_image(BUSYBOX_IMAGE, str(workspace), on_progress=steps.append)
    assert {"Sending the workspace"} == {step.status for step in steps}

    (workspace / "main.sh").chmod(0o4755)
    image = await build_workspace_image(BUSYBOX_IMAGE, str(workspace), on_progress=steps.append)
    created = {"Image": image, "Cmd": ["stat", "-c", "%a", "/main.sh"]}
    container = dockerd.api.json("POST", "/containers/create", created)["Id"]
    await asyncio.to_thread(dockerd.api.call, "POST", f"/containers/{container}/start")
    await asyncio.to_thread(dockerd.api.call, "POST", f"/containers/{container}/wait")
    said = await asyncio.to_thread(dockerd.api.call, "GET", f"/containers/{container}/logs?stdout=1")
    await asyncio.to_thread(dockerd.clean)

    assert any("COPY" in step.status for step in steps)
    assert said.endswith(b"755\n")
    assert not said.endswith(b"4755\n")


async def test_a_session_is_not_pretended(scheduler: DockerScheduler, workspace: Path) -> None:
    (workspace / "Dockerfile.asyncsched").write_text(
        "ARG IMAGE\nFROM $IMAGE\nRUN --network=none \\\n  --mount=type=secret,id=x cat /run/secrets/x\n"
    )

    with pytest.raises(WorkspaceError, match="--mount=type=secret"):
        await scheduler.submit_dryrun(AppDef("app", [sh("true")]), None, str(workspace))


async def test_what_has_changed_since_the_dry_run_is_not_built(
    scheduler: DockerScheduler, workspace: Path, dockerd: Dockerd
) -> None:
    info = await scheduler.submit_dryrun(AppDef("app", [sh("true")]), None, str(workspace))
    (workspace / "lib" / "data").write_text("something else\n")
    before = tagged(dockerd)

    with pytest.raises(WorkspaceError, match="changed since the dry-run"):
        await scheduler.schedule(info)

    assert before == tagged(dockerd)


async def test_without_a_daemon_there_is_one_clear_error(
    docker_host: str, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{workspace}/nobody.sock")
    async with DockerScheduler("session") as scheduler:
        with pytest.raises(SchedulerError, match="cannot reach Docker"):
            await scheduler.submit_dryrun(AppDef("app", [sh("true")]), None, str(workspace))
        await scheduler.submit_dryrun(AppDef("app", [sh("true")]))  # which needs none


async def test_an_image_for_another_platform_is_refused_at_dry_run(scheduler: DockerScheduler, workspace: Path) -> None:
    app = AppDef("app", [sh("true")])
    for given in (str(workspace), None):
        with pytest.raises(WorkspaceError, match="is for linux/amd64, not for linux/arm64"):
            await scheduler.submit_dryrun(app, {"platform": "linux/arm64"}, given)
    with pytest.raises(RunOptionError, match="does not name a platform"):
        await scheduler.submit_dryrun(app, {"platform": "arm"}, str(workspace))
    await scheduler.submit_dryrun(app, {"platform": "linux/amd64"}, str(workspace))


async def test_an_image_named_by_id_can_be_built_on(
    scheduler: DockerScheduler, workspace: Path, dockerd: Dockerd
) -> None:
    first = await build_workspace_image(BUSYBOX_IMAGE, str(workspace))
    (workspace / "more").write_text("more\n")

    lines = await output(
        scheduler, await scheduler.submit(AppDef("app", [sh("cat more", image=first)]), None, str(workspace))
    )

    assert ["more"] == lines


async def test_a_base_image_is_pulled_by_what_the_dry_run_found(
    scheduler: DockerScheduler, workspace: Path, daemon: Daemon, registry: Registry, logged_in: Path
) -> None:
    repository = f"{registry.address}/base"
    login = await docker_login(repository)
    await push_image(daemon, BUSYBOX_IMAGE, repository, "1", login, lambda _: None)
    await remove_image(daemon, f"{repository}:1")
    info = await scheduler.submit_dryrun(
        AppDef("app", [sh("cat lib/data", image=f"{repository}:1")]), None, str(workspace)
    )
    there = await inspect_image(daemon, f"{repository}:1")
    # The tag moves on meanwhile.
    other = await build_workspace_image(BUSYBOX_IMAGE, str(workspace))
    await push_image(daemon, other, repository, "1", login, lambda _: None)
    await remove_image(daemon, f"{repository}:1")

    lines = await output(scheduler, await scheduler.schedule(info))

    assert there is None
    assert [(workspace / "lib" / "data").read_text().strip()] == lines


async def test_a_base_image_that_is_nowhere_is_said_so(
    scheduler: DockerScheduler, workspace: Path, registry: Registry, logged_in: Path
) -> None:
    name = f"{registry.address}/nothing:1"

    with pytest.raises(WorkspaceError) as caught:
        await scheduler.submit_dryrun(AppDef("app", [sh("true", image=name)]), None, str(workspace))

    assert f"base image {name} does not exist" in str(caught.value)
    (logged_in / "config.json").write_text(json.dumps({}))
    with pytest.raises(WorkspaceError, match="docker login"):
        await scheduler.submit_dryrun(AppDef("app", [sh("true", image=name)]), None, str(workspace))
