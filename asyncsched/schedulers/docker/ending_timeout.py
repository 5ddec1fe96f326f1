"""Enforce how long a replica may run: done by each scheduler that submits or watches an app."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from asyncsched._tasks import gather_bounded
from asyncsched.errors import NotFoundError, UnavailableError
from asyncsched.schedulers.docker.ending_stop import AT_ONCE
from asyncsched.schedulers.docker.status_containers import Container, with_details

if TYPE_CHECKING:
    from asyncsched._dockerd import Daemon
    from asyncsched.clock import Clock
    from asyncsched.schedulers.state_stream import StateStream

__all__ = ["TimeLimits"]

_LATER = 5.0
"""Seconds until the next check if the daemon did not answer, or a container was removed."""


class TimeLimits:
    """Stops the replicas of an app that run longer than their label allows.

    The daemon reports when a run began, by its own clock: a scheduler that takes over from another process continues
    the same limit. The daemon's time is rounded down to seconds, so a replica may be stopped up to a second late.

    Args:
        daemon: The daemon that runs the containers.
        members: Reads the app's containers.
        stop: Marks and stops those that have exceeded their timeout.
        clock: Used for pauses.
    """

    def __init__(
        self,
        daemon: Daemon,
        members: Callable[[], Awaitable[Sequence[Container]]],
        stop: Callable[[Sequence[Container]], Awaitable[None]],
        *,
        clock: Clock,
    ) -> None:
        self._daemon = daemon
        self._members = members
        self._stop = stop
        self._clock = clock
        self._deadlines: dict[tuple[str, int], float] = {}  # of each container's runs, by this process's clock

    async def keep(self, changes: StateStream) -> None:
        """Enforce the limits until the app has ended."""
        while True:
            try:
                pause = await self._enforce()
            except (NotFoundError, UnavailableError):
                pause = _LATER
            try:
                async with self._clock.timeout(pause):
                    if await anext(changes, None) is None:
                        return
            except TimeoutError:
                pass

    async def _enforce(self) -> float | None:
        """Stop what has exceeded its timeout; return the seconds until the next deadline."""
        running = [each for each in await self._members() if each.state == "running" and math.isfinite(each.timeout)]
        await self._learn([each for each in running if _run(each) not in self._deadlines])
        now = self._clock.monotonic()
        left = [(self._deadlines[_run(each)] - now, each) for each in running]
        await self._stop([each for seconds, each in left if seconds <= 0 and not each.timed_out])
        return min((seconds for seconds, _ in left if seconds > 0), default=None)

    async def _learn(self, begun: Sequence[Container]) -> None:
        """Find out the deadlines of new runs."""
        if not begun:
            return
        starts = await gather_bounded(self._start_of, begun, AT_ONCE)
        now = await self._daemon.ask_time(operation="watch")
        for container, start in zip(begun, starts, strict=True):
            self._deadlines[_run(container)] = self._clock.monotonic() + start + container.timeout - now

    async def _start_of(self, container: Container) -> float:
        if (detailed := container).started_at is None:
            inspected = await self._daemon.inspect_container(container.id, operation="watch")
            detailed = with_details(container, inspected)
        return (detailed.started_at or detailed.created_at).timestamp()


def _run(container: Container) -> tuple[str, int]:
    return container.id, container.restarts or 0
