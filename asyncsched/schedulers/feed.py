"""One feed of state changes per scheduler, shared by all watches.

A feed begins with its first watcher and ends with its last. It keeps each app's newest state once, and passes each
change to the app's watchers. Its cost grows with the calls of a sweep and the number of changes, not with the number of
watchers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

from asyncsched._streams import for_one
from asyncsched._tasks import SharedTask, outlast
from asyncsched.clock import Clock, wait_for_event
from asyncsched.errors import AsyncSchedError, ClosedError, SchedulerError, ThrottledError
from asyncsched.logs.loop_time import budget_of
from asyncsched.schedulers.polling import FeedPace
from asyncsched.schedulers.responses import DescribeAppResponse, Fingerprint, fingerprint
from asyncsched.schedulers.state_reports import Answers, StatePort
from asyncsched.schedulers.state_stream import FeedStatistics, StateStream, Subscription

__all__ = ["StateFeed"]

_log = logging.getLogger("asyncsched.schedulers.feed")


class _App:
    """The feed's state of one watched app."""

    __slots__ = ("known", "last", "print", "subscriptions")

    def __init__(self) -> None:
        self.subscriptions: dict[Subscription, None] = {}
        self.known = False
        self.last: DescribeAppResponse | None = None
        self.print: Fingerprint = ()


