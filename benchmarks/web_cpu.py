"""What the page's server costs: ten thousand apps, a hundred changes a second, fifty pages, and a log that floods."""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from operator import attrgetter
from typing import NamedTuple, cast

from aiohttp import web
from typing_extensions import override

from asyncsched._streams import AsyncStream
from asyncsched.clock import Clock
from asyncsched.logs import LogStream
from asyncsched.runner import AppEvent, AppList, Runner
from asyncsched.schedulers import ListAppResponse
from asyncsched.specs import AppHandle, AppState, AppStatus, ReplicaStatus, RoleStatus
from asyncsched.web.server import PageServer, serving
from asyncsched.web.tail import KEPT
from benchmarks._floods import Flood, longest_step, stream_of
from benchmarks._harness import LEAST_ROUNDS, Claim, Count, at_most, in_turns_on_loop, on_loop
from benchmarks._reference import STEP, reference_work
from benchmarks._visitors import Visitors, visiting
from tests._support import eventually

APPS = 10_000
CHANGES = 100
"""Changes a second."""
PAGES = 50
REPLICAS = 8
SECONDS = 4.0
FLOODED_SECONDS = 2.0
PATIENCE = 600.0

OURS = "the page"
FLOODED = "the page beside a flooding log"
BARE = "a bare handler that sends the same bytes"
BARE_FLOODED = f"{BARE}, of the flood too"
CORE = "a core"
STATES = (AppState.RUNNING, AppState.FAILED, AppState.SUCCEEDED, AppState.PENDING)

Script = list[tuple[float, bytes]]
"""What one page was sent, and when."""


class Window(NamedTuple):
    """What some seconds have cost.

    Attributes:
        cpu: CPU of this thread, for each second.
        per_byte: The same, for each byte that was sent.
        step: CPU of the longest step.
        sent: Bytes that one page was sent, for each change.
    """

    cpu: float = 0.0
    per_byte: float = 0.0
    step: float = 0.0
    sent: float = 0.0


_CPU: Callable[[Window], float] = attrgetter("cpu")
_PER_BYTE: Callable[[Window], float] = attrgetter("per_byte")
_STEP: Callable[[Window], float] = attrgetter("step")


class _Changes(AsyncStream[AppEvent]):
    """A watch: the present states first, then what is put into it."""

    def __init__(self, source: _Source) -> None:
        self._source = source
        self._ready: deque[AppEvent] = deque()
        self._is_ready = asyncio.Event()

    def add(self, *handles: str) -> None:
        for handle in handles:
            self.put(self._source.event(handle))

    def discard(self, *handles: str) -> None:
        """None is."""

    def put(self, event: AppEvent) -> None:
        self._ready.append(event)
        self._is_ready.set()

    @override
    async def __anext__(self) -> AppEvent:
        while not self._ready:
            self._is_ready.clear()
            await self._is_ready.wait()
        return self._ready.popleft()

    @override
    async def aclose(self) -> None:
        """It has nothing open."""


