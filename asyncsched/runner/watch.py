"""Watching apps of several schedulers in one stream.

Each scheduler has one feed of states that all its watchers share; what is done here is only to spread handles over
those feeds, and to read them as one.
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
        self.handles: dict[str, AppHandle] = {}  # by app id: how the caller calls it, session and all
        self.waiting: asyncio.Task[bool] | None = None
        self.ended = False

    def wait(self, notify: Callable[[], None]) -> None:
        """See to it that `notify` is called when there is an event to take."""
        if self.waiting is None:
            self.waiting = asyncio.create_task(self.states.ready(), name=f"watch of {self.name}")
            self.waiting.add_done_callback(lambda _: notify())

    def take(self) -> AppEvent | None:
        """Return an event if there is one; raise what has ended the watch."""
        event = self.states.take_ready()
        if event is not None:
            return app_event(event, self.handles[event.app_id])
        if self.waiting is not None and self.waiting.done():
            waiting, self.waiting = self.waiting, None
            self.ended = not waiting.result()
        return None


class _Core(StreamCore):
    """The watches of the schedulers, and what the next step is to add to them and take from them."""

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
        self.asked: deque[tuple[str, bool]] = deque()  # handles to watch (True) or not to, in the order of the calls
        self.watched: set[AppHandle] = set()
        self._error: BaseException | None = None
        self._waiter = Waiter()
        self._budget: LoopBudget | None = None
        self._events = 0
        self._merged = 0  # by watches that are over

    def ask(self, handles: Collection[str], *, wanted: bool) -> None:
        """Take note of what is to be watched, or no more, from the next step on; raise for what is no handle."""
        with contextlib.suppress(RuntimeError):  # outside of a loop nobody else's time is spent
            budget_of(asyncio.get_running_loop()).begin()
        schedulers = schedulers_of(handles)
        if wanted:
            self._check(schedulers)
        if not self.closed:
            self.asked.extend([(handle, wanted) for handle in handles])
            self._waiter.wake()

    async def _do_as_asked(self, budget: LoopBudget) -> None:
        """Add and discard, a slice at a time; cancelled, the next step goes on where this one was."""
        while self.asked and not self.closed:
            handle, wanted = self.asked[0]
            scheduler, _, app_id = parse_app_handle(handle)
            if wanted and scheduler not in self._arms:
                await self._open(scheduler)
                continue  # meanwhile it may have been closed
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
            # It has just been taken apart, so it need not be checked again.
            known = arm.handles[app_id] = str.__new__(AppHandle, handle)
            self.watched.add(known)
            arm.states.add(app_id)

    def _discard(self, arm: _Arm, app_id: str) -> None:
        if (known := arm.handles.pop(app_id, None)) is not None:
            self.watched.discard(known)
            arm.states.discard(app_id)

    async def step(self) -> AppEvent:
        """Wait for an event and return it; nothing is taken before the last await."""
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
        """Return an event of the scheduler whose turn it is, if there is one."""
        for name, arm in list(self._arms.items()):
            try:
                event = arm.take()
            except Exception as error:
                error.add_note(f"This ended the watch of {self._give_up(arm)} app(s) of {name}.")
                raise
            if event is not None:
                self._arms[name] = self._arms.pop(name)  # the others come first next time
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
    """The states of apps of any mix of schedulers: present ones first, then each change.

    It ends when every app has ended or is gone; with `follow` it stays open for apps to come. `add` and `discard`
    change the set at any time on the stream's loop. A step that is cancelled or times out loses nothing. At most one
    event of each app waits for a slow consumer, the newest. When a scheduler fails for good, or cannot be used at all,
    its error is raised by one step, with a note that counts its apps; the steps after it go on with the apps of the
    others.

    What is added and discarded is checked at once and takes effect with the next step, or with the one that waits: ten
    thousand handles at a time do not hold the loop.

    Leave it by `aclose` (or ``async with``), by breaking out of the loop and dropping it, or by reading to its end.
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
        """Watch these apps too; one that is watched, or whose end has been told, is left as it is."""
        self._core.ask(as_flat("handles", handles, "a handle"), wanted=True)

    def discard(self, *handles: str | Iterable[str]) -> None:
        """Watch these apps no more; an event of theirs that waits is dropped."""
        self._core.ask(as_flat("handles", handles, "a handle"), wanted=False)

    def finish(self) -> None:
        """Let the stream end when the apps that are watched by now have ended: no more are to come."""
        self._core.finish()

    async def __anext__(self) -> AppEvent:
        return await self._alone(self._core.step)

    async def fail(self, error: BaseException) -> None:
        """End the watch as `aclose` does; its consumer gets `error` and not what looks like an end."""
        self._core.fail(error)
        await self._core.aclose()

    @property
    def watched(self) -> int:
        """How many apps are watched that have not ended, those that the next step begins with included."""
        return self._core.statistics().watched

    def statistics(self) -> WatchStatistics:
        """Return what the watch has done so far, over all schedulers."""
        return self._core.statistics()

    def __repr__(self) -> str:
        return f"<AppEventStream {self._core.state}, {self.watched} apps>"


class CompletionStream(AsyncStream[tuple[AppHandle, AppStatus | None]]):
    """Apps with their last status, in the order in which they end; a step that is cancelled loses nothing."""

    def __init__(self, events: AppEventStream) -> None:
        self._events = events

    async def __anext__(self) -> tuple[AppHandle, AppStatus | None]:
        while True:
            event = await anext(self._events)
            if event.is_terminal():
                return event.handle, event.current

    async def aclose(self) -> None:
        """End the watch; the apps are not touched. Idempotent."""
        await self._events.aclose()

    def statistics(self) -> WatchStatistics:
        """Return what the watch of these apps has done so far: its events are all changes, not only ends."""
        return self._events.statistics()

    def __repr__(self) -> str:
        return f"<CompletionStream of {self._events!r}>"
