"""Files that are laid over an image without a builder: what comes out is what the classic builder makes."""

from __future__ import annotations

import asyncio
import io
import json
import tarfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from asyncsched._dockerd import Daemon, build_image, can_lay_over, inspect_image, lay_over
from asyncsched._dockerd.endpoint import Endpoint
from asyncsched._dockerd.layer import abandoned
from asyncsched.errors import WorkspaceError
from asyncsched.specs.image_progress import ImageProgress
from tests._support import eventually
from tests.docker._proxy import CuttingProxy
from tests.services.dockerd import BUSYBOX_IMAGE, Dockerd

pytestmark = [pytest.mark.service, pytest.mark.one_loop]

RICH = """
ENV A=1 PATH=/bin:/opt
USER nobody
WORKDIR /srv/new
ENTRYPOINT ["sh", "-c"]
CMD ["true"]
LABEL one=1 two=2
EXPOSE 80
STOPSIGNAL SIGINT
SHELL ["/bin/sh", "-ec"]
HEALTHCHECK --interval=5s CMD true
"""
IN_THE_WAY = """
RUN mkdir -p /work/was-dir/deep /work/dir /else && echo old >/work/was-file && echo old >/work/dir/stays && \
    ln -s /else /work/was-link && chmod 0700 /work/dir && chmod 1777 /work && ln -s /work /app
WORKDIR /app
"""
BASES = {
    "nothing": "",
    "command": 'CMD ["sh"]\n',
    "entrypoint": 'ENTRYPOINT ["sh"]\n',
    "rich": RICH,
    "something-in-the-way": IN_THE_WAY,
}


@pytest.fixture
async def daemon(docker_host: str, dockerd: Dockerd) -> AsyncIterator[Daemon]:
    daemon = Daemon()
    yield daemon
    await daemon.close()
    dockerd.clean()


