"""Stopping containers: first marked for every process to see, then stopped by the daemon, which nobody waits for."""

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
"""Containers that are created, started, stopped or removed at a time: a daemon gets no faster with more."""

_AGAIN = 0.1

# Who cancels an app has the last word, also over what is being stopped for another reason.
_STRONGER_MARKS = {
    names.STOPPED: (names.STOPPED, names.TIMED_OUT, names.CANCELLED),
    names.TIMED_OUT: (names.TIMED_OUT, names.CANCELLED),
    names.CANCELLED: (names.CANCELLED,),
}
"""The marks that a container keeps when it is stopped for this one."""


class Stop:
    """Stops one container after the other; each call returns when the daemon knows.

    Args:
        daemon: Whose containers.
        mark: What the name of a stopped container ends with: it tells why it was stopped.
        own: Takes what goes on behind the caller.
        clock: Tells the time of pauses.
        retry_for: Seconds for which a daemon that may have the request is asked again.
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
        """Mark and stop a container; nothing happens to one that has ended or is gone."""
        marked = container.name.endswith(_STRONGER_MARKS[self._mark])
        try:
            if not marked and await self._is_over(container):
                return
            marked = marked or await self._is_marked(container)
            await self._send(container)
            while not marked:  # the stop puts an end to the pause in which it could not be renamed
                await self._clock.sleep(_AGAIN)
                marked = await self._is_marked(container)
        except NotFoundError:
            pass

    async def _is_over(self, container: Container) -> bool:
        """Ask again: a list tells of an end a tenth of a second late, an inspection waits for the daemon to know."""
        inspected = await self._daemon.inspect_container(container.id, operation="cancel")
        return with_details(container, inspected).over

    async def _is_marked(self, container: Container) -> bool:
        """Rename a container; False if it has no network at the moment, which the daemon wants to rename, too.

        That is so while it waits to be started again, which may be for a minute.
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
        """Ask the daemon, which waits for the grace period; nobody here does."""
        sent = asyncio.Event()
        stopping = self._own(self._request(container.id, sent))
        stopping.add_done_callback(lambda _: sent.set())
        await sent.wait()
        if stopping.done() and not stopping.cancelled():
            stopping.result()  # raises if the daemon never had the request

    async def _request(self, container_id: str, sent: asyncio.Event) -> None:
        """Have a container stopped; asks again if the connection breaks when the daemon may have been asked."""
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
