"""Sources that have ended are closed while the others go on."""

from __future__ import annotations

import asyncio

import pytest

from asyncsched.logs import QueueSource
from asyncsched.logs.engine import Closer
from tests._support import eventually


class Ended(QueueSource):
    """Notes that it was closed; it may have to wait for that, or fail."""

    def __init__(self, *, gate: asyncio.Event | None = None, error: Exception | None = None) -> None:
        super().__init__(role="worker", replica=3)
        self.gate, self.error = gate, error
        self.closed = False

    async def aclose(self) -> None:
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        self.closed = True


async def test_those_that_have_nothing_to_wait_for_share_one_task() -> None:
    closer, sources = Closer(), [Ended() for _ in range(100)]
    before = len(asyncio.all_tasks())
    for source in sources:
        closer.close(source)
    await asyncio.sleep(0)

    assert 1 >= len(asyncio.all_tasks()) - before
    await eventually(lambda: all(source.closed for source in sources))
    await eventually(lambda: not closer.take())


async def test_one_that_has_to_wait_holds_up_nobody() -> None:
    gate = asyncio.Event()
    closer, slow, quick = Closer(), [Ended(gate=gate) for _ in range(5)], [Ended() for _ in range(5)]
    for pair in zip(slow, quick, strict=True):
        for source in pair:
            closer.close(source)
    await eventually(lambda: all(source.closed for source in quick))

    assert 5 == len(closer.take())
    gate.set()
    await eventually(lambda: all(source.closed for source in slow))
    await eventually(lambda: not closer.take())


async def test_one_that_cannot_be_closed_is_told_and_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    closer, broken, good = Closer(), Ended(error=OSError("stuck")), Ended()
    closer.close(broken)
    closer.close(good)
    await eventually(lambda: good.closed)

    assert ["closing the log of worker/3 failed: stuck"] == caplog.messages


async def test_what_is_not_closed_yet_can_be_taken_over() -> None:
    closer, source = Closer(), Ended()
    closer.close(source)
    await asyncio.gather(*closer.take())

    assert source.closed
    assert [] == closer.take()
