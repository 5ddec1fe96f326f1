"""Plain files that somebody else writes: each line once, in order, whatever happens to the file."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsched.errors import LogStreamError
from asyncsched.logs import FileSource, LogLine, LogStream
from asyncsched.logs import files as module
from asyncsched.logs.file_reader import CHUNK, CHUNKS, FileReader, PastEnd
from asyncsched.logs.inotify import Follower
from tests._support import eventually
from tests.logs._fakes import drain, origin, stream_of


def append(path: Path, text: str | bytes) -> None:
    with path.open("ab") as file:
        file.write(text if isinstance(text, bytes) else text.encode())


def texts(lines: list[LogLine]) -> list[str]:
    return [line.text for line in lines]


class Silent(Follower):
    """Never tells of anything, as a network file system does not."""

    def watch(self, fd: int, changed: Callable[[], None]) -> Any:
        return type("Nothing", (), {"close": lambda self: None})()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out.log"


@pytest.fixture
async def following(path: Path) -> AsyncGenerator[Callable[..., tuple[LogStream, FileSource]]]:
    streams: list[LogStream] = []

    def follow(**more: Any) -> tuple[LogStream, FileSource]:
        tail_lines = more.get("tail_lines")
        source = FileSource(path, origin(), follow=True, **more)
        streams.append(stream_of(source, tail=True, tail_lines=tail_lines))
        return streams[-1], source

    yield follow
    for stream in streams:
        await stream.aclose()


async def test_a_file_is_read_to_its_present_end(path: Path) -> None:
    append(path, "".join(f"{number}\n" for number in range(20_000)) + "unfinished")
    got = await drain(stream_of(FileSource(path, origin())))

    assert [*map(str, range(20_000)), "unfinished"] == texts(got)
    assert {None} == {line.ns for line in got}


async def test_a_file_that_is_not_there_is_empty(path: Path) -> None:
    assert [] == await drain(stream_of(FileSource(path, origin())))


@pytest.mark.parametrize("follower", [Follower, lambda: Follower(inotify=None), Silent])
async def test_growth_is_followed(path: Path, following: Any, follower: Callable[[], Follower]) -> None:
    stream, source = following(follower=follower())
    for number in range(20):
        append(path, f"{number}\n")
        assert f"{number}" == (await anext(stream)).text
    append(path, "last")
    source.finish()

    assert ["last"] == texts(await drain(stream))


async def test_it_waits_for_a_file_that_is_made_later(path: Path, following: Any) -> None:
    stream, _ = following()
    reading = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    append(path, "first\n")

    assert "first" == (await reading).text


async def test_a_line_is_whole_however_it_is_written(path: Path, following: Any) -> None:
    stream, source = following()
    for piece in ("a", "b\nc", "\n", "\u20ac".encode()[:1], "\u20ac".encode()[1:], "\n"):
        append(path, piece)
        await asyncio.sleep(0)
    source.finish()

    assert ["ab", "c", "\u20ac"] == texts(await drain(stream))


async def test_progress_output_is_handed_on_before_its_newline(path: Path, following: Any) -> None:
    stream, _ = following()
    append(path, "10 %\r")

    assert "10 %\r" == await anext(stream)


async def test_a_file_that_is_replaced_is_read_to_its_end_and_then_the_other(path: Path, following: Any) -> None:
    stream, source = following()
    append(path, "0\n")
    assert "0" == (await anext(stream)).text
    writer = path.open("ab", buffering=0)
    path.rename(path.with_suffix(".1"))
    writer.write(b"1\n2\n")  # as a program that still has it open
    append(path, "3\n")
    lines = [await anext(stream) for _ in range(3)]
    writer.close()
    source.finish()

    assert ["1", "2", "3"] == texts(lines)
    assert [] == await drain(stream)


async def test_a_file_that_is_cut_short_is_told_by_a_gap(path: Path, following: Any) -> None:
    stream, source = following()
    append(path, "0\n1\n")
    assert ["0", "1"] == texts([await anext(stream), await anext(stream)])
    os.truncate(path, 0)
    gap = await anext(stream)
    append(path, "2\n")
    after = await anext(stream)
    source.finish()

    assert gap.gap is not None
    assert "truncated from 4 bytes to 0" in gap.gap.reason
    assert "2" == after.text
    assert [] == await drain(stream)


async def test_a_file_that_is_removed_is_read_to_its_end(path: Path, following: Any) -> None:
    stream, source = following()
    append(path, "0\n")
    assert "0" == (await anext(stream)).text
    with path.open("ab", buffering=0) as writer:
        path.unlink()
        writer.write(b"1\n")
    source.finish()

    assert ["1"] == texts(await drain(stream))


@pytest.mark.parametrize("count", [1, 5, 1000, 5000])
async def test_the_last_lines_come_first(path: Path, following: Any, count: int) -> None:
    append(path, "".join(f"{number} {'x' * 97}\n" for number in range(2000)))
    stream, source = following(tail_lines=count)
    past = [await anext(stream) for _ in range(min(count, 2000))]
    append(path, "new\n")
    new = await anext(stream)
    source.finish()

    assert [*map(str, range(2000))][max(0, 2000 - count) :] == [line.split()[0] for line in past]
    assert "new" == new.text


@pytest.mark.parametrize("kind", ["link", "fifo", "directory"])
async def test_what_is_no_regular_file_is_refused(path: Path, tmp_path: Path, kind: str) -> None:
    if kind == "link":
        append(tmp_path / "secret", "secret\n")
        path.symlink_to(tmp_path / "secret")
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(LogStreamError, match="log of app is incomplete") as caught:
        await drain(stream_of(FileSource(path, origin())))
    assert "cannot be read" in str(caught.value.failures[0].cause)


@pytest.mark.parametrize(("number", "passes"), [(errno.EMFILE, True), (errno.EIO, False)])
async def test_a_file_that_cannot_be_read_for_now_may_be_read_again(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int, passes: bool
) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    append(path, "line\n")
    with monkeypatch.context() as short, pytest.raises(LogStreamError) as caught:
        short.setattr(FileReader, "_open", fail)
        await drain(stream_of(FileSource(path, origin())))
    [failure] = caught.value.failures
    assert isinstance(failure.cause, LogStreamError)
    assert passes == failure.cause.retryable

    assert ["line\n"] == [str(line) for line in await drain(stream_of(FileSource(path, origin())))]


async def test_a_slow_consumer_holds_up_the_reading(path: Path) -> None:
    append(path, b"x" * 99 + b"\n")
    append(path, (b"x" * 99 + b"\n") * 20_000)
    source = FileSource(path, origin(), buffer_bytes=1)
    stream = stream_of(source)
    await anext(stream)
    await asyncio.sleep(0)

    assert source._held <= 2 * CHUNKS * CHUNK
    assert 20_000 == len(await drain(stream))


async def test_lines_that_carry_their_time(path: Path) -> None:
    append(path, "12 first\n34 second\n")

    def stamp(text: str) -> tuple[int | None, str]:
        ns, _, rest = text.partition(" ")
        return int(ns), rest

    got = await drain(stream_of(FileSource(path, origin(), stamp=stamp)))

    assert [(12, "first"), (34, "second")] == [(line.ns, line.text) for line in got]


async def test_leaving_early_leaves_nothing(path: Path) -> None:
    append(path, "0\n" * 1_000_000)
    stream = stream_of(FileSource(path, origin(), follow=True), tail=True)
    await anext(stream)
    await stream.aclose()  # the guard looks for what is left


async def test_a_file_of_which_nobody_tells_is_looked_at_less_and_less(path: Path, following: Any) -> None:
    append(path, "0\n")
    stream, source = following(follower=Silent())
    await anext(stream)
    reading = asyncio.ensure_future(anext(stream))
    await eventually(lambda: source._pause > module.FIRST_LOOK)
    append(path, "1\n")

    assert "1" == (await reading).text
    assert source._is_silent


@settings(max_examples=60)
@given(
    steps=st.lists(
        st.one_of(st.binary(max_size=300), st.sampled_from(["rotate", "read", "read", "long"])), max_size=25
    ),
    lines=st.none() | st.integers(0, 5),
)
def test_every_byte_comes_once_and_in_order(
    steps: list[bytes | str], lines: int | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("file") / "out.log"
    reader = FileReader(path, None)
    written, seen = b"", b""
    for step in steps:
        if isinstance(step, bytes):
            append(path, step)
            written += step
        elif step == "long":
            append(path, b"y" * 300_000)
            written += b"y" * 300_000
        elif step == "rotate" and path.exists():
            while more := reader.read():
                seen += taken(more)
            path.rename(path.with_name(f"{len(written)}-{len([*path.parent.iterdir()])}"))
        elif step == "read":
            seen += taken(reader.read())
    while more := reader.read():
        seen += taken(more)
    reader.close()

    assert written == seen


@given(data=st.lists(st.sampled_from([b"\n", b"a", b"b\n", b"x" * 70_000])).map(b"".join), count=st.integers(0, 6))
def test_the_beginning_of_the_last_lines_is_found(
    data: bytes, count: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("file") / "out.log"
    path.write_bytes(data)
    reader = FileReader(path, count)
    seen = b""
    while more := reader.read():
        seen += taken(more)
    reader.close()
    whole, _, unfinished = data.rpartition(b"\n")
    complete = data[: len(data) - len(unfinished)].splitlines(keepends=True) if whole or data[:1] == b"\n" else []
    complete = data[: len(data) - len(unfinished)].split(b"\n")[:-1]

    assert b"".join(line + b"\n" for line in complete[max(0, len(complete) - count) :]) + unfinished == seen


def taken(items: list[Any]) -> bytes:
    return b"".join(item for item in items if isinstance(item, bytes))


def test_the_end_of_the_past_is_told_once(path: Path) -> None:
    append(path, b"0\n")
    reader = FileReader(path, None)
    first = reader.read()
    append(path, b"1\n")
    second = reader.read()
    reader.close()

    assert [b"0\n", PastEnd()] == first
    assert [b"1\n"] == second


async def test_a_file_that_cannot_be_read_any_further_is_told_after_its_lines(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where both are there at the same time: the engine is told to read once more."""
    source = FileSource(path, origin(), follow=True)
    found: list[list[Any]] = [[PastEnd()], [b"first\n"]]

    def broken() -> list[Any]:
        if found:
            return found.pop(0)
        raise OSError("it is broken")

    monkeypatch.setattr(source._file, "read", broken)
    source.start(lambda: None)
    await eventually(lambda: source._read_all)
    woken = asyncio.Event()
    source._wake = woken.set

    assert ["first"] == texts([*source.read(10)])
    assert woken.is_set()
    with pytest.raises(LogStreamError, match="it is broken"):
        source.read(10)
    await source.aclose()
