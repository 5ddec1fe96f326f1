"""A server of a thousand apps, of which some change all the time and one writes as fast as its log is read.

It is a program, so that its memory is measured alone: it prints its address, and each line of its input cuts the
connections of all pages.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence
from itertools import count

from asyncsched._typing import override
from asyncsched.logs import ConnectionSource, LineSplitter, LogLine, LogOrigin, LogQuery, LogSource
from asyncsched.runner import Runner
from asyncsched.schedulers import DescribeAppResponse
from asyncsched.specs import ReplicaStatus
from asyncsched.testing import FakeScheduler, FakeService
from asyncsched.web.server import serving
from tests.runner.rig import app

APPS = 1000
CHANGES = 20
"""Changes of apps a second."""
TEXT = "of a log that never ends, and whose lines are about as long as those of programs usually are"
LINES = 500
"""Lines at a time."""


class _Flood(ConnectionSource):
    """Numbered lines, as fast as they are read."""

    def __init__(self, app_id: str, replica: ReplicaStatus, scheduler: FakeScheduler) -> None:
        origin = LogOrigin(app_id=app_id, role=replica.role, replica=replica.id)
        super().__init__(origin, clock=scheduler.clock, follow=True)
        self._splitter = LineSplitter()

    @override
    async def connect(self, since_ns: int | None) -> AsyncGenerator[bytes]:
        for first in count(step=LINES):
            yield "".join(f"{number} {TEXT}\n" for number in range(first, first + LINES)).encode()

    @override
    def parse(self, data: bytes) -> Sequence[LogLine]:
        lines = [LogLine(text) for text in self._splitter.feed(data)]
        for line in lines:
            line.source, line.ns = self.origin, None
        return lines


class _Flooding(FakeScheduler):
    @override
    async def _log_sources(
        self, app: DescribeAppResponse, replicas: Sequence[ReplicaStatus], query: LogQuery
    ) -> Sequence[LogSource]:
        return [_Flood(app.app_id, replica, self) for replica in replicas]


async def _commands() -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    return reader


async def _change(service: FakeService, app_ids: Sequence[str]) -> None:
    """Let one app after the other tell something new."""
    number = 0
    while True:
        service.set_reason(app_ids[number % len(app_ids)], f"step {number // len(app_ids)}")
        number += 1
        await asyncio.sleep(1 / CHANGES)


async def _main() -> None:
    async with _Flooding("me") as scheduler:
        async with Runner("me", {"push": scheduler}) as runner:
            handles = [await runner.run(app(f"job-{number:04}"), "push") for number in range(APPS)]
            for handle in handles:
                scheduler.service.start(handle.app_id)
            async with serving(runner) as server, asyncio.TaskGroup() as tasks:
                changing = tasks.create_task(_change(scheduler.service, [handle.app_id for handle in handles[1:]]))
                print(server.url, handles[0], flush=True)
                async for _ in await _commands():
                    for page in [*server.hub.pages]:
                        page.cut()
                changing.cancel()
        scheduler.service.close()


if __name__ == "__main__":
    asyncio.run(_main())
