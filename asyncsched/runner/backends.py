"""The schedulers of one runner, each made when it is first asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, TypeAlias

from asyncsched._tasks import close_all
from asyncsched.schedulers.api import Scheduler
from asyncsched.schedulers.registry import SchedulerFactory, find_factory, get_scheduler_factories

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

    @property
    def names(self) -> tuple[str, ...]:
        """All names, the default first."""
        return tuple(self._factories)

    @property
    def ready(self) -> Mapping[str, AnyScheduler]:
        """The schedulers that are there already."""
        return self._ready

    def get(self, name: str) -> AnyScheduler:
        """Return the scheduler of this name, made here and now if there is none yet."""
        return self._ready[name] if name in self._ready else self._keep(name, self._make(name))

    async def open(self, name: str) -> AnyScheduler:
        """Return the scheduler of this name; it is made in a thread, as its module may have to be imported."""
        if name not in self._ready:
            self._keep(name, await asyncio.to_thread(self._make, name))
        return self._ready[name]

    def _make(self, name: str) -> AnyScheduler:
        return find_factory(name, self._factories)(self._session, **self._params)

    def _keep(self, name: str, made: AnyScheduler) -> AnyScheduler:
        # Two calls may have made one at the same time. The second is dropped: it has done no I/O yet.
        if name not in self._ready:
            self._ready[name] = made
            self._made.append(made)
        return self._ready[name]

    async def close(self) -> None:
        """Close what was made here. Never raises."""
        await close_all([scheduler.close() for scheduler in self._made], CLOSE_TIMEOUT)


def _as_factory(scheduler: AnyScheduler | SchedulerFactory) -> SchedulerFactory:
    if not isinstance(scheduler, Scheduler):
        return scheduler
    given = scheduler  # for the closure: its type has been narrowed
    return lambda session_name, **kwargs: given
