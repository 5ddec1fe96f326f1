"""A source that a hub's shared query serves, and that reads by itself while it is behind."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from asyncsched._tasks import outlast
from asyncsched._typing import override
from asyncsched.errors import SchedulerError
from asyncsched.logs.backoff import Backoff
from asyncsched.logs.line import LogLine
from asyncsched.logs.loop_time import budget_of
from asyncsched.logs.source import QueueSource

if TYPE_CHECKING:
    from asyncsched.logs.shared_query import HubEvent, LogHub

__all__ = ["HubSource"]

_log = logging.getLogger("asyncsched.logs")


@dataclass(eq=False, slots=True)
class _Position:
    """How far one stream of the service has been read."""

    begins: int = 0  # older lines are not wanted
    newest: int | None = None
    seen: dict[str, int] = field(default_factory=dict[str, int])  # time by id, for the last two windows

    def is_new(self, event: HubEvent, overlap_ns: int) -> bool:
        ns = event.ns
        # Lines older than the window were visible when the window was read.
        since = self.begins if self.newest is None else max(self.begins, self.newest - overlap_ns)
        return ns >= since and event.id not in self.seen

    def take(self, event: HubEvent, overlap_ns: int) -> None:
        ns = event.ns
        self.seen[event.id] = ns
        if self.newest is None or ns > self.newest:
            self.newest = ns
        horizon = self.newest - 2 * overlap_ns
        while (first := next(iter(self.seen))) and self.seen[first] < horizon:
            del self.seen[first]


class HubSource(QueueSource):
    """Lines of some streams of a hub; made by `LogHub.source`.

    Each line comes once, in the order of its stream. A full source is parked: it has no task and leaves the hub, and
    only its position is kept.
    """

    def __init__(
        self,
        hub: LogHub,
        keys: Iterable[str],
        *,
        since_ns: int | None,
        tail: bool,
        role: str,
        replica: int,
        room: int,
        settle_polls: int,
    ) -> None:
        super().__init__(role=role, replica=replica, room=room)
        self._hub = hub
        self._since_ns = since_ns
        self._tail = tail
        self._settle_polls = settle_polls
        self._positions = {key: _Position() for key in keys}
        self._behind = dict.fromkeys(self._positions)  # streams to catch up with
        self._started = False
        self._finishing = False
        self._parked = False
        self._first = True  # still reading what existed at the start
        self._past = 0  # lines from before the start that wait to be read
        self._quiet = 0
        self._roomy = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.taken = 0  # lines so far, for the hub

    @property
    @override
    def backlog(self) -> bool:
        return self._first or self._past > 0

    @override
    def start(self, wake: Callable[[], None]) -> None:
        super().start(wake)
        self._started = True
        self.on_room(self._make_use_of_room)
        self._catch_up_if_behind()

    def add_keys(self, keys: Iterable[str]) -> None:
        """Add streams of the service, read from the source's beginning."""
        for key in keys:
            if key not in self._positions:
                self._positions[key] = _Position()
                self._behind[key] = None
        if self._started and not self._parked:
            self._catch_up_if_behind()

    @override
    def finish(self) -> None:
        self._finishing = True
        self._hub.hurry()
        if self._started:
            self._end_if_done()

    @override
    def read(self, limit: int) -> Sequence[LogLine]:
        if not 0 < self._past < limit:
            lines = super().read(limit)
            self._past = max(self._past - len(lines), 0)
            return lines
        # Lines from before the start are returned separately, because `tail_lines` applies only to them.
        lines = super().read(self._past)
        self._past = 0
        if self._wake is not None:
            self._wake()
        return lines

    @override
    async def aclose(self) -> None:
        self._hub.leave(self, self._positions)
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await outlast([self._task], 10.0)
        await self._hub.settle()
        await super().aclose()

    # For services that can tell where the last lines of a stream begin.

    @property
    def one_at_a_time(self) -> bool:
        """Whether to catch up with each stream separately, from its `beginning`, instead of all together."""
        return False

    async def beginning(self, key: str) -> int | None:
        """Return the time to begin a stream from, if streams begin at different times."""
        return self._since_ns

    def pages(self, keys: Sequence[str], since_ns: int | None) -> AsyncGenerator[Sequence[HubEvent]]:
        """Yield the events of these streams from `since_ns` on, to catch up; like `LogHub.pages`."""
        return self._hub.pages(keys, since_ns)

    # For streams that continue where others have ended.

    def readable(self, keys: Sequence[str]) -> Sequence[str]:
        """Return those of these streams that may be read now; called again after each round."""
        return keys

    def arrange(self, lines: list[LogLine]) -> list[LogLine]:
        """Return these new lines in the order of delivery."""
        return lines

    # What the hub does.

    def offer(self, events: Sequence[HubEvent]) -> None:
        """Take the new events, or park if there is no room."""
        overlap = self._hub.remember_ns
        new = [event for event in events if self._positions[event.key].is_new(event, overlap)]
        if not new or self._ended:
            return
        if self.held and self.held + len(new) > self._room:
            self._park()
        else:
            self.put(self._accept(new))

    def polled(self, *, quiet: bool) -> None:
        """Record a round of the shared query; `quiet` if it had nothing new."""
        self._quiet = self._quiet + 1 if quiet and self._finishing and not self._behind else 0
        self._catch_up_if_behind()
        self._end_if_done()

    def fail(self, error: BaseException) -> None:
        """End with this error after the held lines were read."""
        self._hub.leave(self, self._positions)
        self.end(error)

    # Reading by itself.

    def _park(self) -> None:
        self._hub.leave(self, self._positions)
        self._behind = dict.fromkeys(self._positions)
        self._parked = True

    def _make_use_of_room(self) -> None:
        self._roomy.set()
        if self._parked:
            self._parked = False
            self._catch_up_if_behind()

    def _catch_up_if_behind(self) -> None:
        is_due = self._first and not self._behind
        if self._task is None and not self._ended and (is_due or self.readable(list(self._behind))):
            name = f"log of {self.role or 'a hub'}, catching up"
            self._task = asyncio.get_running_loop().create_task(self._catch_up(), name=name)

    async def _catch_up(self) -> None:
        backoff = Backoff(self._hub.clock, retry_for=self._hub.retry_for)
        try:
            while not self._parked and (keys := self.readable(list(self._behind))):
                try:
                    await self._one_pass(keys, backoff)
                except SchedulerError as error:
                    pause = backoff.failed(error)
                    _log.warning("reading log lines failed, trying again: %s", error)
                    await self._hub.clock.sleep(pause)
        except Exception as error:  # noqa: BLE001 - the stream's reader gets any error of a backend
            self.fail(error)
        finally:
            self._task = None
        self._first = self._first and bool(self._behind) and not self._parked
        self._end_if_done()
        if self._wake is not None:  # the lines of the past can be returned now
            self._wake()

    async def _one_pass(self, behind: Sequence[str], backoff: Backoff) -> None:
        """Read these streams from their position up to now, and join the hub if they have caught up."""
        # Streams without a position are read from the beginning, separately from the others.
        keys = [key for key in behind if self._positions[key].newest is None] or list(behind)
        known = self._hub.newest
        if self.one_at_a_time:
            keys = keys[:1]
            position = self._positions[keys[0]]
            if position.newest is None:
                position.begins = await self.beginning(keys[0]) or 0
        self._hub.count_catching_up()
        waited = await self._read_pages(keys, backoff)
        if self._tail and (waited or (known is None and self._hub.newest is not None)):
            return  # there may be newer lines: read again from there
        for key in keys:
            self._behind.pop(key, None)
        if self._tail and not self._ended and not self._parked:
            self._hub.join(self, keys, self._since_ns if known is None else known - self._hub.overlap_ns)
        elif self._parked:
            self._behind.update(dict.fromkeys(keys))

    async def _read_pages(self, keys: Sequence[str], backoff: Backoff) -> bool:
        """Take the new events of the pages; return whether there was too little room for all."""
        overlap = self._hub.remember_ns
        budget = budget_of(asyncio.get_running_loop())
        waited = False
        async with aclosing(self.pages(keys, self._reached(keys))) as pages:
            async for page in pages:
                backoff.worked()
                budget.begin()
                new = [event for event in page if self._positions[event.key].is_new(event, overlap)]
                lines = self._accept(new)
                self._roomy.clear()
                while not self.put(lines):
                    waited = True
                    await self._roomy.wait()
                    self._roomy.clear()
                if self._first:
                    self._past += len(lines)
                await budget.breathe()
        return waited

    def _reached(self, keys: Sequence[str]) -> int | None:
        known = [newest for key in keys if (newest := self._positions[key].newest) is not None]
        if len(known) < len(keys):
            # One stream with a separate beginning, or all with the same.
            return self._positions[keys[0]].begins or self._since_ns
        since = min(known) - self._hub.overlap_ns
        return since if self._since_ns is None else max(since, self._since_ns)

    def _accept(self, events: Sequence[HubEvent]) -> list[LogLine]:
        lines: list[LogLine] = []
        overlap = self._hub.remember_ns
        for event in events:
            position = self._positions[event.key]
            if position.is_new(event, overlap):  # checked again, because a page may contain an event twice
                position.take(event, overlap)
                lines.append(event.line)
        if events:
            self._hub.note(max(event.ns for event in events))
        self.taken += len(lines)
        return self.arrange(lines)

    def _end_if_done(self) -> None:
        if self._behind or self._parked or self._task is not None:
            return
        if self._tail and not (self._finishing and (self._quiet >= self._settle_polls or not self._positions)):
            return
        if self._tail and self._hub.last_look(self._positions):
            self._quiet -= 1
            self._hub.hurry()
            return
        self._hub.leave(self, self._positions)
        self.end()
