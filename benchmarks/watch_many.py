"""What it costs to watch a thousand and ten thousand apps of a scheduler that has to be asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from asyncsched.schedulers import StateStream
from asyncsched.specs import AppDef, Role
from asyncsched.testing import FakeScheduler, FakeService, VirtualClock
from benchmarks._floods import longest_step, percentile
from benchmarks._harness import Claim, at_most

ENDING = 100
"""Apps that end, one every few virtual seconds, while all others stay as they are."""


async def claims() -> AsyncIterator[Claim]:
    """Watch in virtual time: what is counted are calls and CPU, what is timed is the delay of a change."""
    for apps, watchers, bound in ((1000, 1, 2.0), (1000, 1000, 2.0), (10_000, 1, 20.0)):
        with longest_step() as steps:
            calls, delays, cpu = await _watch(apps, watchers)
        name = f"{apps} apps, {watchers} watcher{'s' * (watchers > 1)}"
        yield at_most(
            f"{name}: 10 calls a second at most (1 % more where a sweep is cut)", calls, 10.1, unit=" calls/s"
        )
        yield at_most(
            f"{name}: a change is told within {bound:g} s of virtual time (p95)",
            percentile(delays, 0.95),
            bound,
            unit=" s",
            detail=f"p50 {percentile(delays, 0.5):.2f} s, longest {max(delays):.2f} s",
        )
        yield at_most(f"{name}: watching costs at most 10 % of a core", cpu * 100, 10, unit=" %")
        yield at_most(f"{name}: no step takes more than 20 ms of CPU", max(steps) * 1e3, 20, unit=" ms")


async def _watch(count: int, watchers: int) -> tuple[float, list[float], float]:
    """Return the calls for each second, the delay of each change in seconds, and the share of a core."""
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
            began, calls, cpu = clock.monotonic(), service.calls["describe"], time.thread_time()
            ended: dict[str, float] = {}
            for number in range(ENDING):
                app_id = app_ids[number * 7919 % count]
                ended[app_id] = clock.monotonic()
                service.exit(app_id)
                await clock.sleep(3.7)
            await clock.sleep(60)
            seconds = clock.monotonic() - began
            rate, cpu = (service.calls["describe"] - calls) / seconds, (time.thread_time() - cpu) / seconds
            for reader in readers:
                reader.cancel()
            await asyncio.wait(readers)
        service.close()
    return rate, [seen[app_id] - when for app_id, when in ended.items()], cpu


async def _read(stream: StateStream, clock: VirtualClock, seen: dict[str, float]) -> None:
    async with stream:
        async for event in stream:
            if event.over:
                seen[event.app_id] = clock.monotonic()
