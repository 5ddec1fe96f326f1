"""The merge by itself: who is read, and how often each thing is counted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from asyncsched.logs import LogLine, LogOrigin, LogQuery, QueueSource, label
from asyncsched.logs.merge import Merge


class Eager(QueueSource):
    """Wakes inside every read, as a source may."""

    def read(self, limit: int) -> Sequence[LogLine]:
        lines = super().read(limit)
        if self._wake is not None:
            self._wake()
        return lines


async def test_a_source_that_wakes_inside_its_reads_is_queued_once_and_ends_once() -> None:
    merge = Merge(LogQuery(app_id="a"))
    idle: list[int] = []
    merge.on_idle = lambda: idle.append(merge.live)
    source = Eager(role="r", replica=0)
    source.put(label([f"{number}\n" for number in range(1000)], LogOrigin(), 1))
    source.end()
    merge.add(source, "a")

    lines: list[LogLine] = []
    while merge.ready:
        lines += merge.turn(10)
        await asyncio.sleep(0)

    assert [f"{number}\n" for number in range(1000)] == lines
    assert (0, [0]) == (merge.live, idle)
