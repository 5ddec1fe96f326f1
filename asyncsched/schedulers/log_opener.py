"""Open the logs of replicas while an app starts, restarts and ends."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Sequence
from itertools import chain

from asyncsched.clock import Clock
from asyncsched.errors import UnknownAppError
from asyncsched.logs.engine import LogSink
from asyncsched.logs.loop_time import budget_of
from asyncsched.logs.query import LogQuery
from asyncsched.logs.source import LogSource
from asyncsched.schedulers.responses import DescribeAppResponse, StateEvent
from asyncsched.schedulers.state_stream import StateStream
from asyncsched.specs.state import ReplicaStatus

__all__ = ["LogOpener"]

OpenSources = Callable[[DescribeAppResponse, Sequence[ReplicaStatus], LogQuery], Awaitable[Sequence[LogSource]]]


class LogOpener:
    """Opens the sources of one log stream: for existing replicas and, when following, for new ones.

    Args:
        describe: Returns the app's state.
        watch: Streams the app's states.
        sources: Makes the sources of replicas.
        clock: The time source for `until`.
        place: The place where apps run, for messages.
    """

    def __init__(
        self,
        *,
        describe: Callable[[str], Awaitable[DescribeAppResponse | None]],
        watch: Callable[[str], StateStream],
        sources: OpenSources,
        clock: Clock,
        place: Callable[[], str] = lambda: "",
    ) -> None:
        self._describe = describe
        self._watch = watch
        self._sources = sources
        self._clock = clock
        self._place = place
        self._open: dict[tuple[str, int], list[LogSource]] = {}
        self._told: dict[tuple[str, int], ReplicaStatus] = {}
        self._checked = False
        self._shared: list[LogSource] = []

    async def __call__(self, query: LogQuery, sink: LogSink) -> None:
        """Add sources to `sink`; return when no more can come."""
        if query.tail and await self._follow(query, sink):
            return
        query = query._replace(tail=False)  # all wanted lines exist
        await self._update(self._existing(await self._describe(query.app_id), query), query, sink)

    async def _follow(self, query: LogQuery, sink: LogSink) -> bool:
        """Add sources until the app has ended or `until` has come; return False if that came before any state."""
        told = False
        watch = self._watch(query.app_id)
        try:
            while (event := await self._next(watch, query)) is not None:
                told = True
                await self._update(self._existing(event.current, query), query, sink)
                if event.is_terminal():
                    break
        finally:
            await watch.aclose()
        budget = budget_of(asyncio.get_running_loop())
        budget.begin()
        for source in (*chain.from_iterable(self._open.values()), *self._shared):
            source.finish()
            await budget.breathe()  # an app may have thousands
        return told

    async def _next(self, watch: StateStream, query: LogQuery) -> StateEvent | None:
        """Return the next change; None when `until` has come."""
        left = None if query.until_ns is None else (query.until_ns - self._clock.time_ns()) / 1e9
        if left is not None and left <= 0:
            return None
        timeout = self._clock.timeout(left)
        try:
            async with timeout:  # a watch loses nothing if a step times out
                return await anext(watch, None)
        except TimeoutError:
            if not timeout.expired:
                raise
            return None

    async def _update(self, app: DescribeAppResponse, query: LogQuery, sink: LogSink) -> None:
        budget = budget_of(asyncio.get_running_loop())
        budget.begin()
        changed: list[ReplicaStatus] = []
        for replica in list(app.replicas):
            if query.wants(replica.role, replica.id) and self._told.get((replica.role, replica.id)) != replica:
                changed.append(replica)
            await budget.breathe()  # an app may have thousands
        new = [replica for replica in changed if (replica.role, replica.id) not in self._open]
        if new:
            self._open.update(((replica.role, replica.id), []) for replica in new)
            for source in await self._sources(app, new, query):
                if source.replica < 0:
                    self._shared.append(source)
                else:
                    self._open[source.role, source.replica].append(source)
                sink.add(source)
                await budget.breathe()
        for replica in changed:
            key = (replica.role, replica.id)
            self._told[key] = copy.copy(replica)  # a backend may change its object later
            for source in self._open[key] or self._shared:
                source.observe(replica)
            await budget.breathe()

    def _existing(self, app: DescribeAppResponse | None, query: LogQuery) -> DescribeAppResponse:
        """Return the app; raise UnknownAppError if the app, or a requested role or replica, does not exist."""
        if app is None:
            where = f" in {place}" if (place := self._place()) else ""
            what = f"no app {query.app_id}{where}"
            raise UnknownAppError(what, fix="list the scheduler's apps to see those that exist")
        if not self._checked:
            self._checked = _check_selection(app, query)
        return app


def _check_selection(app: DescribeAppResponse, query: LogQuery) -> bool:
    """Raise UnknownAppError, listing what exists, for a missing role or replica; return False while none is known."""
    sizes = {role.name: role.num_replicas for role in app.roles}
    for replica in app.replicas:
        sizes[replica.role] = max(sizes.get(replica.role, 0), replica.id + 1)
    if not sizes:
        return False
    for name in sorted(query.roles or ()):
        if name not in sizes:
            raise UnknownAppError(f"{query.app_id} has no role {name!r}", why=f"its roles are {', '.join(sizes)}")
    chosen = {name: size for name, size in sizes.items() if query.roles is None or name in query.roles}
    for number in sorted(query.replicas or ()):
        if all(number >= size for size in chosen.values()):
            have = ", ".join(f"{name} has {size} (0 to {size - 1})" for name, size in chosen.items())
            raise UnknownAppError(f"{query.app_id} has no replica {number}", why=have)
    return True
