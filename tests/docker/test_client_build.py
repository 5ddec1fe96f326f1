"""Building images on a real daemon, with both builders."""

from __future__ import annotations

import asyncio
import base64
import io
import tarfile
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from asyncsched._dockerd import Daemon, build_image
from asyncsched._dockerd.build import _BuildKit, _Classic
from asyncsched._dockerd.endpoint import Endpoint
from asyncsched.errors import WorkspaceError
from asyncsched.specs.image_progress import ImageProgress
from tests.docker._proxy import CuttingProxy
from tests.docker.test_client_trace import field
from tests.services.dockerd import BUSYBOX_IMAGE, Dockerd

pytestmark = pytest.mark.service

START = "ARG IMAGE\nFROM $IMAGE\n"
builders = pytest.mark.parametrize("buildkit", [True, False], ids=["buildkit", "classic"])


@pytest.fixture
async def daemon(docker_host: str, dockerd: Dockerd) -> AsyncIterator[Daemon]:
    daemon = Daemon()
    yield daemon
    await daemon.close()
    dockerd.clean()


def packed(files: Mapping[str, bytes | str]) -> bytes:
    """Pack files, and links where a target stands for the content."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            if isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
                tar.addfile(entry)
            else:
                entry.size, entry.mode = len(content), 0o750 if name.endswith(".sh") else 0o640
                tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


async def build(
    daemon: Daemon,
    dockerfile: str,
    *,
    buildkit: bool,
    files: Mapping[str, bytes | str] | None = None,
    name: str = "built:1",
    said: list[str] | None = None,
    until: str = "",
    reached: asyncio.Event | None = None,
    context: AsyncGenerator[bytes] | None = None,
) -> str:
    async def archive() -> AsyncGenerator[bytes]:
        yield packed({"Dockerfile": dockerfile.encode(), **(files or {})})

    def report(step: ImageProgress) -> None:
        if said is not None:
            said.append(step.status)
        if reached is not None and step.status == until:
            reached.set()

    return await build_image(
        daemon,
        name,
        archive if context is None else lambda: context,
        dockerfile="Dockerfile",
        build_args={"IMAGE": BUSYBOX_IMAGE},
        labels={"made-by": "test"},
        network="none",
        buildkit=buildkit,
        on_progress=report,
    )


def images(dockerd: Dockerd) -> set[str]:
    return {image["Id"] for image in dockerd.api.json("GET", "/images/json?all=1")}


def content_of(dockerd: Dockerd, image: str, path: str) -> dict[str, tuple[Any, ...]]:
    """Return type, mode, link and bytes of everything below a path of an image."""
    container = dockerd.api.json("POST", "/containers/create", {"Image": image, "Cmd": ["true"]})["Id"]
    raw = dockerd.api.call("GET", f"/containers/{container}/archive?path={path}")
    found: dict[str, tuple[Any, ...]] = {}
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        for entry in tar:
            file = tar.extractfile(entry) if entry.isreg() else None
            found[entry.name] = (entry.type, entry.mode & 0o7777, entry.linkname, file.read() if file else b"")
    return found


async def test_both_builders_make_the_same_files(daemon: Daemon, dockerd: Dockerd) -> None:
    files: dict[str, bytes | str] = {
        "ws/a.txt": b"text",
        "ws/run.sh": b"#!/bin/sh\n",
        "ws/lib/deep/file": b"\0" * 100_000,
        "ws/lib64": "lib",
        "ws/broken": "nowhere",
        "ws/outside": "/etc/passwd",
    }
    found = []
    for buildkit in (True, False):
        image = await build(daemon, START + "COPY ws/ /work\n", buildkit=buildkit, files=files)
        found.append(await asyncio.to_thread(content_of, dockerd, image, "/work"))

    assert found[0] == found[1]
    assert {"work/a.txt", "work/lib64", "work/broken", "work/outside"} <= found[0].keys()
    assert (tarfile.REGTYPE, 0o750, "", b"#!/bin/sh\n") == found[0]["work/run.sh"]
    assert (tarfile.SYMTYPE, "/etc/passwd") == (found[0]["work/outside"][0], found[0]["work/outside"][2])


@builders
async def test_a_build_that_fails_shows_its_last_lines(daemon: Daemon, *, buildkit: bool) -> None:
    said: list[str] = []

    with pytest.raises(WorkspaceError) as caught:
        await build(daemon, START + "RUN echo one; echo two >&2; exit 3\n", buildkit=buildkit, said=said)

    assert {"one", "two"} <= set(str(caught.value).replace(";", "").replace(" ", "").splitlines())
    assert {"one", "two"} <= set(said)
    assert "3" in str(caught.value)


def logged(stream: int, text: str) -> dict[str, Any]:
    """Make BuildKit's record of what a step has written."""
    log = field(1, "step") + field(3, stream) + field(4, text)
    return {"id": "moby.buildkit.trace", "aux": base64.b64encode(field(3, log))}


