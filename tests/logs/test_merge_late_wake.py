"""A source that says it is ready again while its last lines are being read ends once, and only once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from typing_extensions import override

from asyncsched.logs.line import LogLine
from asyncsched.logs.source import QueueSource
from tests.logs._fakes import drain, numbered, stream_of


class EagerSource(QueueSource):
    @override
    def read(self, limit: int) -> Sequence[LogLine]:
        lines = super().read(limit)
        if lines and self._wake is not None:
            self._wake()
        return lines


async def test_a_wake_during_the_last_read_does_not_end_a_source_twice() -> None:
    eager, slow = EagerSource(), QueueSource()
    eager.put(numbered(1))
    eager.end()
    stream = stream_of(eager, slow)
    first = await anext(stream)
    asyncio.get_running_loop().call_soon(slow.put, numbered(1, replica=1))
    asyncio.get_running_loop().call_soon(slow.end)

    rest = await drain(stream)

    assert [0, 1] == [line.replica for line in (first, *rest)]
    assert 0 == stream.statistics().live
