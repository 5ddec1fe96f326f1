"""`StateStream`: what `watch` returns; and the statistics of a watch and of the feed that all watches share."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from asyncsched._streams import SteppedStream, StreamCore, Waiter
from asyncsched._typing import NamedTuple, override
from asyncsched.logs.loop_time import LoopBudget, budget_of
from asyncsched.schedulers.responses import DescribeAppResponse, Fingerprint, StateEvent, own_copy
from asyncsched.specs.given import as_flat

__all__ = ["FeedStatistics", "StateStream", "Subscription", "WatchStatistics"]


if TYPE_CHECKING:

    class Feed(Protocol):
        """The side of a feed that a stream sees."""

        def opened(self, subscription: Subscription) -> None: ...
        def subscribe(self, app_id: str, subscription: Subscription) -> None: ...
        def unsubscribe(self, app_id: str, subscription: Subscription) -> None: ...
        def released(self, subscription: Subscription) -> None: ...
        async def settle(self) -> None: ...


class FeedStatistics(NamedTuple):
    """The statistics of a feed.

    Attributes:
        apps: Watched apps.
        watchers: Open streams.
        calls: Calls of the service, or sweeps over local records, so far.
        changes: Changes so far.
        interval: Seconds between two sweeps; 0 if changes are pushed.
        failures: Failures since the last success.
        last_error: The newest failure.
        connected: Whether changes are being pushed now.
    """

    apps: int
    watchers: int
    calls: int
    changes: int
    interval: float
    failures: int
    last_error: str
    connected: bool


class WatchStatistics(NamedTuple):
    """The statistics of a watch.

    Attributes:
        watched: Apps that have not ended.
        events: Events that were returned.
        pending: Events that wait for the consumer, at most one per app.
        merged: Changes that a newer change replaced before they were taken.
    """

    watched: int
    events: int
    pending: int
    merged: int


class Subscription(StreamCore):
    """A stream, as the feed sees it."""

    WHAT = "this watch"

    def __init__(self, feed: Feed, follow: bool) -> None:
        super().__init__()
        self._feed = feed
        self._follow = follow
        self._watched: dict[str, None] = {}
        self._joining: deque[str] = deque()  # subscribed at the next step, so that ten thousand do not hold the loop
        self._told: dict[str, DescribeAppResponse | None] = {}
        self._prints: dict[str, Fingerprint] = {}  # of the returned events
        self._over: set[str] = set()
        self._pending: dict[str, tuple[StateEvent, Fingerprint]] = {}
        self._error: BaseException | None = None
        self._waiter = Waiter()
        self._budget: LoopBudget | None = None
        self._events = 0
        self._merged = 0

    def add(self, app_id: str) -> None:
        """Watch this app too."""
        if self.closed or app_id in self._watched or app_id in self._over:
            return
        self._watched[app_id] = None
        self._joining.append(app_id)
        self._waiter.wake()

    def discard(self, app_id: str) -> None:
        """Stop watching this app."""
        self._over.discard(app_id)
        self._told.pop(app_id, None)
        self._prints.pop(app_id, None)
        self._pending.pop(app_id, None)
        if app_id in self._watched:
            del self._watched[app_id]
            if self._loop is not None:
                self._feed.unsubscribe(app_id, self)
            self._waiter.wake()

    def put(self, app_id: str, response: DescribeAppResponse | None, mark: Fingerprint, *, gone: bool) -> None:
        """Add a change; it replaces a waiting one, except a final one.

        Args:
            app_id: The app.
            response: Its newest description.
            mark: The fingerprint of the description, which the feed computes once for all watches.
            gone: Whether the service does not know the app.
        """
        if app_id not in self._watched:
            return
        previous = self._told.get(app_id)
        event = StateEvent(
            app_id=app_id, previous=previous, current=response if response is not None else previous, gone=gone
        )
        if self._pending.pop(app_id, None) is not None:
            self._merged += 1
        if previous is None or event.is_terminal() or mark != self._prints.get(app_id):
            self._pending[app_id] = event, mark
        if event.is_terminal():
            del self._watched[app_id]
            self._over.add(app_id)
            self._feed.unsubscribe(app_id, self)
        self._waiter.wake()

    def fail(self, error: BaseException) -> None:
        """End the stream with this error after the waiting events were taken."""
        self._error = self._error or error
        self._waiter.wake()

    async def step(self) -> StateEvent:
        """Wait for an event and take it."""
        if not await self.ready():
            raise StopAsyncIteration
        return self.take()

    async def ready(self) -> bool:
        """Wait for an event and return True, or False at the end, without taking it."""
        if self.closed and not self._pending:
            return False
        budget = self._begin()
        await budget.breathe()
        while not self._pending:
            if self._joining:
                await self._join(budget)
                continue
            if self._error is not None:
                await self._raise()
            if self.closed or not (self._follow or self._watched):
                await self.aclose()
                return False
            await self._waiter.wait()
        return True

    @property
    def pending(self) -> bool:
        """Whether an event is waiting."""
        return bool(self._pending)

    def take(self) -> StateEvent:
        """Take the oldest waiting event."""
        app_id = next(iter(self._pending))
        event, mark = self._pending.pop(app_id)
        if event.current is not None and event.current is not event.previous:
            event = event._replace(current=own_copy(event.current))  # all watches share the feed's object
        self._told[app_id] = event.current
        self._prints[app_id] = mark
        if event.is_terminal():
            del self._told[app_id], self._prints[app_id]
        self._events += 1
        return event

    def _begin(self) -> LoopBudget:
        if self._enter() or self._budget is None:
            self._budget = budget_of(asyncio.get_running_loop())
            self._feed.opened(self)
        return self._budget

    async def _join(self, budget: LoopBudget) -> None:
        while self._joining:
            app_id = self._joining.popleft()
            if app_id in self._watched:
                self._feed.subscribe(app_id, self)
            await budget.breathe()

    async def _raise(self) -> None:
        error = self._error
        assert error is not None
        await self.aclose()
        raise error

    @override
    def _detach(self) -> None:
        opened = self._loop is not None and not self.closed
        self.closed = True
        watched, self._watched = self._watched, {}
        if opened:
            for app_id in watched:
                self._feed.unsubscribe(app_id, self)
            self._feed.released(self)

    @override
    async def aclose(self) -> None:
        """Leave the feed; the last watcher also waits for the feed's end."""
        try:
            await self._leave()
        finally:
            self._detach()
        await self._forget()
        if self._loop is not None:
            await self._feed.settle()

    async def _leave(self) -> None:
        """Stop watching each app, with pauses for the loop between thousands of them."""
        if self._loop is None or self.closed:
            return
        budget = budget_of(self._loop)
        budget.begin()
        while self._watched:
            app_id, _ = self._watched.popitem()
            self._feed.unsubscribe(app_id, self)
            await budget.breathe()

    async def _forget(self) -> None:
        """Free the states of returned and waiting events in steps, because thousands of them take long."""
        held: tuple[dict[str, Any], ...] = self._pending, self._told, self._prints
        self._pending, self._told, self._prints = {}, {}, {}
        self._waiter.wake()
        if self._loop is None:
            return
        budget = budget_of(self._loop)
        for states in held:
            while states:
                states.popitem()
                await budget.breathe()

    def statistics(self) -> WatchStatistics:
        """Return the statistics of the watch."""
        return WatchStatistics(
            watched=len(self._watched), events=self._events, pending=len(self._pending), merged=self._merged
        )