def coloured(text: str) -> dict[str, Any]:
    """Make the classic builder's record of what a step has written to stderr."""
    return {"stream": f"\x1b[91m{text}\x1b[0m"}


@pytest.mark.parametrize(
    ("reader", "records"),
    [
        (
            _Classic,
            [
                {"stream": "o"},
                coloured("t"),
                {"stream": "ne"},
                coloured("wo"),
                {"stream": "Removing intermediate container x"},
            ],
        ),
        (_BuildKit, [logged(1, "o"), logged(2, "t"), logged(1, "n"), logged(2, "wo\n"), logged(1, "e")]),
    ],
)
def test_lines_that_come_in_parts_are_whole(reader: type[_Classic | _BuildKit], records: list[dict[str, Any]]) -> None:
    said: list[str] = []
    read = reader("built:1", lambda step: said.append(step.status))
    for record in records:
        read.read(record)
    read.finish()

    assert {"one", "two"} <= set(said)
    assert said == [*read.lines]


async def test_buildkit_mounts_a_cache_and_the_classic_builder_says_that_it_cannot(daemon: Daemon) -> None:
    dockerfile = START + "RUN --mount=type=cache,target=/cache echo hello > /out\n"

    assert (await build(daemon, dockerfile, buildkit=True)).startswith("sha256:")
    with pytest.raises(WorkspaceError, match="requires BuildKit"):
        await build(daemon, dockerfile, buildkit=False)


async def test_what_needs_a_session_says_so(daemon: Daemon) -> None:
    with pytest.raises(WorkspaceError, match="need a session"):
        await build(daemon, START + "RUN --mount=type=ssh,required true\n", buildkit=True)


@builders
async def test_a_cancelled_build_leaves_nothing(daemon: Daemon, dockerd: Dockerd, *, buildkit: bool) -> None:
    before = images(dockerd)
    reached = asyncio.Event()
    dockerfile = START + "RUN echo first > /first\nCOPY Dockerfile /copied\nRUN echo begun; sleep 300\n"
    building = asyncio.create_task(
        build(daemon, dockerfile, buildkit=buildkit, name="cancelled:1", until="begun", reached=reached)
    )
    await asyncio.wait_for(reached.wait(), 60)

    building.cancel()
    with pytest.raises(asyncio.CancelledError):
        await building

    assert before == images(dockerd)
    assert [] == dockerd.api.json("GET", "/containers/json?all=1")


@builders
async def test_a_build_that_is_cancelled_while_files_are_sent_closes_them(
    daemon: Daemon, dockerd: Dockerd, *, buildkit: bool
) -> None:
    before = images(dockerd)
    is_open, sending = [], asyncio.Event()

    async def endless() -> AsyncGenerator[bytes]:
        is_open.append(True)
        try:
            entry = tarfile.TarInfo("big")
            entry.size = 1 << 40
            yield entry.tobuf()
            while True:
                yield bytes(65536)
                sending.set()
        finally:
            is_open.clear()

    building = asyncio.create_task(build(daemon, "", buildkit=buildkit, context=endless()))
    await asyncio.wait_for(sending.wait(), 60)

    building.cancel()
    with pytest.raises(asyncio.CancelledError):
        await building

    assert [] == is_open
    assert before == images(dockerd)


@builders
async def test_a_context_that_breaks_ends_the_build_with_its_error(
    daemon: Daemon, dockerd: Dockerd, *, buildkit: bool
) -> None:
    before = images(dockerd)

    async def breaking() -> AsyncGenerator[bytes]:
        yield packed({"Dockerfile": START.encode()})[:1024]
        raise WorkspaceError("a file has shrunk")

    with pytest.raises(WorkspaceError, match="a file has shrunk"):
        await asyncio.wait_for(build(daemon, "", buildkit=buildkit, context=breaking()), 60)

    assert before == images(dockerd)


@builders
async def test_a_build_goes_on_where_its_connection_was_cut(
    dockerd: Dockerd, docker_host: str, tmp_path: Path, *, buildkit: bool
) -> None:
    async with CuttingProxy(dockerd.socket, tmp_path) as proxy:
        cut: list[int] = []

        def drop(number: int, line: str) -> str:
            if "/build?" in line and not cut:
                cut.append(number)
                return "before"
            return ""

        proxy.drop = drop
        daemon = Daemon(endpoint=Endpoint(url=proxy.host, source="test"))
        try:
            image = await build(daemon, START + "COPY Dockerfile /copied\n", buildkit=buildkit)
        finally:
            await daemon.close()

    assert image.startswith("sha256:")
    assert 1 == len(cut)