def packed(below: str = "", more: Mapping[str, bytes] | None = None) -> bytes:
    """Pack a workspace as one is sent, with what is easily lost."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:

        def add(name: str, kind: bytes, mode: int, content: bytes = b"", target: str = "") -> None:
            entry = tarfile.TarInfo(f"{below}{name}")
            entry.type, entry.mode, entry.size, entry.linkname = kind, mode, len(content), target
            tar.addfile(entry, io.BytesIO(content))

        if below:
            add("", tarfile.DIRTYPE, 0o755)
        add("dir", tarfile.DIRTYPE, 0o750)
        add("dir/file", tarfile.REGTYPE, 0o640, b"in it\n")
        add("empty", tarfile.DIRTYPE, 0o2775)
        add("lib64", tarfile.SYMTYPE, 0o777, target="dir")
        add("nowhere", tarfile.SYMTYPE, 0o777, target="/nowhere")
        add("n" * 180, tarfile.REGTYPE, 0o600, b"a long name")
        add("run.sh", tarfile.REGTYPE, 0o755, b"#!/bin/sh\n")
        add("was-dir", tarfile.REGTYPE, 0o644, b"a file now\n")
        add("was-file", tarfile.DIRTYPE, 0o755)
        add("was-link", tarfile.DIRTYPE, 0o755)
        add("was-link/in", tarfile.REGTYPE, 0o444, b"")
        add("żółw\udcff", tarfile.REGTYPE, 0o644, b"a name that is not UTF-8")
        for name, content in (more or {}).items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def streamed(*pieces: bytes) -> Callable[[], AsyncGenerator[bytes]]:
    async def stream() -> AsyncGenerator[bytes]:
        for piece in pieces:
            yield piece

    return stream


def quiet(_: ImageProgress) -> None:
    pass


async def built(daemon: Daemon, dockerfile: str, archive: bytes | None = None, name: str = "built:1") -> str:
    """Build with the classic builder."""
    text = f"FROM {BUSYBOX_IMAGE}\n{dockerfile}" if archive is None else dockerfile
    given = packed("workspace/", {"Dockerfile": text.encode()}) if archive is None else archive
    return await build_image(
        daemon,
        name,
        streamed(given),
        dockerfile="Dockerfile",
        build_args={},
        labels={"made-by": "test"},
        network="none",
        buildkit=False,
        on_progress=quiet,
    )


async def laid(daemon: Daemon, base: str, files: Callable[[], AsyncGenerator[bytes]] | None = None) -> str:
    found = await inspect_image(daemon, base)
    assert found is not None
    assert can_lay_over(found)
    labels = {"made-by": "test"}
    return await lay_over(daemon, "laid:1", found, files or streamed(packed()), labels=labels, on_progress=quiet)


def config_of(dockerd: Dockerd, image: str) -> dict[str, Any]:
    """Return what a container of an image gets; without what names the build, and empty for null."""
    config = dict(dockerd.api.json("GET", f"/images/{image}/json")["Config"])
    del config["Image"]
    config["Labels"] = {key: value for key, value in config["Labels"].items() if key != "asyncsched.build"}
    return {key: value or None for key, value in config.items()}


def files_of(dockerd: Dockerd, image: str) -> dict[str, tuple[Any, ...]]:
    """Return all that a container of an image sees: kind, mode, owner, link, bytes, and the time of what was sent."""
    created = {"Image": image, "Entrypoint": ["true"]}
    container = dockerd.api.json("POST", "/containers/create", created)["Id"]
    raw = dockerd.api.call("GET", f"/containers/{container}/export")
    found: dict[str, tuple[Any, ...]] = {}
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        for entry in tar:
            file = tar.extractfile(entry) if entry.isreg() else None
            time = entry.mtime if entry.mtime == 0 else None
            owner = entry.uid, entry.gid
            content = file.read() if file else b""
            found[entry.name] = (entry.type, oct(entry.mode), owner, entry.linkname, time, content)
    return found


def last_layer(dockerd: Dockerd, image: str) -> set[str]:
    """Return the names in the layer with the files, which is what is pushed."""
    raw = dockerd.api.call("GET", f"/images/{image}/get")
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        manifest = tar.extractfile("manifest.json")
        assert manifest is not None
        for path in reversed(json.load(manifest)[0]["Layers"]):
            layer = tar.extractfile(path)
            assert layer is not None
            with tarfile.open(fileobj=layer) as inner:
                if names := {name for name in inner.getnames() if name}:
                    return names
    return set()


@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
async def test_it_is_what_the_classic_builder_makes(daemon: Daemon, dockerd: Dockerd, base: str) -> None:
    await built(daemon, base, name="base:1")
    copied = await built(
        daemon, "", packed("workspace/", {"Dockerfile": b"FROM base:1\nCOPY workspace/ .\n"}), name="copied:1"
    )
    image = await laid(daemon, "base:1")

    assert await asyncio.to_thread(config_of, dockerd, copied) == await asyncio.to_thread(config_of, dockerd, image)
    files = await asyncio.to_thread(files_of, dockerd, copied)
    assert files == await asyncio.to_thread(files_of, dockerd, image)
    assert any(name.endswith("was-link/in") for name in files)
    assert last_layer(dockerd, copied) == last_layer(dockerd, image)


async def test_an_image_that_names_no_path_gets_the_one_that_builders_set(daemon: Daemon, dockerd: Dockerd) -> None:
    dockerfile = f"FROM {BUSYBOX_IMAGE}\nCOPY workspace/ .\n"
    copied = await built(daemon, "", packed("workspace/", {"Dockerfile": dockerfile.encode()}), name="copied:1")
    image = await laid(daemon, BUSYBOX_IMAGE)

    assert await asyncio.to_thread(config_of, dockerd, copied) == await asyncio.to_thread(config_of, dockerd, image)


def left(dockerd: Dockerd) -> tuple[set[str], set[str]]:
    """Return the ids of all images, and of all containers."""
    images = {image["Id"] for image in dockerd.api.json("GET", "/images/json?all=1")}
    return images, {each["Id"] for each in dockerd.api.json("GET", "/containers/json?all=1")}


async def base_of(daemon: Daemon, name: str = BUSYBOX_IMAGE) -> dict[str, Any]:
    found = await inspect_image(daemon, name)
    assert found is not None
    return found


@pytest.mark.parametrize("dockerfile", ["VOLUME /data\n", "ONBUILD RUN true\n"])
async def test_volumes_and_triggers_are_for_a_builder(daemon: Daemon, dockerfile: str) -> None:
    assert can_lay_over(await base_of(daemon))

    assert not can_lay_over(await base_of(daemon, await built(daemon, dockerfile, name="base:2")))


async def test_what_is_cancelled_while_files_are_sent_leaves_nothing(daemon: Daemon, dockerd: Dockerd) -> None:
    before, sending = left(dockerd), asyncio.Event()
    is_open: list[bool] = []

    async def endless() -> AsyncGenerator[bytes]:
        is_open.append(True)
        try:
            entry = tarfile.TarInfo("big")
            entry.size = 1 << 30
            yield entry.tobuf()
            yield bytes(65536)
            sending.set()
            await asyncio.Event().wait()
        finally:
            is_open.clear()

    laying = asyncio.create_task(laid(daemon, BUSYBOX_IMAGE, endless))
    await asyncio.wait_for(sending.wait(), 60)
    laying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await laying

    assert [] == is_open
    assert before == left(dockerd)


@pytest.mark.parametrize("at", ["containers/create", "/archive?", "/commit?", "DELETE /", "/tag?"])
async def test_what_is_cancelled_at_any_request_leaves_nothing(
    daemon: Daemon, dockerd: Dockerd, tmp_path: Path, at: str
) -> None:
    before = left(dockerd)
    async with CuttingProxy(dockerd.socket, tmp_path) as proxy:
        through = Daemon(endpoint=Endpoint(url=proxy.host, source="test"))
        proxy.held = at
        laying = asyncio.create_task(laid(through, BUSYBOX_IMAGE))
        await eventually(lambda: any(at in line for line in proxy.requests))
        laying.cancel()
        proxy.release()
        with pytest.raises(asyncio.CancelledError):
            await laying
        await through.close()

    assert before == left(dockerd)


@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize("at", ["containers/create", "/archive?", "/commit?"])
async def test_it_goes_on_where_its_connection_was_cut(
    daemon: Daemon, dockerd: Dockerd, tmp_path: Path, at: str, how: str
) -> None:
    before, others = left(dockerd)
    async with CuttingProxy(dockerd.socket, tmp_path) as proxy:
        cut: list[int] = []

        def drop(number: int, line: str) -> str:
            if at in line and not cut:
                cut.append(number)
                return how
            return ""

        proxy.drop = drop
        through = Daemon(endpoint=Endpoint(url=proxy.host, source="test"))
        try:
            image = await laid(through, BUSYBOX_IMAGE)
        finally:
            await through.close()

    images, containers = left(dockerd)
    assert ({image}, others) == (images - before, containers)
    assert "dir/file" in await asyncio.to_thread(files_of, dockerd, image)
    assert 1 == len(cut)


async def test_a_container_that_someone_removes_is_made_again(daemon: Daemon, dockerd: Dockerd, tmp_path: Path) -> None:
    async with CuttingProxy(dockerd.socket, tmp_path) as proxy:
        proxy.held = "/archive?"
        through = Daemon(endpoint=Endpoint(url=proxy.host, source="test"))
        laying = asyncio.create_task(laid(through, BUSYBOX_IMAGE))
        await eventually(lambda: any("/archive?" in line for line in proxy.requests))
        ours = "/containers/prune?filters=" + quote('{"label":["asyncsched.build"]}')
        pruned = await asyncio.to_thread(dockerd.api.json, "POST", ours)
        proxy.release()
        image = await laying
        await through.close()

    assert 1 == len(pruned["ContainersDeleted"])
    assert "dir/file" in await asyncio.to_thread(files_of, dockerd, image)


def test_only_containers_that_nobody_goes_on_with_are_abandoned() -> None:
    day = 24 * 3600
    found = [
        {"Id": name, "State": state, "Created": 10 * day + created}
        for name, state, created in (
            ("own", "created", 0),
            ("own again", "created", 5),
            ("beside it", "created", -day),
            ("killed", "created", -day - 1),
            ("started by somebody", "exited", -5 * day),
        )
    ]

    assert ["killed"] == abandoned(found, ["own", "own again"])
    assert [] == abandoned(found, [])


async def test_a_container_is_told_from_those_of_its_image_by_its_name(
    daemon: Daemon, dockerd: Dockerd, tmp_path: Path
) -> None:
    async with CuttingProxy(dockerd.socket, tmp_path) as proxy:
        proxy.held = "/archive?"
        through = Daemon(endpoint=Endpoint(url=proxy.host, source="test"))
        laying = asyncio.create_task(laid(through, BUSYBOX_IMAGE))
        await eventually(lambda: any("/archive?" in line for line in proxy.requests))
        (line,) = [line for line in proxy.requests if "/containers/create" in line]
        name = line.partition("name=")[2].split()[0]
        (entry,) = await daemon.list_containers(names=[f"^/{name}$"], operation="test")
        proxy.release()
        await laying
        await through.close()

        assert ("created", [f"/{name}"]) == (entry["State"], entry["Names"])
        assert name.startswith("asyncsched-build-")
        assert [] == await daemon.list_containers(names=[f"^/{name}$"], operation="test")


async def test_files_that_break_end_it_with_their_error(daemon: Daemon, dockerd: Dockerd) -> None:
    before = left(dockerd)

    async def breaking() -> AsyncGenerator[bytes]:
        yield packed()[:1024]
        raise WorkspaceError("a file has shrunk")

    with pytest.raises(WorkspaceError, match="a file has shrunk"):
        await asyncio.wait_for(laid(daemon, BUSYBOX_IMAGE, breaking), 60)

    assert before == left(dockerd)


async def test_a_working_directory_that_is_a_file_is_said(daemon: Daemon, dockerd: Dockerd) -> None:
    base = await base_of(daemon)
    base["Config"] = {**base["Config"], "WorkingDir": "/etc/passwd"}
    before = left(dockerd)

    with pytest.raises(WorkspaceError, match="cannot build the image laid:1"):
        await lay_over(daemon, "laid:1", base, streamed(packed()), labels={}, on_progress=quiet)

    assert before == left(dockerd)
