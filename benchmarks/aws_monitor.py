"""What it costs to watch ten thousand jobs of AWS Batch, and how soon an end is seen."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TypeVar

from asyncsched.schedulers.aws_batch import AWSBatchScheduler, create_scheduler
from benchmarks._aws import QUEUE, emulator
from benchmarks._floods import longest_step, percentile
from benchmarks._harness import LEAST_ROUNDS, Claim, Count, Rounds, at_most
from benchmarks._reference import STEP, reference_work

T = TypeVar("T")

JOBS = 10_000
RATE = 10
"""Calls a second, at most."""

FIRST, SPREAD = 45.0, 60.0
REFERENCES = 6
"""How often the reference work is done in each part of the watch."""

OURS = "asyncsched"
BARE = "a bare loop that lists running jobs at ten calls a second"


async def claims() -> AsyncIterator[Claim]:
    """Submit ten thousand jobs that end over a minute, and watch them through HTTP.

    A bare loop in a process of its own looks at the same jobs at the same time. A round is a fifth of them, in the
    order in which they end.
    """
    with emulator() as aws:
        ends: dict[str, float] = aws.set("jobs", count=JOBS, queue=QUEUE, first=FIRST, spread=SPREAD)["ends"]
        scheduler = create_scheduler("bench")
        bare = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "benchmarks.aws_monitor", stdout=asyncio.subprocess.PIPE
        )
        began = time.time()
        with longest_step() as steps:
            references = asyncio.create_task(_references())
            seen = await _watch(scheduler, ends)
        until, calls = time.time(), aws.calls()
        out, _ = await bare.communicate()
        theirs, listed = json.loads(out)
        await scheduler.close()
    taken, longest = Rounds[float]({OURS: 0, BARE: 0}), Rounds[float]({OURS: 0, STEP: 0})
    for jobs in _parts(sorted(ends, key=lambda job: ends[job])):
        for name, when in ((OURS, seen), (BARE, theirs)):
            taken.of[name].append(percentile([when[job] - ends[job] for job in jobs], 0.95))
    longest.of[OURS], longest.of[STEP] = [max(part) for part in _parts(steps)], await references
    made = sum(calls.values()) - sum(at < until for at in listed)
    yield at_most(f"{JOBS} jobs, {until - began:.0f} s", Count(number=made, of="calls"), RATE * (until - began))
    name, detail = f"{JOBS} jobs that end over a minute: time until an end is seen (p95)", taken.told(1, "s")
    yield at_most(name, taken.ratio(OURS, BARE), 2.3, detail=detail)
    detail = longest.told(1e3, "ms")
    yield at_most(f"{JOBS} jobs: CPU of the longest step", longest.ratio(OURS, STEP), 1.0, detail=detail)


def _parts(values: Sequence[T]) -> list[Sequence[T]]:
    size = -(-len(values) // LEAST_ROUNDS)
    return [values[start : start + size] for start in range(0, len(values), size)]


async def _references() -> list[float]:
    """Do the reference work in turns with the parts of the watch, in a thread: it is none of the loop's steps.

    The longest time of each part counts, as of the steps: one alone says little of a machine with three busy programs.
    """
    taken: list[float] = []
    for _ in range(LEAST_ROUNDS):
        times: list[float] = []
        for _ in range(REFERENCES):
            await asyncio.sleep((FIRST + SPREAD) / (LEAST_ROUNDS + 1) / REFERENCES)
            times.append(await asyncio.to_thread(reference_work))
        taken.append(max(times))
    return taken


async def _watch(scheduler: AWSBatchScheduler, jobs: Iterable[str]) -> dict[str, float]:
    """Return when each job was seen to have ended."""
    seen: dict[str, float] = {}
    async with scheduler.watch([f"{QUEUE}:{job}" for job in jobs]) as watch:
        async for event in watch:
            if event.is_terminal():
                seen[event.app_id.rpartition(":")[2]] = time.time()
    return seen


async def _bare() -> tuple[dict[str, float], list[float]]:
    """Return when each job had gone from the list of running ones, and when each call was made."""
    seen: dict[str, float] = {}
    calls: list[float] = []
    before: set[str] = set()
    async with create_scheduler("bare") as scheduler:
        connection = scheduler._connections.at()
        while len(seen) < JOBS:
            now: set[str] = set()
            token: str | None = ""
            while token is not None:
                request: dict[str, object] = {"jobQueue": QUEUE, "jobStatus": "RUNNING", "maxResults": 1000}
                calls.append(time.time())
                more = {"nextToken": token} if token else {}
                page = await connection.call("batch", "ListJobs", "jobSummaryList", **request, **more)
                now |= {row["jobId"] for row in page["jobSummaryList"]}
                token = page.get("nextToken")
                await asyncio.sleep(max(calls[-1] + 1 / RATE - time.time(), 0))
            seen |= dict.fromkeys(before - now, time.time())
            before = now
    return seen, calls


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_bare())))  # read by the process that has started this one
