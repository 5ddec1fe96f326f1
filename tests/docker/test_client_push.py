"""Pushing to a real registry, which wants a login, with and without breaks."""

from __future__ import annotations

import asyncio
import io
import secrets
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from asyncsched._dockerd import Daemon, find_remote, inspect_image, provide_image, push_image
from asyncsched._dockerd.endpoint import Endpoint
from asyncsched.errors import AuthError, NotFoundError, UnavailableError
from asyncsched.specs.image_progress import ImageProgress
from asyncsched.workspace.image import docker_login
from tests.docker._proxy import CuttingProxy
from tests.services.dockerd import BUSYBOX_IMAGE, Dockerd, import_image
from tests.services.registry import Registry

pytestmark = [pytest.mark.service, pytest.mark.usefixtures("docker_host")]


@pytest.fixture
async def daemon(docker_host: str) -> AsyncIterator[Daemon]:
    daemon = Daemon()
    yield daemon
    await daemon.close()


@pytest.fixture
def image(dockerd: Dockerd) -> str:
    """An image with a layer of four megabytes that no registry has."""
    name = f"pushed-{secrets.token_hex(4)}:1"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        entry = tarfile.TarInfo("random")
        entry.size = 4 << 20
        tar.addfile(entry, io.BytesIO(secrets.token_bytes(entry.size)))
    import_image(dockerd.api, name, buffer.getvalue())
    return name


@asynccontextmanager
async def relay(address: str, cut_after: int) -> AsyncIterator[tuple[str, list[int]]]:
    """A relay to a registry that breaks a connection, once, after so many bytes of it have come."""
    host, _, port = address.partition(":")
    cuts: list[int] = []
    passed = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal passed
        behind_reader, behind_writer = await asyncio.open_connection(host, int(port))

        async def back() -> None:
            with suppress(OSError):
                while data := await behind_reader.read(65536):
                    writer.write(data)
                    await writer.drain()
            writer.close()

        answering = asyncio.create_task(back())
        with suppress(OSError):
            while data := await reader.read(65536):
                passed += len(data)
                if passed > cut_after and not cuts:
                    cuts.append(passed)
                    writer.transport.abort()
                    break
                behind_writer.write(data)
                await behind_writer.drain()
        behind_writer.close()
        await answering

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", cuts
    finally:
        server.close()


async def test_a_push_needs_the_login_and_tells_how_far_it_is(
    daemon: Daemon, image: str, registry: Registry, logged_in: Path
) -> None:
    repository = f"{registry.address}/team/{image.partition(':')[0]}"
    login = await docker_login(repository)
    steps: list[ImageProgress] = []

    with pytest.raises(AuthError, match="docker login"):
        await push_image(daemon, image, repository, "1", "", steps.append)
    with pytest.raises(AuthError):
        await find_remote(daemon, f"{repository}:1", "")
    assert await find_remote(daemon, f"{repository}:1", login) is None
    await push_image(daemon, image, repository, "1", login, steps.append)
    found = await find_remote(daemon, f"{repository}:1", login)
    local = await inspect_image(daemon, image)

    assert found is not None
    assert local is not None
    assert f"{repository}@{found.digest}" in local["RepoDigests"]
    assert ("linux/amd64",) == found.platforms
    assert any((step.current or 0) > 0 for step in steps)
    assert all(step.status for step in steps)
    assert f"{repository}:1" in {step.image for step in steps}


async def test_a_push_goes_on_where_the_connection_to_the_daemon_was_cut(
    image: str, registry: Registry, logged_in: Path, dockerd: Dockerd, tmp_path: Path
) -> None:
    repository = f"{registry.address}/cut/{image.partition(':')[0]}"
    login = await docker_login(repository)
    async with CuttingProxy(dockerd.socket, tmp_path) as proxy:
        proxy.room = lambda line: (
            300 if "/push?" in line and sum("/push?" in each for each in proxy.requests) == 1 else None
        )
        daemon = Daemon(endpoint=Endpoint(url=proxy.host, source="test"))
        try:
            await push_image(daemon, image, repository, "1", login, lambda _: None)
            found = await find_remote(daemon, f"{repository}:1", login)
        finally:
            await daemon.close()

    assert found is not None
    assert 2 == sum("/push?" in line for line in proxy.requests)


@pytest.mark.slow  # the daemon waits five seconds before it tries a layer again
async def test_a_push_goes_on_where_the_connection_to_the_registry_was_cut(
    daemon: Daemon, image: str, registry: Registry, logged_in: Path
) -> None:
    login = await docker_login(registry.address + "/x")
    steps: list[ImageProgress] = []
    async with relay(registry.address, 1 << 20) as (address, cuts):
        await push_image(daemon, image, f"{address}/cut/registry", "1", login, steps.append)
        found = await find_remote(daemon, f"{address}/cut/registry:1", login)

    assert 1 == len(cuts)
    assert any("Retrying" in step.status for step in steps)
    assert found is not None


async def test_a_registry_that_is_not_there_is_named(daemon: Daemon, image: str) -> None:
    with pytest.raises(UnavailableError, match=r"cannot push 127\.0\.0\.1:9/x:1"):
        await push_image(daemon, image, "127.0.0.1:9/x", "1", "", lambda _: None)
    with pytest.raises(UnavailableError, match=r"cannot ask the registry for 127\.0\.0\.1:9/x:1: .*refused"):
        await find_remote(daemon, "127.0.0.1:9/x:1", "")


async def test_an_image_that_is_not_there_cannot_be_pushed(daemon: Daemon) -> None:
    with pytest.raises(NotFoundError, match="nosuch"):
        await push_image(daemon, "nosuch:1", "127.0.0.1:9/x", "1", "", lambda _: None)


async def test_what_was_pushed_is_pulled_for_a_platform(
    daemon: Daemon, registry: Registry, logged_in: Path, image: str
) -> None:
    repository = f"{registry.address}/platform"
    await push_image(daemon, BUSYBOX_IMAGE, repository, "1", await docker_login(repository), lambda _: None)

    await provide_image(daemon, f"{repository}:1", "always", lambda _: None, platform="linux/amd64")
