"""What it costs to watch a thousand jobs of Google Cloud Batch, and how soon an end is seen."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Iterable, Sequence

from asyncsched.schedulers.gcp_batch import GCPBatchScheduler, create_scheduler
from benchmarks._floods import percentile
from benchmarks._gcp import PLACE, PROJECT, cloud
from benchmarks._harness import LEAST_ROUNDS, Claim, Count, Rounds, at_most

JOBS = 1000
FIRST, SPREAD = 40.0, 60.0
"""The first look reads the tasks of each job: by the time that the first one ends it is over."""
PAUSE = 2.0
"""Of the bare loop between two looks; the quota would let it look far more often."""

MOST_READS = 2500
"""Pages of the list, and one look at the tasks of each job that has ended."""

OURS = "asyncsched"
BARE = f"a bare loop that lists all jobs every {PAUSE:g} s"


async def claims() -> AsyncIterator[Claim]:
    """Watch a thousand jobs that end over a minute, through HTTP.

    A bare loop in a process of its own looks at the same jobs at the same time. A round is a fifth of them, in the
    order in which they end.
    """
    with cloud() as google:
        ends: dict[str, float] = google.set("jobs", count=JOBS, first=FIRST, spread=SPREAD)
        bare = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "benchmarks.gcp_monitor", stdout=asyncio.subprocess.PIPE
        )
        async with create_scheduler("bench") as scheduler:
            seen = await _watch(scheduler, ends)
            reads = scheduler._client.calls
        out, _ = await bare.communicate()
    theirs: dict[str, float] = json.loads(out)
    taken = Rounds[float]({OURS: 0, BARE: 0})
    for jobs in _parts(sorted(ends, key=lambda job: ends[job])):
        for name, when in ((OURS, seen), (BARE, theirs)):
            taken.of[name].append(percentile([when[job] - ends[job] for job in jobs], 0.95))
    yield at_most(f"{JOBS} jobs that end over a minute", Count(number=reads, of="calls"), MOST_READS)
    name = f"{JOBS} jobs that end over a minute: time until an end is seen (p95)"
    yield at_most(name, taken.ratio(OURS, BARE), 2.0, detail=taken.told(1, "s"))


def _parts(values: Sequence[str]) -> list[Sequence[str]]:
    size = -(-len(values) // LEAST_ROUNDS)
    return [values[start : start + size] for start in range(0, len(values), size)]


async def _watch(scheduler: GCPBatchScheduler, jobs: Iterable[str]) -> dict[str, float]:
    """Return when each job was seen to have ended."""
    seen: dict[str, float] = {}
    async with scheduler.watch([f"{PLACE}:{job}" for job in jobs]) as watch:
        async for event in watch:
            if event.is_terminal():
                seen[event.app_id.rpartition(":")[2]] = time.time()
    return seen


async def _bare() -> dict[str, float]:
    """Return when each job was listed as ended."""
    seen: dict[str, float] = {}
    async with create_scheduler("bare") as scheduler:
        while len(seen) < JOBS:
            asked = time.monotonic()
            pages = scheduler._client.pages(
                f"projects/{PROJECT}/locations/us-central1/jobs",
                query={"pageSize": "500"},
                operation="jobs.list",
                project=PROJECT,
            )
            async for page in pages:
                now = time.time()
                for row in page["jobs"]:
                    if row["status"]["state"] == "SUCCEEDED":
                        seen.setdefault(row["name"].rpartition("/")[2], now)
            await asyncio.sleep(max(asked + PAUSE - time.monotonic(), 0))
    return seen


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_bare())))  # read by the process that has started this one
