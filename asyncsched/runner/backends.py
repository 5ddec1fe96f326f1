"""The schedulers of one runner, each made when it is first asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any, TypeAlias

from asyncsched._tasks import close_all, outlast
from asyncsched.schedulers.api import Scheduler
from asyncsched.schedulers.registry import SchedulerFactory, find_factory, get_scheduler_factories
from asyncsched.specs.stream import Stream

__all__ = ["AnyScheduler", "Backends"]

AnyScheduler: TypeAlias = Scheduler[Any, Any]
"""A scheduler of which nobody here knows what its options and requests look like."""

CLOSE_TIMEOUT = 15.0


class Backends:
    """Makes schedulers by name and closes those that it made; a caller's own are the caller's to close.

    Args:
        session: The session that their apps are marked with.
        schedulers: Schedulers and factories by name; None for all that are installed.
        params: Further arguments for every factory.
    """

    def __init__(
        self,
        session: str,
        schedulers: Mapping[str, AnyScheduler | SchedulerFactory] | None,
        params: Mapping[str, object],
    ) -> None:
        given = get_scheduler_factories() if schedulers is None else schedulers
        self._session = session
        self._params = params
        self._factories = {name: _as_factory(each) for name, each in given.items()}
        self._ready = {name: each for name, each in given.items() if isinstance(each, Scheduler)}
        self._made: list[AnyScheduler] = []
        self._making: dict[str, asyncio.Future[AnyScheduler]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """All names, the default first."""
        return tuple(self._factories)

    @property
    def ready(self) -> Mapping[str, AnyScheduler]:
        """The schedulers that are there already."""
        return self._ready

    def check(self, names: Collection[str]) -> None:
        """Raise UnknownSchedulerError for a name that there is none of; nothing is made."""
        for name in names:
            find_factory(name, self._factories)

    def log_streams(self, names: Collection[str]) -> frozenset[Stream]:
        """Return the streams that all of these schedulers tell apart, as far as they are there to be asked."""
        ready = [self._ready[name].log_streams for name in names if name in self._ready]
        return frozenset(Stream).intersection(*ready)

    async def open(self, name: str) -> AnyScheduler:
        """Return the scheduler of this name; it is made in a thread, as its module may have to be imported.

        All who ask meanwhile wait for the same one. Cancelled, it is made all the same: a thread cannot be stopped.
        """
        if name not in self._ready:
            await asyncio.shield(self._making.get(name) or self._start(name))
        return self._ready[name]

    def _start(self, name: str) -> asyncio.Future[AnyScheduler]:
        make = find_factory(name, self._factories)
        making = asyncio.get_running_loop().run_in_executor(None, lambda: make(self._session, **self._params))
        self._making[name] = making
        making.add_done_callback(lambda _: self._keep(name, making))
        return making

    def _keep(self, name: str, making: asyncio.Future[AnyScheduler]) -> None:
        del self._making[name]
        # Looked at here, too: everybody who waited for it may have been cancelled.
        if not making.cancelled() and making.exception() is None:
            self._ready[name] = making.result()
            self._made.append(making.result())

    async def close(self) -> None:
        """Close what was made here, and what is being made. Never raises."""
        try:
            await outlast(self._making.values(), CLOSE_TIMEOUT)
        finally:  # a close that is cancelled closes everything all the same
            await close_all([scheduler.close() for scheduler in self._made], CLOSE_TIMEOUT)


def _as_factory(scheduler: AnyScheduler | SchedulerFactory) -> SchedulerFactory:
    if not isinstance(scheduler, Scheduler):
        return scheduler
    given = scheduler  # for the closure: its type has been narrowed
    return lambda session_name, **kwargs: given
