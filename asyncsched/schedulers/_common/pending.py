"""Limit how long an app may wait to run, for services without such a limit; the submitting scheduler enforces it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from asyncsched._tasks import BackgroundTasks
from asyncsched._typing import NamedTuple
from asyncsched.clock import Clock, TimerHandle
from asyncsched.errors import AsyncSchedError, ClosedError
from asyncsched.schedulers.responses import StateEvent
from asyncsched.schedulers.state_stream import StateStream
from asyncsched.specs.state import AppState

__all__ = ["LateApp", "PendingLimits"]

_log = logging.getLogger("asyncsched.schedulers.pending")

AGAIN = 60.0
"""Seconds until the next check of an app that could not be ended."""

GATHER = 5.0
"""Most seconds to collect late apps, to end them together."""


class LateApp(NamedTuple):
    """An app that has waited longer than its limit.

    Attributes:
        app_id: The app.
        limit: Its limit in seconds.
        msg: What it waits for, if known.
    """

    app_id: str
    limit: float
    msg: str


class PendingLimits:
    """Ends apps that have not started in time.

    Until then an app costs a timer and no call. Late apps are checked together, through the feed that all watches of
    the scheduler share, and ended together.

    Args:
        backend: The scheduler's name, for messages.
        watch: `Scheduler.watch`.
        end: Ends apps that have not started. It must not end one that has started since the check.
        clock: The time source.
    """

    def __init__(
        self,
        backend: str,
        watch: Callable[[Iterable[str]], StateStream],
        end: Callable[[Sequence[LateApp]], Awaitable[None]],
        *,
        clock: Clock,
    ) -> None:
        self._backend = backend
        self._watch = watch
        self._end = end
        self._clock = clock
        self._limits: dict[str, float] = {}
        self._timers: dict[str, TimerHandle] = {}
        self._late: list[str] = []
        self._tasks = BackgroundTasks(_log)
        self._is_ending = False
        self._told = ""

    def keep(self, app_id: str, limit: float | None) -> None:
        """Give an app `limit` seconds from now, if set; an app that has a limit already keeps it."""
        if limit is not None and app_id not in self._limits:
            self._limits[app_id] = limit
            self._look_in(app_id, limit)

    async def aclose(self, timeout: float) -> None:
        """Stop ending apps. Idempotent."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        await self._tasks.close(timeout)

    def _look_in(self, app_id: str, seconds: float) -> None:
        self._timers[app_id] = self._clock.call_later(seconds, lambda: self._over(app_id))

    def _over(self, app_id: str) -> None:
        del self._timers[app_id]
        self._late.append(app_id)
        if not self._is_ending:
            self._is_ending = True
            pause = min(GATHER, self._limits[app_id] / 10)
            self._tasks.start(self._end_late(pause), name=f"pending_timeout of {self._backend}")

    async def _end_late(self, pause: float) -> None:
        try:
            while self._late:
                await self._clock.sleep(pause)
                late, self._late = self._late, []
                await self._end_those(late)
        except ClosedError:
            pass  # so is the scheduler
        finally:
            self._is_ending = False

    async def _end_those(self, late: Sequence[str]) -> None:
        waiting: Mapping[str, LateApp] = {}
        try:
            waiting = await self._waiting(late)
            left = [*waiting]
            if waiting:
                await self._end([*waiting.values()])
            self._told = ""
        except ClosedError:
            raise
        except AsyncSchedError as error:
            left = [*(waiting or late)]
            self._warn(len(left), error)
        for app_id in set(late).difference(left):
            del self._limits[app_id]
        for app_id in left:
            self._look_in(app_id, AGAIN)

    async def _waiting(self, late: Iterable[str]) -> dict[str, LateApp]:
        """Check each of these apps once; return those that have not started."""
        waiting: dict[str, LateApp] = {}
        async with self._watch(late) as states:
            async for event in states:
                states.discard(event.app_id)
                if event.current is not None and _waits(event):
                    waiting[event.app_id] = LateApp(event.app_id, self._limits[event.app_id], event.current.msg)
        return waiting

    def _warn(self, count: int, error: AsyncSchedError) -> None:
        if str(error) != self._told:  # once, however often it is retried
            self._told = str(error)
            _log.warning("%s: %d apps are over their pending_timeout, trying again: %s", self._backend, count, error)


def _waits(event: StateEvent) -> bool:
    app = event.current
    if app is None or event.gone or app.state not in (AppState.SUBMITTED, AppState.PENDING):
        return False
    return app.started_at is None and app.num_restarts <= 0
