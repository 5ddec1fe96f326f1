"""Find out which run of a container wrote a line, as far as Docker shows it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from asyncsched.logs.line import LogOrigin
from asyncsched.schedulers.docker.status_containers import last_run
from asyncsched.specs.stream import Stream

if TYPE_CHECKING:
    from asyncsched._dockerd import Daemon
    from asyncsched.schedulers.docker.status_containers import Container

__all__ = ["ContainerRuns"]


class ContainerRuns:
    """Maps lines of a container to its runs.

    Docker keeps the number of restarts and the beginning of the last run. So a line's run is known only if it was the
    last one at the time of a request, which is made when a stream is opened; for others it is None.
    """

    def __init__(self, app_id: str, role: str, replica: int) -> None:
        self._make = partial(LogOrigin, app_id=app_id, role=role, replica=replica)
        self._first = {stream: self._make(stream=stream, attempt=0) for stream in Stream}
        self._origins: dict[tuple[Stream, int | None], LogOrigin] = {}
        self._runs: list[tuple[int, int]] = []  # when each known run began, and its number, in order

    async def learn(self, daemon: Daemon, container: Container) -> None:
        """Look up the last run, if there may have been several."""
        if container.max_retries == 0:
            return
        inspected = await daemon.inspect_container(container.id, operation="log_iter")
        began, number = last_run(inspected)
        if began and (not self._runs or self._runs[-1][1] < number):
            self._runs.append((began, number))

    def origin(self, stream: Stream, ns: int) -> LogOrigin:
        """Return the origin of a line that was written to this stream at this time."""
        if not self._runs:
            return self._first[stream]
        attempt = self._attempt(ns)
        origin = self._origins.get((stream, attempt))
        if origin is None:
            origin = self._origins[stream, attempt] = self._make(stream=stream, attempt=attempt)
        return origin

    def one_origin(self, stream: Stream) -> LogOrigin | None:
        """Return the origin of all lines of this stream; None if it depends on their times."""
        return None if self._runs else self._first[stream]

    def _attempt(self, ns: int) -> int | None:
        following = None
        for began, number in reversed(self._runs):
            if ns >= began:
                # A run in between, which no request has seen, may have written it.
                return number if following is None or following == number + 1 else None
            following = number
        return 0 if following in (0, 1) else None
