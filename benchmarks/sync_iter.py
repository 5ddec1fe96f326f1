"""Lines per second through the blocking facade, beside the async stream that it stands on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence

from typing_extensions import override

from asyncsched import AppDef, DescribeAppResponse, ReplicaStatus, Role, Runner
from asyncsched.logs import LogOrigin, LogQuery, LogSource, QueueSource, label
from asyncsched.sync import SyncRunner
from asyncsched.testing import FakeScheduler
from benchmarks._harness import Claim, at_least, in_turns

LINES = 500_000
APP = AppDef("job", [Role("main", image="", entrypoint="sh", args=["-c", "exit 0"])])
PREPARED = label(
    ["a line of about eighty characters, as programs write them all day long ........\n"] * LINES, LogOrigin(), None
)


class Prepared(FakeScheduler):
    """Its apps have written all those lines already, so that only the way to the reader is measured."""

    @override
    async def _log_sources(
        self, app: DescribeAppResponse, replicas: Sequence[ReplicaStatus], query: LogQuery
    ) -> Sequence[LogSource]:
        source = QueueSource(role="main", replica=0)
        source.put(PREPARED)
        source.end()
        return [source]


def claims() -> Iterator[Claim]:
    """Read the same lines both ways, in turns."""
    ours, stream, calls = "the facade", "the async stream", "a change of threads for each line"
    taken = in_turns({ours: _blocking, stream: _async, calls: _by_calls})
    detail = taken.told(1e-3, "k/s")
    yield at_least("lines that the facade hands on in a second", taken.ratio(ours, stream), 0.25, detail=detail)
    yield at_least("lines that the facade hands on in a second", taken.ratio(ours, calls), 20.0, detail=detail)


def _async() -> float:
    async def read() -> float:
        async with Runner("benchmark", {"fake": Prepared("benchmark")}) as runner:
            handle = await runner.run(APP, "fake")
            began, count = time.perf_counter(), 0
            async for _ in runner.log_lines(handle):
                count += 1
            assert count == LINES
            return count / (time.perf_counter() - began)

    return asyncio.run(read())


def _blocking() -> float:
    def read(runner: SyncRunner, handle: str) -> int:
        count = 0
        for _ in runner.log_lines(handle):
            count += 1
        return count

    return _rate(read, LINES)


def _by_calls() -> float:
    def read(runner: SyncRunner, handle: str) -> int:
        for _ in range(5000):
            runner.scheduler_backends()  # a call that does nothing: the price of going there and back
        return 5000

    return _rate(read, 5000)


def _rate(read: Callable[[SyncRunner, str], int], wanted: int) -> float:
    with SyncRunner("benchmark", {"fake": Prepared("benchmark")}) as runner:
        handle = runner.run(APP, "fake")
        began = time.perf_counter()
        assert wanted == read(runner, handle)
        return wanted / (time.perf_counter() - began)
