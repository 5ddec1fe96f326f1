"""`CompletedJobs`: a stream of the jobs of a group as they end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asyncsched._streams import AsyncStream, Waiter, for_one
from asyncsched._typing import override
from asyncsched.runner.groups.job import Job

if TYPE_CHECKING:
    from asyncsched.runner.groups.engine import Engine

__all__ = ["CompletedJobs"]


class CompletedJobs(AsyncStream[Job]):
    """The jobs of a group in the order in which they end, each once. Failed jobs do not raise.

    It includes jobs that are started later, and ends when all started jobs have ended. A step that is cancelled or
    times out loses nothing and does not affect any job.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._told = 0  # of `ended`, which only grows
        self._waiter = Waiter()
        self._is_stepping = False
        self.closed = False

    @override
    async def __anext__(self) -> Job:
        if self._is_stepping:
            raise RuntimeError("another step of this stream of jobs has not ended yet")
        self._is_stepping = True
        waiters = self._engine.ledger.waiters
        waiters.add(self._waiter)
        try:
            await self._ready()
        finally:
            waiters.discard(self._waiter)
            self._is_stepping = False
        self._told += 1
        return self._engine.ledger.ended[self._told - 1]

    async def _ready(self) -> None:
        engine = self._engine
        engine.host.enter()
        while self.closed or self._told == len(engine.ledger.ended):
            if self.closed or engine.ledger.is_idle:
                self.closed = True
                raise StopAsyncIteration
            if engine.error is not None:
                raise for_one(engine.error)
            await self._waiter.wait()

    @override
    async def aclose(self) -> None:
        """End the stream; the jobs continue. Idempotent."""
        self.closed = True
        self._waiter.wake()

    def __repr__(self) -> str:
        counts = self._engine.ledger.counts
        return f"<CompletedJobs {'closed' if self.closed else 'open'}, {self._told} told, {counts}>"
