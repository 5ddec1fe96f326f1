"""The files of a replica's attempts as one log: each line once, in order, whenever it is written and read."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from asyncsched.clock import Clock
from asyncsched.logs import LogLine, LogQuery
from asyncsched.logs.files import FileSource
from asyncsched.schedulers.slurm.logs import SlurmReplicaLog
from asyncsched.specs import ReplicaState
from asyncsched.specs.state import ReplicaStatus
from asyncsched.specs.stream import Stream
from tests._support import WITHIN
from tests.logs._fakes import drain, origin, stream_of

TEXTS = st.sampled_from(["", "a\n", "a", "a\nb", "a\nb\nc\n"])


def status(restarts: int) -> ReplicaStatus:
    return ReplicaStatus(0, ReplicaState.RUNNING, "worker", "n1", num_restarts=restarts)


def log_of(directory: Path, **query: Any) -> SlurmReplicaLog:
    asked = LogQuery(app_id="app", **query)
    return SlurmReplicaLog(str(directory), "worker-0", origin(), asked, stamped=False, clock=Clock())


def write(directory: Path, attempt: int, texts: tuple[str, str]) -> None:
    for name, text in zip(("out", "err"), texts, strict=True):
        (directory / f"worker-0.{attempt}.{name}").write_text(text)


async def read_all(source: SlurmReplicaLog, limit: int, pauses: Iterator[int]) -> list[LogLine]:
    """Read a source as the engine does: when it has said so, and again after a read that was full."""
    got: list[LogLine] = []
    woken = asyncio.Event()
    source.start(woken.set)
    woken.set()
    while True:
        await woken.wait()
        for _ in range(next(pauses)):
            await asyncio.sleep(0)
        woken.clear()
        lines = source.read(limit)
        got += lines
        if len(lines) == limit:
            woken.set()
        elif source.ended:
            return got


@given(
    attempts=st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=4),
    pauses=st.lists(st.integers(0, 40), min_size=1, max_size=8),
    there=st.integers(0, 4),
    limit=st.integers(1, 4),
)
@example(attempts=[("a", ""), ("a", "")], pauses=[40], there=2, limit=4)
@example(attempts=[("", "a"), ("", "a\n")], pauses=[40], there=2, limit=4)
def test_each_line_of_each_attempt_comes_once(
    attempts: list[tuple[str, str]],
    pauses: Sequence[int],
    there: int,
    limit: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    directory = tmp_path_factory.mktemp("app")
    there = min(there, len(attempts))

    async def follow() -> list[LogLine]:
        source = log_of(directory, tail=True)
        for number, texts in enumerate(attempts[:there]):
            write(directory, number, texts)
            source.observe(status(number))
        pause = cycle(pauses)
        reading = asyncio.create_task(read_all(source, limit, pause))
        for number, texts in enumerate(attempts[there:], there):
            for _ in range(next(pause)):
                await asyncio.sleep(0)
            write(directory, number, texts)
            source.observe(status(number))
        source.finish()
        try:
            async with asyncio.timeout(WITHIN):
                return await reading
        finally:
            await source.aclose()

    got = asyncio.run(follow())
    assert [line.source.attempt for line in got] == sorted(line.source.attempt or 0 for line in got)
    for number, texts in enumerate(attempts):
        for stream, text in zip((Stream.STDOUT, Stream.STDERR), texts, strict=True):
            told = [line.text for line in got if (line.source.attempt, line.source.stream) == (number, stream)]
            assert text.splitlines() == told


async def test_the_last_lines_are_those_of_the_last_attempts(tmp_path: Path) -> None:
    write(tmp_path, 0, ("1\n2\n3\n", ""))
    write(tmp_path, 1, ("4\n5\n", ""))
    source = log_of(tmp_path, tail_lines=3)
    source.observe(status(1))
    async with asyncio.timeout(WITHIN):
        got = await drain(stream_of(source, tail_lines=3))

    assert ["3", "4", "5"] == [line.text for line in got]


async def test_a_log_of_many_attempts_holds_the_files_of_one(tmp_path: Path) -> None:
    for number in range(20):
        write(tmp_path, number, ("a\n", "b\n"))
    source = log_of(tmp_path)
    source.observe(status(19))
    async with asyncio.timeout(WITHIN):
        got = await read_all(source, 100, cycle([1]))
    held = await asyncio.to_thread(held_sources)
    await source.aclose()

    assert 40 == len(got)
    assert held < 20


def held_sources() -> int:
    gc.collect()
    return sum(issubclass(type(each), FileSource) for each in gc.get_objects())  # which calls no code of theirs
