"""The logs of large jobs over HTTP, within the quota of reads: the double and the scheduler share a fast clock."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from asyncsched.clock import Clock, TimerHandle
from asyncsched.schedulers._common.rate_limit import RateLimits
from asyncsched.schedulers.gcp_batch import GCPBatchScheduler, create_scheduler
from asyncsched.testing import VirtualClock
from tests.gcp_batch.conftest import lead_to
from tests.gcp_double.control import finish_job, running_job
from tests.gcp_double.server import PROJECT, Double

JOBS, TASKS, LINES = 3, 1000, 2
SECONDS = 40.0
"""In which all lines are written, by the fast clock."""

Key = tuple[str, int, str]


class Fast(Clock):
    """Runs at a multiple of real time, but for what limits a request: that takes as long as the machine does."""

    def __init__(self, speed: float) -> None:
        self._speed, self._wall, self._begun = speed, time.time_ns(), time.monotonic()

    @override
    def time_ns(self) -> int:
        return self._wall + round((self.monotonic() - self._begun) * 1e9)

    @override
    def monotonic(self) -> float:
        return self._begun + (time.monotonic() - self._begun) * self._speed

    @override
    def call_later(self, delay: float, callback: Callable[[], None]) -> TimerHandle:
        return super().call_later(delay / self._speed, callback)

    @override
    def call_at_latest(self, delay: float, callback: Callable[[], None]) -> TimerHandle:
        return super().call_later(delay, callback)


def fill(double: Double, uids: dict[str, str]) -> Counter[Key]:
    """Write the lines of all tasks, at times of the next seconds; return them by job and task."""
    chance = random.Random(11)
    written: Counter[Key] = Counter()
    for name, uid in uids.items():
        for index in range(TASKS):
            for number in range(LINES):
                text = f"{name} {index} {number}"
                double.logs.write(uid, index, text, delay=chance.uniform(0, SECONDS))
                written[f"{PROJECT}:us-central1:{name}", index, text] += 1
    return written


async def followed(scheduler: GCPBatchScheduler, name: str) -> Counter[Key]:
    stream = scheduler.log_iter(f"{PROJECT}:us-central1:{name}", should_tail=True)
    return Counter([(line.app_id, line.replica, line.text) async for line in stream])


async def test_three_jobs_of_a_thousand_tasks_are_followed_over_http(
    surroundings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = random.Random(5)
    clock = Fast(40.0)
    with Double(lag=lambda: min(late.expovariate(1.0), 15.0), quota=60, now_ns=clock.time_ns) as double:
        lead_to(double, surroundings, monkeypatch)
        names = [f"job-{number}" for number in range(JOBS)]
        written = double.do(lambda: fill(double, {name: running_job(double, name, TASKS) for name in names}))
        async with create_scheduler("s", clock=clock, retry_for=100_000.0) as scheduler, asyncio.timeout(120):
            reading = [asyncio.create_task(followed(scheduler, name)) for name in names]
            await clock.sleep(SECONDS)
            await asyncio.to_thread(double.do, lambda: [finish_job(double, name, TASKS) for name in names])
            read = sum(await asyncio.gather(*reading), Counter[Key]())

    assert JOBS * TASKS * LINES == written.total()
    assert written == read


async def tailed(scheduler: GCPBatchScheduler, name: str) -> list[str]:
    return [line.text async for line in scheduler.log_iter(f"{PROJECT}:us-central1:{name}", should_tail=True)]


async def test_schedulers_with_the_same_limits_keep_to_the_quota_together(
    surroundings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with VirtualClock() as clock:
        with Double(quota=60, now_ns=clock.time_ns) as double:
            lead_to(double, surroundings, monkeypatch)
            uids = double.do(lambda: [running_job(double, name, 1) for name in ("one", "two")])
            limits = RateLimits()
            hungry: dict[str, Any] = {"log_interval": 0.1, "log_idle": 0.1}
            async with (
                create_scheduler("s", clock=clock, limits=limits, **hungry) as first,
                create_scheduler("s", clock=clock, limits=limits, **hungry) as second,
            ):
                reading = [asyncio.create_task(tailed(first, "one")), asyncio.create_task(tailed(second, "two"))]
                async with asyncio.timeout(60):
                    while double.logs.reads <= 130:
                        await clock.sleep(1)
                double.do(lambda: [double.logs.write(uid, 0, f"of {uid}") for uid in uids])
                double.do(lambda: [finish_job(double, name, 1) for name in ("one", "two")])
                assert [[f"of {uid}"] for uid in uids] == await asyncio.gather(*reading)

    assert 0 == double.logs.refusals
