"""What can be wrong with a daemon, an image or a registry: each its own message, and nothing left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from asyncsched._dockerd.endpoint import Endpoint
from asyncsched._dockerd.errors import answer_error, translating
from asyncsched.errors import (
    AuthError,
    ConfigError,
    LogStreamError,
    PermissionDeniedError,
    SchedulerError,
    UnavailableError,
)
from asyncsched.schedulers.docker import DockerScheduler
from asyncsched.specs import AppState
from tests.docker._apps import OBEYS, app, shell
from tests.docker.test_scheduler import end
from tests.services import dockerd as docker_service
from tests.services.dockerd import BUSYBOX_IMAGE, Dockerd
from tests.services.registry import Registry

pytestmark = pytest.mark.service("dockerd")


async def test_no_daemon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    async with DockerScheduler("session") as scheduler:
        with pytest.raises(UnavailableError) as caught:
            await scheduler.describe("app-1")

    assert (
        f"cannot reach Docker: {tmp_path}/nobody.sock (DOCKER_HOST): no such file or directory; "
        "start it (sudo systemctl start docker), set DOCKER_HOST, or use the scheduler local_cwd"
    ) == str(caught.value)
    assert isinstance(caught.value, ConnectionError)


async def test_nobody_listens(monkeypatch: pytest.MonkeyPatch, refusing_port: int) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{refusing_port}")
    async with DockerScheduler("session") as scheduler:
        with pytest.raises(UnavailableError, match=r"http://127.0.0.1:\d+ \(DOCKER_HOST\): connection refused"):
            await scheduler.submit(app(shell(":")))


@pytest.mark.parametrize(
    ("status", "kind"), [(401, AuthError), (403, PermissionDeniedError), (503, UnavailableError), (500, SchedulerError)]
)
def test_a_refusal_is_not_taken_for_silence(status: int, kind: type[SchedulerError]) -> None:
    # Some of our errors are OSErrors, too, as those of a connection that breaks are.
    endpoint = Endpoint(url="unix:///x", source="DOCKER_HOST")
    with pytest.raises(kind) as caught, translating(endpoint, "cannot list", backend="b", operation="list"):
        raise answer_error(status, "not for you", "cannot list", "b", "list")

    assert ("cannot list", "not for you") == (caught.value.what, caught.value.why)


@pytest.mark.parametrize("body", [b'{"ApiVersion": "1.4', b"<html>", b"[]", b"{}"])
async def test_an_answer_that_is_not_dockers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    path = str(tmp_path / "other.sock")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    async with await asyncio.start_unix_server(answer, path), DockerScheduler("session") as scheduler:
        with pytest.raises(UnavailableError, match="its answer was cut off, or does not come from Docker"):
            await scheduler.list()


async def test_unknown_context(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("DOCKER_CONTEXT", "prod")
    async with DockerScheduler("session") as scheduler:
        with pytest.raises(ConfigError, match="cannot use the Docker context 'prod' that DOCKER_CONTEXT names"):
            await scheduler.list()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_no_permission_on_the_socket(dockerd: Dockerd) -> None:
    script = (
        "import asyncio, os\n"
        "from asyncsched.schedulers.docker import DockerScheduler\n"
        "import asyncsched._dockerd\n"
        "async def main():\n"
        "    async with DockerScheduler('session') as scheduler:\n"
        "        await asyncio.to_thread(int)\n"  # loads what nobody may read afterwards
        "        os.setuid(65534)\n"
        "        try:\n"
        "            await scheduler.list()\n"
        "        except PermissionError as error:\n"
        "            print(error)\n"
        "asyncio.run(main())\n"
    )
    dockerd.directory.chmod(0o755)
    environment = {**os.environ, "DOCKER_HOST": dockerd.host}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)

    assert (
        f"no permission to use Docker: user 65534 cannot open {dockerd.socket} (DOCKER_HOST); "
        "join the group that owns the socket (sudo usermod -aG docker $USER), then log in again\n"
    ) == done.stdout


@pytest.fixture
def special_dockerd(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Dockerd]:
    """A daemon with other options, or on a small disk."""
    if why := docker_service.why_it_cannot_run():
        pytest.skip(why)
    daemon = Dockerd(docker_service.new_directory(), options=request.param.get("options", ()))
    small = request.param.get("disk")
    if small:
        (daemon.directory / "data").mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={small}", "tmpfs", daemon.directory / "data"], check=True)
    try:
        daemon.start()
        daemon.import_images()
        monkeypatch.setenv("DOCKER_HOST", daemon.host)
        yield daemon
    finally:
        daemon.remove()


@pytest.mark.slow
@pytest.mark.parametrize("special_dockerd", [{"options": ("--log-driver=none",)}], indirect=True)
async def test_unreadable_log_driver(special_dockerd: Dockerd) -> None:
    async with DockerScheduler("session") as scheduler:
        app_id = await scheduler.submit(app(shell("echo unseen")))
        with pytest.raises(LogStreamError, match=r"log driver is 'none', which does not keep logs.*json-file"):
            async for _ in scheduler.log_iter(app_id, should_tail=True):
                pass

        assert AppState.SUCCEEDED is await end(scheduler, app_id)


@pytest.mark.slow
@pytest.mark.parametrize("special_dockerd", [{"disk": "24m"}], indirect=True)
async def test_full_disk(special_dockerd: Dockerd) -> None:
    full = special_dockerd.directory / "data" / "filler"
    with full.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"\0" * 4096)
    async with DockerScheduler("session") as scheduler:
        with pytest.raises(SchedulerError, match=r"the daemon's disk is full .*docker system prune"):
            await scheduler.submit(app(shell(OBEYS, num_replicas=3)))
    full.unlink()

    assert [] == special_dockerd.api.json("GET", "/containers/json?all=1")


# Images and registries


async def pushed(registry: Registry, dockerd: Dockerd, name: str, auth: str) -> str:
    """Push the busybox image under a name of its own, and forget it on the daemon."""
    image = f"{registry.address}/{name}"
    api = dockerd.api
    api.call("POST", f"/images/{BUSYBOX_IMAGE}/tag?repo={image}&tag=1")
    api.call("POST", f"/images/{image}/push?tag=1", headers={"X-Registry-Auth": auth})
    api.call("DELETE", f"/images/{image}:1")
    return f"{image}:1"


async def test_pull_with_a_login(
    scheduler: DockerScheduler, registry: Registry, dockerd: Dockerd, logged_in: Path
) -> None:
    from asyncsched._dockerd.credentials import registry_auth

    environ = {"DOCKER_CONFIG": str(logged_in)}
    auth = await asyncio.to_thread(registry_auth, f"{registry.address}/x", environ, Path("/"))
    image = await pushed(registry, dockerd, "private/busybox", auth)
    app_id = await scheduler.submit(app(shell(":", image=image, num_replicas=3), shell(":", name="b", image=image)))
    daemon = await scheduler._docker()

    assert AppState.SUCCEEDED is await end(scheduler, app_id)
    assert 1 == daemon.pulls
    await end(scheduler, await scheduler.submit(app(shell(":", image=image))))
    assert 1 == daemon.pulls
    await end(scheduler, await scheduler.submit(app(shell(":", image=image)), {"pull": "always"}))
    assert 2 == daemon.pulls


async def test_pull_without_a_login(scheduler: DockerScheduler, registry: Registry, dockerd: Dockerd) -> None:
    image = f"{registry.address}/private/other:1"

    with pytest.raises(AuthError, match=rf"cannot pull the image {image}: .*docker login"):
        await scheduler.submit(app(shell(OBEYS), shell(":", name="second", image=image)))

    assert [] == dockerd.api.json("GET", "/containers/json?all=1")


async def test_missing_image_whose_registry_cannot_be_reached(
    scheduler: DockerScheduler, dockerd: Dockerd, refusing_port: int
) -> None:
    image = f"127.0.0.1:{refusing_port}/absent:1"

    with pytest.raises(UnavailableError) as caught:
        await scheduler.submit(app(shell(OBEYS), shell(":", name="second", image=image)))

    # It is not the daemon that cannot be reached.
    assert f"cannot pull the image {image}" == caught.value.what
    assert "connection refused" in caught.value.why
    assert "check the image's name, and that its registry can be reached" == caught.value.fix
    assert [] == dockerd.api.json("GET", "/containers/json?all=1")


async def test_pull_of_what_the_registry_does_not_have(
    scheduler: DockerScheduler, registry: Registry, dockerd: Dockerd, logged_in: Path
) -> None:
    image = f"{registry.address}/private/absent:1"

    with pytest.raises(SchedulerError, match=rf"cannot pull the image {image}: .*manifest unknown"):
        await scheduler.submit(app(shell(OBEYS), shell(":", name="second", image=image)))

    assert [] == dockerd.api.json("GET", "/containers/json?all=1")


async def test_a_failed_replica_stops_the_others(scheduler: DockerScheduler) -> None:
    roles = shell(OBEYS, name="others", num_replicas=2), shell("exit 3", name="bad")
    app_id = await scheduler.submit(app(*roles), {"on_failure": "stop"})

    assert AppState.FAILED is await end(scheduler, app_id)
    status = await scheduler.describe(app_id)
    assert status is not None
    assert [AppState.CANCELLED, AppState.CANCELLED, AppState.FAILED] == [each.state for each in status.replicas]
    assert status.replicas[0].reason.startswith("stopped because another replica failed")


async def test_ended_apps_go_by_prune_and_by_remove_after(scheduler: DockerScheduler) -> None:
    runs = await scheduler.submit(app(shell(OBEYS)))
    kept = await scheduler.submit(app(shell(":")))
    expiring = await scheduler.submit(app(shell(":")), {"remove_after": 0.0})
    for app_id in (kept, expiring):
        await end(scheduler, app_id)

    last = await scheduler.submit(app(shell(":")))
    assert {runs, kept, last} == {row.app_id for row in await scheduler.list()}
    await end(scheduler, last)

    assert {kept, last} == set(await scheduler.prune(timedelta(0)))
    assert [runs] == [row.app_id for row in await scheduler.list()]
