"""Following the logs of 8 and 16 nodes, with and without throttling; the peer on the same emulator, right after."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import tempfile
import time
import venv
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from asyncsched.schedulers.aws_batch import create_scheduler
from asyncsched.specs import AppDef
from benchmarks._aws import QUEUE, Emulator, emulator, scripted
from benchmarks._floods import percentile
from benchmarks._harness import Claim, at_least, at_most

LINES = 20
LIMITS = {"GetLogEvents": [10, 10], "FilterLogEvents": [5, 5], "ListJobs": [10, 10], "DescribeJobs": [10, 10]}
MOST_CALLS = {8: 45, 16: 50}

PEER = """
import json, sys, threading, time
from torchx.schedulers.aws_batch_scheduler import create_scheduler
app_id, role, nodes = sys.argv[1], sys.argv[2], int(sys.argv[3])
delays, died = [], []
def tail(k):
    try:
        for line in create_scheduler("bench").log_iter(app_id, role, k, should_tail=True):
            delays.append(time.time() - float(line.split()[1]))
    except Exception as error:
        died.append(repr(error))
threads = [threading.Thread(target=tail, args=(k,)) for k in range(nodes)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(json.dumps([delays, len(died)]))
"""


@dataclass(frozen=True, slots=True)
class Tail:
    """What one reading of all nodes has given."""

    delays: list[float]
    calls: dict[str, int]
    died: int = 0

    def __str__(self) -> str:
        p50, p95 = (percentile(self.delays, part) if self.delays else 0.0 for part in (0.5, 0.95))
        calls = sum(self.calls.values())
        return f"{len(self.delays)} lines, {calls} calls, p50 {p50:.2f} s, p95 {p95:.2f} s, {self.died} tails died"


async def claims() -> AsyncIterator[Claim]:
    """Read twenty lines of each node, two a second, that CloudWatch shows 0.3 s after they were written."""
    with emulator() as aws, tempfile.TemporaryDirectory() as folder:
        peer = _peer(Path(folder))
        aws.set("pace", ingest=0.3, stop_children=2.0)
        for nodes, throttled in ((8, False), (16, False), (16, True)):
            aws.set("throttle", **(LIMITS if throttled else {}))
            ours, theirs = await _ours(aws, nodes), await _theirs(aws, nodes, peer)
            name = f"{nodes} nodes{', throttled' if throttled else ''}"
            detail = f"peer: {theirs}"
            yield at_least(f"{name}: every line", len(ours.delays), nodes * LINES, detail=f"{ours}; {detail}")
            filtered = ours.calls.get("FilterLogEvents", 0)
            yield at_most(f"{name}: {MOST_CALLS[nodes]} log queries at most", filtered, MOST_CALLS[nodes])
            yield at_most(f"{name}: a line is there within 1 s (p95)", percentile(ours.delays, 0.95), 1.0, unit=" s")


async def _ours(aws: Emulator, nodes: int) -> Tail:
    scheduler = create_scheduler("bench")
    app_id = await scheduler.submit(_app(nodes), {"queue": QUEUE})
    aws.calls()
    delays: list[float] = []
    async for line in scheduler.log_iter(app_id, should_tail=True):
        delays.append(time.time() - float(line.split()[1]))  # noqa: PERF401 - timed one by one
    await scheduler.close()
    return Tail(delays, aws.calls())


async def _theirs(aws: Emulator, nodes: int, python: str) -> Tail:
    scheduler = create_scheduler("bench")
    job = (await scheduler.submit_dryrun(_app(nodes), {"queue": QUEUE})).request
    connection = scheduler._connections.at()
    # The peer keeps everything in the definition, and reads it there.
    made = await connection.call("batch", "RegisterJobDefinition", "jobDefinitionArn", **job.job_def)
    definition = made["jobDefinitionArn"]
    await connection.call("batch", "SubmitJob", jobName=job.name, jobQueue=QUEUE, jobDefinition=definition)
    aws.calls()
    command = [python, "-c", PEER, f"{QUEUE}:{job.name}", "main", str(nodes)]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True, timeout=120)
    delays, died = json.loads(done.stdout.splitlines()[-1])
    await scheduler.close()
    return Tail(delays, aws.calls(), died)


def _app(nodes: int) -> AppDef:
    return scripted(["lines", LINES, 0.5, "$i $NOW"], replicas=nodes)


def _peer(folder: Path) -> str:
    """Return a Python that has the peer: PEER_PYTHON, or one that is made here."""
    if found := os.environ.get("PEER_PYTHON"):
        return found
    venv.create(folder / "peer", with_pip=True)
    python = str(folder / "peer/bin/python")
    subprocess.run([python, "-m", "pip", "install", "-q", "torchx==0.7.0", "boto3", "docker"], check=True)
    return python
