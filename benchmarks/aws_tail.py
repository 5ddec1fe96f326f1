"""Following the logs of 8 and 16 nodes, with and without throttling."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from asyncsched.errors import NotFoundError
from asyncsched.schedulers.aws_batch import create_scheduler
from asyncsched.schedulers.aws_batch.logs_streams import LOG_GROUP
from asyncsched.specs import AppDef
from benchmarks._aws import QUEUE, Emulator, emulator, scripted
from benchmarks._floods import percentile
from benchmarks._harness import LEAST_ROUNDS, Claim, Count, at_least, at_most, in_turns_on_loop

LINES = 20
LIMITS = {"GetLogEvents": [10, 10], "FilterLogEvents": [5, 5], "ListJobs": [10, 10], "DescribeJobs": [10, 10]}
PAUSE = 0.4
OURS = "asyncsched"
BARE = f"a bare loop that asks CloudWatch every {PAUSE} s"
MOST_CALLS = {8: 45, 16: 50}


@dataclass(frozen=True, slots=True)
class Tail:
    """What one reading of all nodes has given."""

    delays: list[float]
    calls: dict[str, int]

    def __str__(self) -> str:
        return f"{len(self.delays)} lines, {sum(self.calls.values())} calls, p50 {percentile(self.delays, 0.5):.2f} s"


async def claims() -> AsyncIterator[Claim]:
    """Read ten lines of each node, two a second, that CloudWatch shows 0.3 s after they were written."""
    with emulator() as aws:
        aws.set("pace", ingest=0.3, stop_children=2.0)
        for nodes, throttled in ((8, False), (16, False), (16, True)):
            aws.set("throttle", **(LIMITS if throttled else {}))
            measures = {OURS: partial(_ours, aws, nodes), BARE: partial(_bare, aws, nodes)}
            taken = await in_turns_on_loop(measures, LEAST_ROUNDS)
            ours = taken.of[OURS]
            name, detail = f"{nodes} nodes{', throttled' if throttled else ''}", str(ours[-1])
            lines = Count(number=min(len(tail.delays) for tail in ours), of="lines, which are all")
            yield at_least(name, lines, nodes * LINES, detail=detail)
            queries = Count(number=max(tail.calls.get("FilterLogEvents", 0) for tail in ours), of="log queries")
            yield at_most(name, queries, MOST_CALLS[nodes])
            yield at_most(
                f"{name}: time until a line is there (p95)",
                taken.ratio(OURS, BARE, _p95),
                1.45,
                detail=taken.told(1, "s", _p95),
            )


def _p95(tail: Tail) -> float:
    return percentile(tail.delays, 0.95)


async def _ours(aws: Emulator, nodes: int) -> Tail:
    scheduler = create_scheduler("bench")
    app_id = await scheduler.submit(_app(nodes), {"queue": QUEUE})
    aws.calls()
    delays: list[float] = []
    async for line in scheduler.log_iter(app_id, should_tail=True):
        delays.append(time.time() - float(line.split()[1]))  # noqa: PERF401 - timed one by one
    await scheduler.close()
    return Tail(delays, aws.calls())


async def _bare(aws: Emulator, nodes: int) -> Tail:
    """Ask for whatever has been written since the start, again and again, and look for what is new."""
    delays: dict[str, float] = {}
    async with create_scheduler("bare") as scheduler:
        request: dict[str, object] = {"logGroupName": LOG_GROUP, "startTime": int(time.time() * 1000)}
        await scheduler.submit(_app(nodes), {"queue": QUEUE})
        connection = scheduler._connections.at()
        while len(delays) < nodes * LINES:
            asked = time.monotonic()
            with suppress(NotFoundError):  # nothing has been written yet
                page = await connection.call("logs", "FilterLogEvents", "events", **request)
                now = time.time()
                for row in page["events"]:
                    delays.setdefault(row["eventId"], now - float(row["message"].split()[1]))
            await asyncio.sleep(max(asked + PAUSE - time.monotonic(), 0))
    return Tail(list(delays.values()), {})


def _app(nodes: int) -> AppDef:
    return scripted(["lines", LINES, 0.5, "$i $NOW"], replicas=nodes)
