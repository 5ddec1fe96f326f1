"""Following the logs of 8 and 200 replicas within the quota of reads, and reading a log as the peer does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

from asyncsched.schedulers.gcp_batch import create_scheduler
from asyncsched.schedulers.gcp_batch.logs_entries import query_of
from benchmarks._floods import percentile
from benchmarks._gcp import PLACE, PROJECT, READS, Cloud, cloud
from benchmarks._harness import LEAST_ROUNDS, Claim, Count, at_least, at_most, in_turns_on_loop
from benchmarks._peer import Peer, peer

LINES = 10
SECONDS = 6.0
"""In which a job writes its lines; then it has ended."""

LAG, QUOTA = 0.5, 60
PAUSE = 2.0
SETTLE = 4.0
OLD, OLD_LINES = 20, 100
"""Replicas of the log that has ended, and the lines of each."""

OURS = "asyncsched"
BARE = f"a bare loop that asks for all lines every {PAUSE:g} s"
THE_PEER = "the peer"
MOST_READS = 16
"""For each tail, of which one reads for some fifteen seconds."""

PEER = """
import functools
from google.oauth2.credentials import Credentials
from google.cloud import batch_v1, logging
from torchx.schedulers.gcp_batch_scheduler import create_scheduler
at = {{"credentials": Credentials({token!r}), "client_options": {{"api_endpoint": {url!r}}}}}
logging.Client = functools.partial(logging.Client, _use_grpc=False, **at)
scheduler = create_scheduler("peer", client=batch_v1.BatchServiceClient(transport="rest", **at))
def measure():
    return [sum(1 for k in range(100, 100 + {replicas}) for _ in scheduler.log_iter({app_id!r}, "main", k))]
def finish():
    pass
"""


@dataclass(frozen=True, slots=True)
class Tail:
    """What one reading of all replicas has given."""

    delays: list[float]
    reads: int

    def __str__(self) -> str:
        return f"{len(self.delays)} lines, {self.reads} reads, p50 {percentile(self.delays, 0.5):.2f} s"


async def claims() -> AsyncIterator[Claim]:
    """Follow ten lines of each replica; then read a log that has ended, with a query for each replica as the peer."""
    with cloud(lag=LAG) as google:
        old = google.set("log", tasks=100 + OLD, lines=OLD_LINES, seconds=1.0)["name"]
        for replicas in (8, 200):
            measures = {OURS: partial(_ours, google, replicas), BARE: partial(_bare, google, replicas)}
            taken = await in_turns_on_loop(measures, LEAST_ROUNDS)
            ours = taken.of[OURS]
            name, detail = f"{replicas} replicas", str(ours[-1])
            lines = Count(number=min(len(tail.delays) for tail in ours), of="lines, which are all")
            yield at_least(name, lines, replicas * LINES, detail=detail)
            yield at_most(name, Count(number=max(tail.reads for tail in ours), of="reads"), MOST_READS)
            late = taken.ratio(OURS, BARE, _p95)
            yield at_most(f"{name}: time until a line is there (p95)", late, 2.5, detail=taken.told(1, "s", _p95))
        google.set("quota", reads=None)  # the peer does not know of it
        app_id, token = f"{PLACE}:{old}", google.set("token")["token"]
        with peer(PEER.format(url=google.url, token=token, app_id=app_id, replicas=OLD)) as theirs:
            whole = {OURS: partial(_ours_at_once, google, app_id), THE_PEER: partial(_theirs, google, theirs)}
            read = await in_turns_on_loop(whole, LEAST_ROUNDS)
        name, detail = f"{OLD} of {100 + OLD} replicas' logs: reads", read.told(1, "reads")
        yield at_most(name, read.ratio(OURS, THE_PEER), 0.4, detail=detail)


def _p95(tail: Tail) -> float:
    return percentile(tail.delays, 0.95)


def _begin(google: Cloud, replicas: int) -> str:
    google.set("quota", reads=QUOTA)
    google.calls()
    return str(google.set("log", tasks=replicas, lines=LINES, seconds=SECONDS)["name"])


async def _ours(google: Cloud, replicas: int) -> Tail:
    name = _begin(google, replicas)
    delays: list[float] = []
    async with create_scheduler("bench", log_settle=SETTLE) as scheduler:
        async for line in scheduler.log_iter(f"{PLACE}:{name}", should_tail=True):
            delays.append(time.time() - float(line.split()[1]))  # noqa: PERF401 - timed one by one
    return Tail(delays, google.calls()[READS])


async def _bare(google: Cloud, replicas: int) -> Tail:
    """Ask for whatever has been written since the start, again and again, and look for what is new."""
    delays: dict[str, float] = {}
    name = _begin(google, replicas)
    async with create_scheduler("bare") as scheduler:
        found = await scheduler.describe(f"{PLACE}:{name}")
        assert found is not None
        while len(delays) < replicas * LINES:
            asked = time.monotonic()
            query = query_of(PROJECT, [found.native_id], since_ns=0)
            while True:
                page = await scheduler._client.read_entries(query, PROJECT)
                now = time.time()
                for entry in page.get("entries", ()):
                    delays.setdefault(entry["insertId"], now - float(entry["textPayload"].split()[1]))
                if "nextPageToken" not in page:
                    break
                query["pageToken"] = page["nextPageToken"]
            await asyncio.sleep(max(asked + PAUSE - time.monotonic(), 0))
    return Tail(list(delays.values()), google.calls()[READS])


async def _ours_at_once(google: Cloud, app_id: str) -> float:
    google.calls()
    replicas = range(100, 100 + OLD)
    async with (
        create_scheduler("bench") as scheduler,
        aclosing(scheduler.log_iter(app_id, "main", replicas)) as lines,
    ):
        number = len([line async for line in lines])
    assert OLD * OLD_LINES == number
    return float(google.calls()[READS])


async def _theirs(google: Cloud, theirs: Peer) -> float:
    google.calls()
    lines = await theirs.measure_one()
    assert OLD * OLD_LINES == lines, lines
    return float(google.calls()[READS])
