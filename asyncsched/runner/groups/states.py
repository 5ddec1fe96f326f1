"""The states of a group's apps in one stream, which ends when no more can come."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from asyncsched._streams import AsyncStream
from asyncsched._typing import override
from asyncsched.runner.convert import AppEvent
from asyncsched.runner.watch import AppEventStream

if TYPE_CHECKING:
    from asyncsched.runner.groups.engine import Engine

__all__ = ["GroupStates"]


class _Feeder:
    """Adds launched apps to a watch, and finishes it; only its user holds a reference to the watch."""

    def __init__(self, engine: Engine, events: AppEventStream) -> None:
        self._engine = engine
        self._events = weakref.ref(events)
        self._told = 0  # of `handles`, which only grows

    def wake(self) -> None:
        """Check for changes."""
        engine, events = self._engine, self._events()
        if events is None or events.closed:
            engine.ledger.waiters.discard(self)
            return
        new = engine.handles[self._told :]
        self._told += len(new)
        if new:
            events.add(new)
        if engine.ledger.is_idle or engine.error is not None:
            events.finish()
            engine.ledger.waiters.discard(self)


class GroupStates(AsyncStream[AppEvent]):
    """The states of the apps of a group, including those launched later.

    It ends when all jobs and their apps have ended.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._events = engine.host.watch()
        self._has_begun = False

    @override
    async def __anext__(self) -> AppEvent:
        if not self._has_begun:
            self._has_begun = True
            feeder = _Feeder(self._engine, self._events)
            self._engine.ledger.waiters.add(feeder)
            feeder.wake()
        return await anext(self._events)

    @override
    async def aclose(self) -> None:
        """End the stream; the apps are not affected. Idempotent."""
        await self._events.aclose()
        self._engine.ledger.wake()  # lets go of what feeds it
