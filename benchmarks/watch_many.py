"""What it costs to watch a thousand and ten thousand apps of a scheduler that has to be asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from asyncsched.schedulers import StateStream
from asyncsched.specs import AppDef, Role
from asyncsched.testing import FakeScheduler, FakeService, VirtualClock
from benchmarks._floods import longest_step, percentile
from benchmarks._harness import LEAST_ROUNDS, Claim, Count, at_most, in_turns_on_loop, on_loop
from benchmarks._reference import STEP, reference_work

ENDING = 20
"""Apps that end in a round, one every few virtual seconds, while all others stay as they are."""

PAGE = 100
"""Apps that one call describes."""

RATE = 10
"""Calls a second of virtual time, at most."""

BARE_CALLS = 200

OURS = "watching"
BARE = "a bare loop that makes the same calls"
SWEEP = "a sweep over all apps at ten calls a second"


Measure = Callable[[], Awaitable["Window"]]


class Window(NamedTuple):
    """What was seen from one moment of virtual time to another, in seconds."""

    cpu: float
    """Of this thread, for a call."""
    step: float = 0.0
    """CPU of the longest step."""
    delay: float = 0.0
    """In virtual time, from a change until 95 of 100 are told."""
    calls: int = 0
    long: float = 0.0


async def claims() -> AsyncIterator[Claim]:
    """Watch in virtual time: what is counted are calls and CPU, and a change is late by virtual seconds."""
    for apps, watchers in ((1000, 1), (1000, 1000), (10_000, 1)):
        async with _watched(apps, watchers) as (watching, bare):
            taken = await in_turns_on_loop(
                {OURS: watching, BARE: bare, STEP: on_loop(_reference), SWEEP: on_loop(partial(_sweep, apps))},
                LEAST_ROUNDS,
            )
        name = f"{apps} apps, {watchers} watcher{'s' * (watchers > 1)}"
        calls, seconds = (sum(getattr(window, each) for window in taken.of[OURS]) for each in ("calls", "long"))
        # One call in a hundred more where a sweep is cut.
        yield at_most(f"{name}, {seconds:.0f} s", Count(number=calls, of="calls"), 1.01 * RATE * seconds)
        late = taken.told(1, "virtual s", _DELAY)
        yield at_most(f"{name}: until a change is told (p95)", taken.ratio(OURS, SWEEP, _DELAY), 2.0, detail=late)
        cpu = taken.told(1e6, "us", _CPU)
        yield at_most(f"{name}: CPU for a call", taken.ratio(OURS, BARE, _CPU), 10.0, detail=cpu)
        steps = taken.told(1e3, "ms", _STEP)
        yield at_most(f"{name}: CPU of the longest step", taken.ratio(OURS, STEP, _STEP), 1.0, detail=steps)


_CPU: Callable[[Window], float] = attrgetter("cpu")
_STEP: Callable[[Window], float] = attrgetter("step")
_DELAY: Callable[[Window], float] = attrgetter("delay")


def _reference() -> Window:
    return Window(0.0, step=reference_work())


def _sweep(apps: int) -> Window:
    return Window(0.0, delay=apps / PAGE / RATE)


@asynccontextmanager
async def _watched(count: int, watchers: int) -> AsyncIterator[tuple[Measure, Measure]]:
    """Give two measures: the watchers over a while, and a loop that makes as many calls."""
    async with VirtualClock() as clock:
        service = FakeService(clock, start_delay=None)
        app_ids = [f"app-{number}" for number in range(count)]
        app = AppDef("job", [Role("main", "image", entrypoint="sh")])
        for number, app_id in enumerate(app_ids):
            service.launch(app_id, app, "mine", "")
            if number % 50 == 0:
                await asyncio.sleep(0)
        async with FakeScheduler("mine", service, mode="polled", clock=clock) as scheduler:
            seen: dict[str, float] = {}
            streams = [scheduler.watch(app_ids[n::watchers]) for n in range(watchers)]
            readers = [asyncio.create_task(_read(stream, clock, seen)) for stream in streams]
            await clock.sleep(60)
            ending = (app_ids[number * 7919 % count] for number in range(count))

            async def watching() -> Window:
                began, calls, cpu = clock.monotonic(), service.calls["describe"], time.thread_time()
                ended: dict[str, float] = {}
                with longest_step() as steps:
                    for app_id in islice(ending, ENDING):
                        ended[app_id] = clock.monotonic()
                        service.exit(app_id)
                        await clock.sleep(3.7)
                    await clock.sleep(20)
                made, cpu = service.calls["describe"] - calls, time.thread_time() - cpu
                late = [seen[app_id] - when for app_id, when in ended.items()]
                return Window(cpu / made, max(steps), percentile(late, 0.95), made, clock.monotonic() - began)

            yield watching, partial(_bare, scheduler, app_ids)
            for reader in readers:
                reader.cancel()
            await asyncio.wait(readers)
        service.close()


async def _read(stream: StateStream, clock: VirtualClock, seen: dict[str, float]) -> None:
    async with stream:
        async for event in stream:
            if event.is_terminal():
                seen[event.app_id] = clock.monotonic()


async def _bare(scheduler: FakeScheduler, app_ids: list[str]) -> Window:
    """Ask for page after page of all apps, and look for those that have changed."""
    known: dict[str, object] = {}
    cpu = time.thread_time()
    for page in range(BARE_CALLS):
        start = page * PAGE % len(app_ids)
        for app_id, found in (await scheduler.describe_many(app_ids[start : start + PAGE])).items():
            if found is not None and known.get(app_id) != found.state:
                known[app_id] = found.state
    return Window((time.thread_time() - cpu) / BARE_CALLS)