class _Source:
    """What the page asks of a runner."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.handles = [AppHandle(f"many://me/app-{number:05}") for number in range(APPS)]
        self._count = 0
        self._born = datetime.now(UTC)
        self._changes = _Changes(self)
        self._rows = [ListAppResponse(each.app_id, STATES[0], each, created_at=self._born) for each in self.handles]

    def event(self, handle: str) -> AppEvent:
        """Return the next state of an app."""
        self._count += 1
        state = STATES[self._count % len(STATES)]
        replicas = [ReplicaStatus(number, state, "main", f"host-{number}") for number in range(REPLICAS)]
        return AppEvent(AppHandle(handle), None, AppStatus(state=state, roles=[RoleStatus("main", replicas)]))

    def watch(self, handles: Sequence[str], *, follow: bool) -> _Changes:
        return self._changes

    async def list(self, *, limit: int) -> AppList:
        return AppList(self._rows)

    def log_lines(self, handles: Sequence[str], **query: object) -> LogStream:
        return stream_of([Flood(0)])

    async def change(self, seconds: float) -> int:
        """Let apps change for a while; return how often."""
        end, number = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            number += 1
            self._changes.put(self.event(self.handles[number * 7919 % APPS]))
            await asyncio.sleep(1 / CHANGES)
        return number


async def claims() -> AsyncIterator[Claim]:
    """Serve the same apps and changes in turns; a bare handler sends again what one page was sent."""
    measures = _Measures()
    taken = await in_turns_on_loop(
        {
            OURS: measures.ours,
            BARE: measures.bare,
            FLOODED: measures.flooded,
            BARE_FLOODED: measures.bare,
            CORE: on_loop(lambda: Window(1.0)),
            STEP: on_loop(lambda: Window(step=reference_work())),
        },
        LEAST_ROUNDS,
    )
    name = f"{APPS} apps, {CHANGES} changes a second, {PAGES} pages"
    cpu = taken.told(1e3, "ms of CPU a second", _CPU)
    # A bare handler makes nothing of what it sends: no row, no masked line.
    yield at_most(f"{name}: CPU", taken.ratio(OURS, CORE, _CPU), 0.25, detail=cpu)
    per_byte = taken.told(1e9, "ms of CPU a MB", _PER_BYTE)
    yield at_most(f"{name}: CPU for a byte", taken.ratio(OURS, BARE, _PER_BYTE), 10.0, detail=per_byte)
    ratio = taken.ratio(FLOODED, BARE_FLOODED, _PER_BYTE)
    yield at_most("the same, and all read a log that floods: CPU for a byte", ratio, 16.0, detail=per_byte)
    steps = taken.told(1e3, "ms", _STEP)
    yield at_most("CPU of the longest step", taken.ratio(FLOODED, STEP, _STEP), 1.0, detail=steps)
    sent = max(window.sent for window in taken.of[OURS])
    yield at_most("what a page is sent for a change", Count(number=round(sent), of="bytes"), 512)
    apps, pages, log = await _memory()
    yield at_most("memory for an app", Count(number=apps // APPS, of="bytes"), 8192)
    yield at_most("memory for a page", Count(number=pages // PAGES >> 10, of="KiB"), 512)
    yield at_most(f"memory for a flood of which {KEPT >> 10} KiB are kept", Count(number=log >> 10, of="KiB"), 16384)


class _Measures:
    """The windows of one round: a bare handler sends what was recorded before it."""

    def __init__(self) -> None:
        self._script: Script = []

    async def ours(self) -> Window:
        return await self._of_page(SECONDS, "/api/events")

    async def flooded(self) -> Window:
        return await self._of_page(FLOODED_SECONDS, "/api/events?log=many://me/app-00000")

    async def _of_page(self, seconds: float, path: str) -> Window:
        source = _Source()
        async with _shown(source) as server:
            with _recorded() as script:  # before there are pages
                async with visiting(server.url, path, PAGES) as visitors:
                    await _all_filled(server, visitors)
                    sent, cpu, began = await visitors.received(), time.thread_time(), time.monotonic()
                    with longest_step() as steps:
                        changes = await source.change(seconds)
                        await asyncio.sleep(2 * server.hub.limits.pace)
                    cpu, sent = time.thread_time() - cpu, await visitors.received() - sent
        self._script = [(when - began, message) for when, message in script if when >= began]
        return Window(cpu / seconds, cpu / sent, max(steps), sent / PAGES / changes)

    async def bare(self) -> Window:
        """Send the recorded bytes at the recorded times, or later, to as many pages."""
        script, begin, done = self._script, asyncio.Event(), asyncio.Semaphore(0)

        async def handle(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            await begin.wait()
            began = time.monotonic()
            for when, message in script:
                if (pause := began + when - time.monotonic()) > 0:
                    await asyncio.sleep(pause)
                await response.write(message)
            done.release()
            return response

        application = web.Application()
        application.router.add_get("/", handle)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            async with visiting(f"{url}/nothing", "/", PAGES) as visitors:
                size = sum(len(message) for _, message in script)
                await eventually(lambda: len(runner.server.connections) >= PAGES if runner.server else False)
                received, cpu = await visitors.received(), time.thread_time()
                begin.set()
                for _ in range(PAGES):
                    await done.acquire()
                cpu = time.thread_time() - cpu
                sent = await _at_least(visitors, received + size * PAGES) - received
                return Window(cpu / script[-1][0], cpu / sent)
        finally:
            await runner.cleanup()


@asynccontextmanager
async def _shown(source: _Source) -> AsyncIterator[PageServer]:
    async with serving(cast("Runner", source)) as server:
        # Each app is shown as it is listed, and again as the watch tells of it.
        await eventually(lambda: server.hub.board.serial >= 2 * APPS, within=PATIENCE)
        yield server


async def _all_filled(server: PageServer, visitors: Visitors) -> None:
    """Wait until every page has every app."""
    size = sum(map(len, server.hub.board.since(0, APPS).rows))
    await _at_least(visitors, PAGES * size)


async def _at_least(visitors: Visitors, size: int) -> int:
    async def is_there() -> int:
        received = await visitors.received()
        return received if received >= size else 0

    return await eventually(is_there, within=PATIENCE)


@contextmanager
def _recorded() -> Iterator[Script]:
    """Record what is written to the first page from now on."""
    write = web.StreamResponse.write
    script: Script = []
    chosen: web.StreamResponse | None = None

    async def recording(self: web.StreamResponse, data: bytes) -> None:
        nonlocal chosen
        chosen = chosen or self
        if self is chosen:
            script.append((time.monotonic(), data))
        await write(self, data)

    web.StreamResponse.write = recording  # type: ignore[method-assign, assignment]  # aiohttp has no hook for this
    try:
        yield script
    finally:
        web.StreamResponse.write = write  # type: ignore[method-assign]  # as above


async def _memory() -> tuple[int, int, int]:
    """Return the bytes that all apps take, those that all pages add, and those of a flood that is not kept whole."""
    tracemalloc.start()
    try:
        source = _Source()
        before = tracemalloc.get_traced_memory()[0]
        async with _shown(source) as server:
            apps = tracemalloc.get_traced_memory()[0] - before
            before = tracemalloc.get_traced_memory()[0]
            async with visiting(server.url, "/api/events", PAGES) as visitors:
                await _all_filled(server, visitors)
                pages = tracemalloc.get_traced_memory()[0] - before
        source = _Source()
        async with _shown(source) as server:
            before = tracemalloc.get_traced_memory()[0]
            async with visiting(server.url, "/api/events?log=many://me/app-00000", 1) as visitors:
                await _at_least(visitors, 4 * KEPT)
                log = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    return apps, pages, log