class StateStream(SteppedStream[StateEvent, Subscription]):
    """The states of apps, present states first, as an async generator that survives a cancelled step.

    It ends when every app has ended or is gone; with `follow` it stays open for new apps. `add` and `discard` change
    the set of apps at any time, on the stream's loop. For a slow consumer, at most one event per app waits, the newest.
    To end the stream, call `aclose` (or use ``async with``), break out of the loop and drop it, or read to its end.
    """

    def __init__(self, feed: Feed, app_ids: Iterable[str] = (), *, follow: bool = False) -> None:
        super().__init__(Subscription(feed, follow))
        self.add(*app_ids)

    def add(self, *app_ids: str | Iterable[str]) -> None:
        """Watch these apps too; watched apps, and apps whose end was returned, are ignored."""
        for app_id in as_flat("app_ids", app_ids, "an app id"):
            self._core.add(app_id)

    def discard(self, *app_ids: str | Iterable[str]) -> None:
        """Stop watching these apps, and drop their waiting events."""
        for app_id in as_flat("app_ids", app_ids, "an app id"):
            self._core.discard(app_id)

    async def __anext__(self) -> StateEvent:
        return await self._alone(self._core.step)

    async def ready(self) -> bool:
        """Wait until `take_ready` can return an event and return True, or False at the stream's end.

        For callers that read several streams: nothing is taken, so newer events still replace waiting ones.
        """
        return await self._core.ready()

    def take_ready(self) -> StateEvent | None:
        """Return a waiting event; None if there is none."""
        return self._core.take() if self._core.pending else None

    def statistics(self) -> WatchStatistics:
        """Return the statistics of the watch."""
        return self._core.statistics()

    def __repr__(self) -> str:
        return f"<StateStream {self._core.state}, {self._core.statistics().watched} apps>"
