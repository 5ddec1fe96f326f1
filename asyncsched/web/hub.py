"""One watch over all apps and the selected logs, shared by all pages."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from asyncsched._tasks import BackgroundTasks
from asyncsched._typing import NamedTuple
from asyncsched.logs.loop_time import budget_of
from asyncsched.runner.listed_apps import ListedApps
from asyncsched.runner.results import AppList, is_set_up
from asyncsched.runner.runner import Runner
from asyncsched.runner.watch import AppEventStream
from asyncsched.schedulers.responses import ListAppResponse
from asyncsched.specs.handle import AppHandle
from asyncsched.views.answers import listed, with_listed
from asyncsched.views.apps import app_view
from asyncsched.web.board import RowBoard
from asyncsched.web.selections import Selections
from asyncsched.web.tail import Tail, TailReader
from asyncsched.web.wire import safe

__all__ = ["Full", "Hub", "OpenPage", "WebLimits"]

_log = logging.getLogger("asyncsched.web")

MOST_NOTES = 8
CLEANUP_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WebLimits:
    """The limits of a server.

    Attributes:
        apps: The most apps in the table; the newest are kept.
        connections: The most connections; a further one is closed at once.
        head: Seconds to wait on a connection for the head of a request.
        pages: The most pages connected.
        tails: The most logs read at a time.
        selected: The most apps whose logs one page shows, which is also the most of one selection.
        selections: The most selections to remember; the latest used are kept.
        tail_lines: Lines of each replica at the beginning of a log.
        beginning: Lines of all apps at the beginning of a log, one replica each: of many apps, each shows fewer.
        linger: Seconds to keep a log that no page shows, for a page that comes back.
        look_every: Seconds between two searches for new apps.
        stall: Seconds after which a page that does not read is disconnected.
        pace: Seconds between two rounds of messages to all pages, unless one message cannot hold everything.
    """

    apps: int = 10_000
    connections: int = 512
    head: float = 30.0
    pages: int = 64
    tails: int = 16
    selected: int = 1000
    selections: int = 128
    tail_lines: int = 1000
    beginning: int = 100_000
    linger: float = 30.0
    look_every: float = 5.0
    stall: float = 10.0
    pace: float = 0.1


class Full(Exception):  # noqa: N818 - not an error
    """The limit of pages, or of logs, is reached."""


class OpenPage:
    """A connected page.

    Attributes:
        tail: The log that it shows.
        reader: How far it has read that log.
        cut: Closes its connection.
        notes: Its notes about schedulers that cannot be queried.
    """

    def __init__(self, cut: Callable[[], object]) -> None:
        self.tail: Tail | None = None
        self.reader: TailReader | None = None
        self.cut = cut
        self.notes: list[str] = []


class Message(NamedTuple):
    """What was sent to one page, for others at the same place.

    Attributes:
        made_from: The place, and how far apps and the log were.
        data: The message.
        serial: The place's last change of an app, after it.
        begun: The number up to which the place needs no removals, after it.
        number: The place's last line, after it.
        is_full: Whether more was waiting.
    """

    made_from: tuple[object, ...]
    data: bytes
    serial: int
    begun: int
    number: int
    is_full: bool


class Hub:
    """The content of one server's pages.

    Args:
        runner: The runner of the apps.
        handles: The apps to show; by default all, including new ones.
        look: Lists the newest apps, up to a number; by default the runner's list.
        limits: The limits.
    """

    def __init__(
        self,
        runner: Runner,
        handles: Sequence[AppHandle] | None = None,
        look: Callable[[int], Awaitable[AppList]] | None = None,
        limits: WebLimits | None = None,
    ) -> None:
        self.limits = limits or WebLimits()
        self.board = RowBoard()
        self.selections = Selections(self.limits.selections)
        self.name = secrets.token_hex(4)
        self.pages: set[OpenPage] = set()
        self.notes: list[str] = []
        self.latest: Message | None = None
        self._runner = runner
        self._handles = handles
        self._listed: ListedApps | None = None
        self._ended: list[str] = []  # according to the last look, but not to the watch
        if handles is None:
            look_at = partial(look or self._list, self.limits.apps)
            self._listed = ListedApps(look_at, runner.clock, self.limits.look_every)
        self._waiting: set[asyncio.Future[None]] = set()
        self._tails: dict[frozenset[str], Tail] = {}
        self._reading: dict[str, asyncio.Task[None]] = {}
        self._lingering: dict[str, asyncio.TimerHandle] = {}
        self._tasks = BackgroundTasks(_log)
        self._asked = _Shared(self._ask)
        self._watch_is_over = False
        self._count = 0
        self._events: AppEventStream | None = None

    # Starting and stopping

    def start(self) -> None:
        """Start watching."""
        events = self._events = self._runner.watch(self._handles or (), follow=self._handles is None)
        self._tasks.start(self._watch(events), name="watch of the page")
        if self._listed is not None:
            self._tasks.start(self._keep_looking(self._listed, events), name="list of the page")

    async def close(self) -> None:
        """Stop everything; the apps keep running."""
        for timer in self._lingering.values():
            timer.cancel()
        for page in [*self.pages]:
            page.cut()
        await self._tasks.close(CLEANUP_TIMEOUT)
        if self._events is not None:
            await self._events.aclose()
        for tail in self.tails:
            await tail.close()

    @property
    def over(self) -> bool:
        """Whether no app's state can change any more: all named apps have ended."""
        return self._watch_is_over

    @property
    def tails(self) -> list[Tail]:
        """The logs that are being read."""
        return [*self._tails.values()]

    def look_again(self) -> None:
        """Search for new apps now."""
        if self._listed is not None:
            self._listed.look_again()

    async def refresh(self) -> None:
        """Look for the present apps and states, and wait for what is found; requests at the same time share a look."""
        if self._listed is not None:
            await self._listed.look_now()
        await self._asked.now()

    # Pages

    def join(self, page: OpenPage, handles: Iterable[str]) -> None:
        """Add a page that shows the logs of these apps.

        Raises:
            Full: The limit of pages, or of logs, is reached.
        """
        if len(self.pages) >= self.limits.pages:
            raise Full(f"at most {self.limits.pages} pages may be open; close one")
        wanted = frozenset(handles)
        if wanted:
            page.tail = self._tail(wanted)
        self.pages.add(page)
        if len(self.pages) == 1:
            self.look_again()

    def leave(self, page: OpenPage) -> None:
        """Remove a page; its log is kept for a while if no other page reads it."""
        self.pages.discard(page)
        tail = page.tail
        if tail is None or page.reader is None:
            return
        tail.leave(page.reader)
        if not tail.readers:
            loop = asyncio.get_running_loop()
            self._lingering[tail.name] = loop.call_later(self.limits.linger, self._close_tail, tail.name)

    def _tail(self, wanted: frozenset[str]) -> Tail:
        tail = self._tails.get(wanted)
        if tail is None:
            if len(self._tails) >= self.limits.tails:
                self._close_tail(next(iter(self._lingering), ""))
            if len(self._tails) >= self.limits.tails:
                raise Full(f"at most {self.limits.tails} logs may be open on all pages; close one")
            tail = self._open_tail(wanted)
        timer = self._lingering.pop(tail.name, None)
        if timer is not None:
            timer.cancel()
        return tail

    def _open_tail(self, wanted: frozenset[str]) -> Tail:
        tail_lines = min(self.limits.tail_lines, max(self.limits.beginning // len(wanted), 1))
        lines = self._runner.log_lines(sorted(wanted), should_tail=True, tail_lines=tail_lines)
        self._count += 1
        tail = self._tails[wanted] = Tail(f"{self.name}{self._count}", lines, self._wake)
        self._reading[tail.name] = self._tasks.start(tail.read(), name="log of the page")
        return tail

    def _close_tail(self, name: str) -> None:
        timer = self._lingering.pop(name, None)
        if timer is None:
            return
        timer.cancel()
        self._tails = {wanted: tail for wanted, tail in self._tails.items() if tail.name != name}
        self._reading.pop(name).cancel()

    async def changed(self) -> None:
        """Wait for the next change: a caller that checks and then waits misses nothing."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            await waiter
        finally:
            self._waiting.discard(waiter)

    def _wake(self) -> None:
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)
        self._waiting.clear()

    # Apps

    async def _list(self, most: int) -> AppList:
        return await self._runner.list(limit=most)

    async def _ask(self) -> None:
        """Ask for the states that the watch, which may ask seldom, has not told of yet.

        They are those of the named apps, and of apps that have ended according to the last look.
        """
        handles = self._ended if self._handles is None else self._handles
        if not handles:
            return
        serial = self.board.serial
        try:
            found = await self._runner.status_all(handles)
        except Exception as error:  # noqa: BLE001 - a plugin's own, too
            self._note(error)
            return
        for failure in found.failures.values():
            self._note(failure)
        budget = budget_of(asyncio.get_running_loop())
        for handle, status in found.items():
            budget.begin()
            row = None if self._listed is None else self._listed.rows.get(handle)
            is_shown = self._listed is None or row is not None
            if is_shown and not self.board.has_changed(handle, serial):  # or the watch has told of it meanwhile
                self.board.show(with_listed(app_view(handle, status), row))
            await budget.breathe()
        self._wake()

    async def _keep_looking(self, listed_apps: ListedApps, events: AppEventStream) -> None:
        async def take(rows: AppList) -> None:
            failures = filter(is_set_up, rows.failures.values())
            self.notes = [safe(str(error)) for error in failures][:MOST_NOTES]
            await listed_apps.update({row.app_handle: row for row in rows}, rows.failures, new, gone)
            self._ended = await self._ends_not_shown(rows)
            rest()
            self._wake()

        def failed(error: Exception) -> None:
            self._note(error)
            rest()

        def rest() -> None:
            if not self.pages:  # a server without pages looks only when a request asks for it
                listed_apps.rest()

        def new(row: ListAppResponse) -> None:
            self.board.show(listed(row))
            events.add(row.app_handle)

        def gone(handle: str) -> None:
            self.board.take_off(handle)
            events.discard(handle)

        await listed_apps.keep_looking(take, failed)

    async def _ends_not_shown(self, rows: AppList) -> list[str]:
        found: list[str] = []
        budget = budget_of(asyncio.get_running_loop())
        for row in rows:
            budget.begin()
            view = self.board.views.get(row.app_handle)
            if row.state.is_terminal() and view is not None and not view.is_over:
                found.append(row.app_handle)
            await budget.breathe()
        return found

    async def _watch(self, events: AppEventStream) -> None:
        budget = budget_of(asyncio.get_running_loop())
        async with events:
            while True:
                try:
                    event = await anext(events)
                except StopAsyncIteration:
                    break
                except Exception as error:  # noqa: BLE001 - one scheduler's; the next steps belong to the others
                    self._note(error)
                    continue
                budget.begin()
                row = None if self._listed is None else self._listed.rows.get(event.handle)
                if row is not None or self._listed is None:
                    self.board.show(with_listed(app_view(event.handle, event.current), row))
                    self._wake()
                await budget.breathe()
        self._watch_is_over = True
        self._wake()

    def _note(self, error: Exception) -> None:
        note = safe(str(error))
        self.notes = [*(each for each in self.notes if each != note), note][-MOST_NOTES:]
        self._wake()


class _Shared:
    """Runs one thing at a time for all who want it: each waits for the first run that begins after it has asked."""

    def __init__(self, run: Callable[[], Awaitable[None]]) -> None:
        self._run = run
        self._lock = asyncio.Lock()
        self._begun = 0
        self._finished = 0  # the number of the last run that was not cancelled

    async def now(self) -> None:
        begun = self._begun
        async with self._lock:
            if self._finished <= begun:
                self._begun += 1
                await self._run()
                self._finished = self._begun
