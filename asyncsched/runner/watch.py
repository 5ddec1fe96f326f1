"""Watching apps of several schedulers in one stream.

Each scheduler has one feed of states that all its watchers share. This module distributes handles over those feeds and
merges their events.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable

from asyncsched._streams import AsyncStream, SteppedStream, StreamCore, Waiter
from asyncsched._tasks import close_all, outlast
from asyncsched._typing import override
from asyncsched.logs.loop_time import LoopBudget, budget_of
from asyncsched.runner.convert import AppEvent, app_event
from asyncsched.schedulers.state_stream import StateStream, WatchStatistics
from asyncsched.specs.given import as_flat
from asyncsched.specs.handle import AppHandle, parse_app_handle, schedulers_of
from asyncsched.specs.state import AppStatus

__all__ = ["AppEventStream", "CompletionStream"]

OpenStates = Callable[[str], Awaitable[StateStream]]
"""Returns an open-ended watch of the scheduler of this name."""

CLEANUP_TIMEOUT = 10.0


class _Arm:
    """The watch of one scheduler."""

    def __init__(self, name: str, states: StateStream) -> None:
        self.name = name
        self.states = states
        self.handles: dict[str, AppHandle] = {}  # by app id: the handle as the caller gave it
        self.waiting: asyncio.Task[bool] | None = None
        self.ended = False

    def wait(self, notify: Callable[[], None]) -> None:
        """Arrange for `notify` to be called when an event is available."""
        if self.waiting is None:
            self.waiting = asyncio.create_task(self.states.ready(), name=f"watch of {self.name}")
            self.waiting.add_done_callback(lambda _: notify())

    def take(self) -> AppEvent | None:
        """Return an event if there is one; raise the error that ended the watch."""
        event = self.states.take_ready()
        if event is not None:
            return app_event(event, self.handles[event.app_id])
        if self.waiting is not None and self.waiting.done():
            waiting, self.waiting = self.waiting, None
            self.ended = not waiting.result()
        return None


class _Core(StreamCore):
    """The watches of the schedulers, and the apps that the next step adds or discards."""

    WHAT = "this watch"

    def __init__(
        self,
        open_states: OpenStates,
        check: Callable[[Collection[str]], None],
        follow: bool,
        on_event: Callable[[AppEvent], None],
    ) -> None:
        super().__init__()
        self._open_states = open_states
        self._check = check
        self._follow = follow
        self._on_event = on_event
        self._arms: dict[str, _Arm] = {}
        self.asked: deque[tuple[str, bool]] = deque()  # handles to add (True) or discard (False), in call order
        self.watched: set[AppHandle] = set()
        self._error: BaseException | None = None
        self._waiter = Waiter()
        self._budget: LoopBudget | None = None
        self._events = 0
        self._merged = 0  # by watches that have ended

    def ask(self, handles: Collection[str], *, wanted: bool) -> None:
        """Record apps to add or discard at the next step; raise for a malformed handle."""
        with contextlib.suppress(RuntimeError):  # outside of a loop there is nothing to hold up
            budget_of(asyncio.get_running_loop()).begin()
        schedulers = schedulers_of(handles)
        if wanted:
            self._check(schedulers)
        if not self.closed:
            self.asked.extend([(handle, wanted) for handle in handles])
            self._waiter.wake()

    async def _do_as_asked(self, budget: LoopBudget) -> None:
        """Add and discard in slices; if cancelled, the next step continues."""
        while self.asked and not self.closed:
            handle, wanted = self.asked[0]
            scheduler, _, app_id = parse_app_handle(handle)
            if wanted and scheduler not in self._arms:
                await self._open(scheduler)
                continue  # it may have been closed meanwhile
            self.asked.popleft()
            if wanted:
                self._add(self._arms[scheduler], app_id, handle)
            elif scheduler in self._arms:
                self._discard(self._arms[scheduler], app_id)
            await budget.breathe()

    async def _open(self, scheduler: str) -> None:
        try:
            states = await self._open_states(scheduler)
        except Exception as error:
            others = [each for each in self.asked if parse_app_handle(each[0]).scheduler_backend != scheduler]
            error.add_note(f"This ended the watch of {len(self.asked) - len(others)} app(s) of {scheduler}.")
            self.asked = deque(others)
            raise
        self._arms[scheduler] = _Arm(scheduler, states)

    def _add(self, arm: _Arm, app_id: str, handle: str) -> None:
        if app_id not in arm.handles:
            # Just parsed, so it need not be checked again.
            known = arm.handles[app_id] = str.__new__(AppHandle, handle)
            self.watched.add(known)
            arm.states.add(app_id)

    def _discard(self, arm: _Arm, app_id: str) -> None:
        if (known := arm.handles.pop(app_id, None)) is not None:
            self.watched.discard(known)
            arm.states.discard(app_id)

    async def step(self) -> AppEvent:
        """Wait for an event and return it. Nothing is taken before the last await, so cancellation loses nothing."""
        budget = self._begin()
        await budget.breathe()
        while not self.closed:
            if self.asked:
                await self._do_as_asked(budget)
                continue
            event = self._take()
            if event is not None:
                return event
            if not (self._follow or self.watched):
                await self.aclose()
            else:
                await self._wait()
        error, self._error = self._error, None
        raise error or StopAsyncIteration

    def _begin(self) -> LoopBudget:
        if self._enter() or self._budget is None:
            self._budget = budget_of(asyncio.get_running_loop())
        return self._budget

    def _take(self) -> AppEvent | None:
        """Return the next available event, taking schedulers in turn."""
        for name, arm in list(self._arms.items()):
            try:
                event = arm.take()
            except Exception as error:
                error.add_note(f"This ended the watch of {self._give_up(arm)} app(s) of {name}.")
                raise
            if event is not None:
                self._arms[name] = self._arms.pop(name)  # other schedulers come first next time
                if event.is_terminal():
                    self.watched.discard(event.handle)
                self._events += 1
                self._on_event(event)
                return event
            if arm.ended:
                self._give_up(arm)
        return None

    def _give_up(self, arm: _Arm) -> int:
        left = self.watched.intersection(arm.handles.values())
        self.watched -= left
        self._merged += arm.states.statistics().merged
        del self._arms[arm.name]
        return len(left)

    def statistics(self) -> WatchStatistics:
        arms = [arm.states.statistics() for arm in self._arms.values()]
        return WatchStatistics(
            watched=len(self.watched) + sum(wanted for _, wanted in self.asked),
            events=self._events,
            pending=sum(each.pending for each in arms),
            merged=self._merged + sum(each.merged for each in arms),
        )

    def finish(self) -> None:
        self._follow = False
        self._waiter.wake()

    def fail(self, error: BaseException) -> None:
        if not self.closed:
            self._error = error

    async def _wait(self) -> None:
        for arm in self._arms.values():
            arm.wait(self._waiter.wake)
        await self._waiter.wait()

    @override
    def _detach(self) -> list[asyncio.Task[bool]]:
        self.closed = True
        self.watched.clear()
        self.asked.clear()
        self._waiter.wake()
        waiting = [arm.waiting for arm in self._arms.values() if arm.waiting is not None]
        for task in waiting:
            task.cancel()
        return waiting

    @override
    async def aclose(self) -> None:
        """End the waiting tasks and the watches of all schedulers."""
        waiting = self._detach()
        arms, self._arms = self._arms, {}
        self._merged += sum(arm.states.statistics().merged for arm in arms.values())
        try:
            await outlast(waiting, CLEANUP_TIMEOUT)
        finally:
            await close_all([arm.states.aclose() for arm in arms.values()], CLEANUP_TIMEOUT)


class AppEventStream(SteppedStream[AppEvent, _Core]):
    """The states of apps on any mix of schedulers: current states first, then each change.

    The stream ends when all apps have ended or are gone; with `follow` it stays open for more apps. `add` and `discard`
    change the set of apps at any time, on the stream's loop. A step that is cancelled or times out loses nothing. For a
    slow consumer, only the newest event of each app is kept. If a scheduler fails permanently or cannot be used, one
    step raises its error, with a note that counts its apps; later steps continue with the other schedulers.

    Added and discarded handles are checked at once and take effect with the next step, or the one that is waiting.
    Adding ten thousand handles at a time does not block the loop.

    End it with `aclose` (or ``async with``), by breaking out of the loop and dropping it, or by reading to its end.
    """

    def __init__(
        self,
        handles: Iterable[str],
        open_states: OpenStates,
        *,
        check: Callable[[Collection[str]], None] = lambda schedulers: None,
        follow: bool = False,
        on_event: Callable[[AppEvent], None] = lambda event: None,
    ) -> None:
        super().__init__(_Core(open_states, check, follow, on_event))
        self.add(handles)

    def add(self, *handles: str | Iterable[str]) -> None:
        """Watch these apps too; an app that is already watched, or whose end was reported, is not changed."""
        self._core.ask(as_flat("handles", handles, "a handle"), wanted=True)

    def discard(self, *handles: str | Iterable[str]) -> None:
        """Stop watching these apps; drop their pending events."""
        self._core.ask(as_flat("handles", handles, "a handle"), wanted=False)

    def finish(self) -> None:
        """Let the stream end when the apps watched so far have ended."""
        self._core.finish()

    async def __anext__(self) -> AppEvent:
        return await self._alone(self._core.step)

    async def fail(self, error: BaseException) -> None:
        """End the watch as `aclose` does, but raise `error` in its consumer."""
        self._core.fail(error)
        await self._core.aclose()

    @property
    def watched(self) -> int:
        """How many watched apps have not ended, including those that the next step adds."""
        return self._core.statistics().watched

    def statistics(self) -> WatchStatistics:
        """Return statistics of the watch over all schedulers."""
        return self._core.statistics()

    def __repr__(self) -> str:
        return f"<AppEventStream {self._core.state}, {self.watched} apps>"


class CompletionStream(AsyncStream[tuple[AppHandle, AppStatus | None]]):
    """Apps with their last status, in the order in which they end. A cancelled step loses nothing."""

    def __init__(self, events: AppEventStream) -> None:
        self._events = events

    async def __anext__(self) -> tuple[AppHandle, AppStatus | None]:
        while True:
            event = await anext(self._events)
            if event.is_terminal():
                return event.handle, event.current

    async def aclose(self) -> None:
        """End the watch; the apps are not affected. Idempotent."""
        await self._events.aclose()

    def statistics(self) -> WatchStatistics:
        """Return statistics of the watch; its events are all changes, not only ends."""
        return self._events.statistics()

    def __repr__(self) -> str:
        return f"<CompletionStream of {self._events!r}>"
