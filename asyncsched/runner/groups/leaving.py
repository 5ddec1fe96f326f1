"""How a group ends: in bounded time, even if its owner is cancelled, and reporting what is left."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from asyncsched._streams import Waiter
from asyncsched._tasks import outlast
from asyncsched.errors import AppStatusError, ClosedError
from asyncsched.runner.groups.job import Job, Phase
from asyncsched.runner.groups.settings import KEEPING_GRACE

if TYPE_CHECKING:
    from asyncsched.runner.groups.engine import Engine
    from asyncsched.runner.groups.keeper import LogKeeper

__all__ = ["GRACE", "GRACE_FOR_EACH", "Leaving"]

GRACE = 30.0
GRACE_FOR_EACH = 0.1
"""Seconds that the jobs of a group that is left are given to end: so many, and so many more for each that runs."""

MARGIN = 30.0
"""Seconds beyond that after which it is not waited for any more, whatever the group's clock says."""

_log = logging.getLogger("asyncsched.runner")


class Leaving:
    """Ends a group, once.

    Attributes:
        left: The jobs that may still be running, by their numbers.
    """

    def __init__(self, engine: Engine, keeper: LogKeeper | None) -> None:
        self._engine = engine
        self._keeper = keeper
        self._task: asyncio.Task[None] | None = None
        self.left: list[Job] = []

    async def land(self, *, cancel: bool) -> None:
        """Start no more jobs, and wait: with `cancel` until all have ended, else for submits in progress.

        Cancellation does not shorten this; it continues afterwards.
        """
        if self._engine.error is not None:
            return
        if self._task is None:
            self._engine.stop(cancel=cancel)
            self._task = self._engine.tasks.spawn(self._land(cancel=cancel), "end of a group")
        seconds = GRACE + GRACE_FOR_EACH * len(self._engine.flights) + MARGIN
        if self._keeper is not None:
            seconds += KEEPING_GRACE
        await outlast([self._task], seconds)

    async def end_with(self, job: Job) -> None:
        """End the group with its only job."""
        if self._keeper is not None:
            await self._keeper.finish()
        await self._engine.close(ClosedError(f"the job {job.name} has ended"))

    async def _land(self, *, cancel: bool) -> None:
        engine = self._engine
        if engine.looking is not None:  # a file: it knows nothing of the group's clock
            await asyncio.wait([engine.looking])
        limit = engine.host.clock.timeout(GRACE + GRACE_FOR_EACH * len(engine.flights))
        waiter = Waiter()
        engine.ledger.waiters.add(waiter)
        try:
            async with limit:
                while engine.launching or (cancel and engine.flights) or engine.is_draining:
                    await waiter.wait()
        except TimeoutError:
            if not limit.expired:
                raise
        finally:
            engine.ledger.waiters.discard(waiter)
        if self._keeper is not None:
            await self._keeper.finish()
        running = [job for job in engine.ledger.jobs if job._phase is Phase.RUNNING]
        for flight in engine.strays:
            if not flight.of.is_terminal():
                flight.of._last = flight.status
        left = (*engine.lost, *running, *(flight.of for flight in engine.strays))
        self.left = sorted(left, key=lambda job: job.index)
        await engine.close(
            ClosedError(f"the group {engine.settings.name!r} was left; nothing more is told of its jobs")
        )

    def failures(self) -> ExceptionGroup[AppStatusError]:
        """Return the error for all failed jobs; its text is that of the first."""
        errors: list[AppStatusError] = []
        for job in self._engine.ledger.failed:
            try:
                job.raise_for_status()
            except AppStatusError as error:
                errors.append(error)
        more = f" and {len(errors) - 1} more" if len(errors) > 1 else ""
        return ExceptionGroup(f"{errors[0]}{more}", errors)
