"""Stop containers: mark them for every process to see, then let the daemon stop them without waiting for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING

from asyncsched.errors import NotFoundError, UnavailableError
from asyncsched.schedulers.docker import names
from asyncsched.schedulers.docker.status_containers import with_details

if TYPE_CHECKING:
    from asyncsched._dockerd import Daemon
    from asyncsched.clock import Clock
    from asyncsched.schedulers.docker.status_containers import Container

__all__ = ["AT_ONCE", "Stop"]

AT_ONCE = 8
"""Containers that are created, started, stopped or removed at once: with more, the daemon gets no faster."""

_AGAIN = 0.1

# A cancellation overrides a stop for another reason.
_STRONGER_MARKS = {
    names.STOPPED: (names.STOPPED, names.TIMED_OUT, names.CANCELLED),
    names.TIMED_OUT: (names.TIMED_OUT, names.CANCELLED),
    names.CANCELLED: (names.CANCELLED,),
}
"""For each mark, the existing marks that a container keeps."""


class Stop:
    """Stops containers; each call returns as soon as the daemon has the request.

    Args:
        daemon: The daemon that runs the containers.
        mark: The suffix for the names of the stopped containers; it records why they were stopped.
        own: Starts a background task.
        clock: Used for pauses.
        retry_for: Seconds for which a request that may have reached the daemon is repeated.
    """

    def __init__(
        self,
        daemon: Daemon,
        mark: str,
        *,
        own: Callable[[Coroutine[None, None, None]], asyncio.Task[None]],
        clock: Clock,
        retry_for: float,
    ) -> None:
        self._daemon = daemon
        self._mark = mark
        self._own = own
        self._clock = clock
        self._retry_for = retry_for

    async def __call__(self, container: Container) -> None:
        """Mark and stop a container; do nothing if it has ended or is gone."""
        marked = container.name.endswith(_STRONGER_MARKS[self._mark])
        try:
            if not marked and await self._is_over(container):
                return
            marked = marked or await self._is_marked(container)
            await self._send(container)
            while not marked:  # the stop ends the wait for a restart, during which it could not be renamed
                await self._clock.sleep(_AGAIN)
                marked = await self._is_marked(container)
        except NotFoundError:
            pass

    async def _is_over(self, container: Container) -> bool:
        """Inspect the container: lists show an end a tenth of a second late, an inspection waits until it is known."""
        inspected = await self._daemon.inspect_container(container.id, operation="cancel")
        return with_details(container, inspected).over

    async def _is_marked(self, container: Container) -> bool:
        """Rename a container; return False if it has no network at the moment, which the daemon would rename too.

        This is so while the container waits to be restarted, which may take a minute.
        """
        try:
            name = names.base_name(container.name) + self._mark
            await self._daemon.rename_container(container.id, name, operation="cancel")
        except NotFoundError as error:
            if "no such container" in error.why.lower():
                raise
            return False
        return True

    async def _send(self, container: Container) -> None:
        """Request the stop; the daemon waits for the grace period, this does not."""
        sent = asyncio.Event()
        stopping = self._own(self._request(container.id, sent))
        stopping.add_done_callback(lambda _: sent.set())
        await sent.wait()
        if stopping.done() and not stopping.cancelled():
            stopping.result()  # raises if the daemon never got the request

    async def _request(self, container_id: str, sent: asyncio.Event) -> None:
        """Request a container's stop; repeat it if the connection breaks after the daemon may have got the request."""
        deadline = self._clock.monotonic() + self._retry_for
        while True:
            try:
                await self._daemon.stop_container(container_id, on_sent=sent.set, operation="cancel")
            except UnavailableError:
                if not sent.is_set() or self._clock.monotonic() >= deadline:
                    raise
                await self._clock.sleep(_AGAIN)
            else:
                return
