"""`StateStream`: what `watch` returns."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from asyncsched._streams import SteppedStream, StreamCore, Waiter
from asyncsched._typing import override
from asyncsched.logs.loop_time import LoopBudget, budget_of
from asyncsched.schedulers.responses import DescribeAppResponse, Fingerprint, StateEvent, own_copy
from asyncsched.specs.given import as_flat

__all__ = ["StateStream", "Subscription", "WatchStatistics"]


class Feed(Protocol):
    """The side of a feed that a stream sees."""

    def opened(self, subscription: Subscription) -> None: ...
    def subscribe(self, app_id: str, subscription: Subscription) -> None: ...
    def unsubscribe(self, app_id: str, subscription: Subscription) -> None: ...
    def released(self, subscription: Subscription) -> None: ...
    async def settle(self) -> None: ...


class WatchStatistics(NamedTuple):
    """What a watch has done so far.

    Attributes:
        watched: Apps that have not ended.
        events: Events that were handed on.
        pending: Events that wait for the consumer, at most one for each app.
        merged: Changes that a newer one replaced before they were taken.
    """

    watched: int
    events: int
    pending: int
    merged: int


class Subscription(StreamCore):
    """What a feed knows of a stream."""

    WHAT = "this watch"

    def __init__(self, feed: Feed, follow: bool) -> None:
        super().__init__()
        self._feed = feed
        self._follow = follow
        self._watched: dict[str, None] = {}
        self._joining: deque[str] = deque()  # subscribed at the next step, so that ten thousand do not hold the loop
        self._told: dict[str, DescribeAppResponse | None] = {}
        self._prints: dict[str, Fingerprint] = {}  # of what was told
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
        """Watch this app no more."""
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
        """Note a change; a newer one replaces one that has not been taken, a last one is never replaced.

        Args:
            app_id: The app.
            response: What is known of it now.
            mark: The fingerprint of that, which the feed has made for all who watch.
            gone: Whether the service does not know it.
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
        """End the stream with this error once the events that wait have been taken."""
        self._error = self._error or error
        self._waiter.wake()

    async def step(self) -> StateEvent:
        """Wait for an event and take it."""
        if not await self.ready():
            raise StopAsyncIteration
        return self.take()

    async def ready(self) -> bool:
        """Wait for an event and return True, or False at the end; nothing is taken."""
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
        """Whether an event waits."""
        return bool(self._pending)

    def take(self) -> StateEvent:
        """Take the event that has waited longest."""
        app_id = next(iter(self._pending))
        event, mark = self._pending.pop(app_id)
        if event.current is not None and event.current is not event.previous:
            event = event._replace(current=own_copy(event.current))  # the feed's is shared by all who watch
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
        """Leave the feed, and wait for its end if this was its last watcher."""
        try:
            await self._leave()
        finally:
            self._detach()
        await self._forget()
        if self._loop is not None:
            await self._feed.settle()

    async def _leave(self) -> None:
        """Stop watching each app; the loop has its turns between thousands of them."""
        if self._loop is None or self.closed:
            return
        budget = budget_of(self._loop)
        budget.begin()
        while self._watched:
            app_id, _ = self._watched.popitem()
            self._feed.unsubscribe(app_id, self)
            await budget.breathe()

    async def _forget(self) -> None:
        """Let go of what was told, and what waits; to free the states of thousands of apps takes long, too."""
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
        """Return what the watch has done so far."""
        return WatchStatistics(
            watched=len(self._watched), events=self._events, pending=len(self._pending), merged=self._merged
        )


class StateStream(SteppedStream[StateEvent, Subscription]):
    """The states of apps, present ones first, as an async generator that a cancelled step does not end.

    It ends when every app has ended or is gone; with `follow` it stays open for apps to come. `add` and `discard`
    change the set at any time on the stream's loop. At most one event of each app waits for a slow consumer, the
    newest. Leave it by `aclose` (or ``async with``), by breaking out of the loop and dropping it, or by reading to
    its end.
    """

    def __init__(self, feed: Feed, app_ids: Iterable[str] = (), *, follow: bool = False) -> None:
        super().__init__(Subscription(feed, follow))
        self.add(*app_ids)

    def add(self, *app_ids: str | Iterable[str]) -> None:
        """Watch these apps too; one that is watched, or whose end has been told, is left as it is."""
        for app_id in as_flat("app_ids", app_ids, "an app id"):
            self._core.add(app_id)

    def discard(self, *app_ids: str | Iterable[str]) -> None:
        """Watch these apps no more; an event of theirs that waits is dropped."""
        for app_id in as_flat("app_ids", app_ids, "an app id"):
            self._core.discard(app_id)

    async def __anext__(self) -> StateEvent:
        return await self._alone(self._core.step)

    async def ready(self) -> bool:
        """Wait until `take_ready` has something to give, and return whether it has: False at the stream's end.

        For one who reads several streams: nothing is taken, so that what waits is still replaced by what is newer.
        """
        return await self._core.ready()

    def take_ready(self) -> StateEvent | None:
        """Return an event that waits, None if there is none at this moment."""
        return self._core.take() if self._core.pending else None

    def statistics(self) -> WatchStatistics:
        """Return what the watch has done so far."""
        return self._core.statistics()

    def __repr__(self) -> str:
        return f"<StateStream {self._core.state}, {self._core.statistics().watched} apps>"