class StateFeed:
    """The states of the watched apps of one scheduler, by push or by one shared poll.

    Args:
        name: The scheduler's name, for messages.
        sweep: Reads the given apps; each item has one call's answers.
        push: Connects to the service's reports and runs until they break off; None to poll.
        clock: The time source.
        calls_per_second: Most calls per second of a sweep.
        shortest: Fewest seconds between two sweeps.
    """

    def __init__(
        self,
        name: str,
        sweep: Callable[[Sequence[str]], AsyncIterator[Answers]],
        *,
        clock: Clock,
        push: Callable[[StatePort], Awaitable[None]] | None = None,
        calls_per_second: float = 10.0,
        shortest: float = 0.5,
    ) -> None:
        self._name = name
        self._sweep = sweep
        self._push = push
        self._clock = clock
        self._pace = FeedPace(clock, calls_per_second=calls_per_second, shortest=shortest)
        self._port = StatePort(self)
        self._apps: dict[str, _App] = {}
        self._due: dict[str, None] = {}  # apps to read at once: new ones, and ones that may have changed
        self._wake = asyncio.Event()
        self._task = SharedTask(f"states of {name}")
        self._watchers: set[Subscription] = set()
        self._closed: ClosedError | None = None
        self._calls = 0
        self._changes = 0
        self._failures = 0  # failed reads since the last answer
        self._breaks = 0  # breaks of the push since it was last connected
        self._last_error = ""
        self._connected = False

    # Called by watchers. The cost of each does not depend on the number of apps and watchers.

    def stream(self, app_ids: Iterable[str], *, follow: bool) -> StateStream:
        """Return a stream over these apps; it starts at its first step."""
        return StateStream(self, app_ids, follow=follow)

    def opened(self, subscription: Subscription) -> None:
        """Register a stream at its first step."""
        self._watchers.add(subscription)
        if self._closed is not None:
            subscription.fail(for_one(self._closed))
        else:
            self._task.begin(self._run)

    def subscribe(self, app_id: str, subscription: Subscription) -> None:
        """Send `subscription` the app's state, now or as soon as it is known, and each change."""
        app = self._apps.get(app_id)
        if app is None:
            app = self._apps[app_id] = _App()
            if self._port.on_add is not None:
                self._port.on_add(app_id)
            self._ask(app_id)
        app.subscriptions[subscription] = None
        if app.known:
            subscription.put(app_id, app.last, app.print, gone=app.last is None)

    def unsubscribe(self, app_id: str, subscription: Subscription) -> None:
        """Stop sending `subscription` changes of the app."""
        app = self._apps.get(app_id)
        if app is None:
            return
        app.subscriptions.pop(subscription, None)
        if not app.subscriptions:
            del self._apps[app_id]
            self._due.pop(app_id, None)
            if self._port.on_discard is not None:
                self._port.on_discard(app_id)

    def released(self, subscription: Subscription) -> None:
        """Remove a stream that has ended; with the last one the feed stops reading."""
        self._watchers.discard(subscription)
        if not self._watchers:
            self._task.end()

    async def settle(self) -> None:
        """Wait until the feed has stopped, if nobody watches."""
        await self._task.settle()

    async def close(self) -> None:
        """End the feed; all its streams end with a ClosedError."""
        self._closed = ClosedError(f"{self._name} was closed while its apps were watched")
        self._end_all(self._closed)
        self._task.end()
        await self._task.settle()

    def statistics(self) -> FeedStatistics:
        """Return the feed's statistics."""
        return FeedStatistics(
            apps=len(self._apps),
            watchers=len(self._watchers),
            calls=self._calls,
            changes=self._changes,
            interval=0.0 if self._push is not None else self._pace.interval,
            failures=self._failures + self._breaks,
            last_error=self._last_error,
            connected=self._connected,
        )

    # Called by the backend's reports.

    @property
    def app_ids(self) -> Sequence[str]:
        """The watched apps."""
        return list(self._apps)

    @property
    def changes(self) -> int:
        """The number of changes so far."""
        return self._changes

    def connected(self) -> None:
        """Record that reports are coming in, and read every app once."""
        self._connected = True
        self._breaks = 0
        self._due.update(dict.fromkeys(self._apps))
        self._wake.set()

    def changed(self, app_ids: Iterable[str]) -> None:
        """Read those of the apps that are watched."""
        for app_id in app_ids:
            if app_id in self._apps:
                self._ask(app_id)

    def apply(self, app_id: str, answer: DescribeAppResponse | AsyncSchedError | None) -> None:
        """Pass an app's state to its watchers if it has changed."""
        app = self._apps.get(app_id)
        if app is None:
            return
        if isinstance(answer, AsyncSchedError):
            for subscription in list(app.subscriptions):
                subscription.fail(for_one(answer))
            return
        if answer is not None:
            answer.native = None  # it may be large, and would be kept as long as the app is watched
        new_print = () if answer is None else fingerprint(answer)
        if app.known and new_print == app.print:
            app.last = answer
            return
        gone, last = answer is None, app.last if answer is None else answer
        app.known, app.last, app.print = True, answer, new_print
        self._changes += 1
        for subscription in list(app.subscriptions):
            subscription.put(app_id, last, new_print, gone=gone)

    # The feed's own task.

    def _ask(self, app_id: str) -> None:
        self._due[app_id] = None
        self._wake.set()

    async def _run(self) -> None:
        try:
            await (self._run_polled() if self._push is None else self._run_pushed())
        except Exception as error:  # noqa: BLE001 - watchers must get an error in a backend, not wait forever
            _log.exception("watching %s broke off", self._name)
            broken = SchedulerError(f"watching {self._name} broke off", why=repr(error), backend=self._name)
            broken.__cause__ = error
            self._end_all(broken)

    async def _run_polled(self) -> None:
        while True:
            began = self._clock.monotonic()
            self._due.clear()  # the sweep reads all of them
            self._pace.sweep_calls = max(await self._guarded(list(self._apps)), 1)
            await self._until_next(began)

    async def _until_next(self, began: float) -> None:
        """Wait for the next sweep, and read new apps as they come."""
        pause = max(self._pace.interval, self._pace.backoff(self._failures))
        while (left := began + pause - self._clock.monotonic()) > 0:
            self._wake.clear()
            if self._due:
                await self._ask_due()
                continue
            await wait_for_event(self._wake, self._clock, left)

    async def _run_pushed(self) -> None:
        loop = asyncio.get_running_loop()
        both = [loop.create_task(self._push_forever()), loop.create_task(self._answer_forever())]
        try:
            done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            done.pop().result()  # either one ends only by an error
        finally:
            self._connected = False
            for task in both:
                task.cancel()
            await outlast(both, 10.0)

    async def _push_forever(self) -> None:
        while True:
            await self._guarded_push()
            await self._clock.sleep(self._pace.backoff(self._breaks))

    async def _guarded_push(self) -> None:
        assert self._push is not None
        await self._pace.before_calls()
        try:
            await self._push(self._port)
        except AsyncSchedError as error:
            self._failed(error)
        finally:
            self._breaks += 1
            self._connected = False
            self._port.on_add = self._port.on_discard = None

    async def _answer_forever(self) -> None:
        while True:
            self._wake.clear()
            if self._due:
                await self._ask_due()
                await self._clock.sleep(self._pace.backoff(self._failures))
            else:
                await self._wake.wait()

    async def _ask_due(self) -> None:
        due = list(self._due)
        self._due.clear()
        answered = await self._guarded(due)
        if not answered:
            self._due.update((app_id, None) for app_id in due if app_id in self._apps)
            if self._push is None:
                await self._clock.sleep(self._pace.backoff(self._failures))

    async def _guarded(self, app_ids: Sequence[str]) -> int:
        """Read these apps; return the number of calls, 0 after a temporary failure."""
        await self._pace.before_calls()
        budget = budget_of(asyncio.get_running_loop())
        calls = 0
        try:
            async for answers in self._sweep(app_ids):
                calls += 1
                self._calls += 1
                budget.begin()
                for app_id, answer in answers.items():
                    self.apply(app_id, answer)
                    await budget.breathe()
                if self._push is None:
                    await self._pace.between_calls()
        except AsyncSchedError as error:
            self._failures += 1
            self._failed(error)
            return 0
        self._failures = 0
        self._pace.worked()
        return max(calls, 1)

    def _failed(self, error: AsyncSchedError) -> None:
        self._last_error = str(error)
        if isinstance(error, ThrottledError):
            self._pace.throttled(error)
        final = not (isinstance(error, SchedulerError) and error.retryable)
        _log.log(logging.WARNING, "watching %s failed%s: %s", self._name, "" if final else ", trying again", error)
        if final:
            self._fail_all(error)

    def _fail_all(self, error: AsyncSchedError) -> None:
        for subscription in {s: None for app in self._apps.values() for s in app.subscriptions}:
            subscription.fail(for_one(error))

    def _end_all(self, error: AsyncSchedError) -> None:
        for subscription in list(self._watchers):  # including those that watch no app now
            subscription.fail(for_one(error))
