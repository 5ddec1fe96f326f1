"""How soon a line that a local process writes is at its reader."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import AsyncIterator

from asyncsched.schedulers.local import LocalScheduler
from benchmarks._docker import peer
from benchmarks._floods import percentile
from benchmarks._harness import Claim, at_most
from benchmarks._local import PEER_APP, app_of
from benchmarks.local_submit import state_directory

REPLICAS = 8
LINES = 4000
PAUSE = 0.02
ROUNDS = 3
WRITER = f"import time\nwhile True:\n print(time.time_ns(), flush=True)\n time.sleep({PAUSE})"
COMMAND = [sys.executable, "-c", WRITER]

PEER = """
late = []
def read(k):
    for text in scheduler.log_iter(app_id, "main", k, should_tail=True):
        now = time.time_ns()
        late.extend(now - int(line) for line in text.split())
app_id = submit({command!r}, {replicas})
for k in range({replicas}):
    threading.Thread(target=read, args=(k,), daemon=True).start()
while len(late) < {lines}:
    time.sleep(0.1)
print(sorted(late)[len(late) // 2] / 1e6)
scheduler.cancel(app_id)
os._exit(sys.stdout.flush() or 0)
"""


async def claims() -> AsyncIterator[Claim]:
    """Take the median of a few runs, beside that of a pipe that is read by a blocking loop."""
    runs = [await _latencies() for _ in range(ROUNDS)]
    p50, p99 = (statistics.median(percentile(late, share) for late in runs) for share in (0.5, 0.99))
    detail = "each run: " + ", ".join(
        f"p50 {percentile(late, 0.5):.2f}, p99 {percentile(late, 0.99):.2f} ms" for late in runs
    )
    yield at_most(f"{REPLICAS} replicas: p50 from write to yield at most 1 ms", p50, 1.0, unit=" ms", detail=detail)
    yield at_most(f"{REPLICAS} replicas: p99 from write to yield at most 5 ms", p99, 5.0, unit=" ms")
    (theirs,) = peer(PEER_APP + PEER.format(command=COMMAND, replicas=REPLICAS, lines=LINES // 4))
    yield at_most(
        "a twentieth of the peer's", p50 / float(theirs), 0.05, detail=f"p50 {p50:.2f} against {float(theirs):.1f} ms"
    )


async def _latencies() -> list[float]:
    """Return milliseconds from each write to its line's arrival."""
    late: list[float] = []
    with state_directory():
        async with LocalScheduler("benchmark") as scheduler:
            app_id = await scheduler.submit(app_of(COMMAND, replicas=REPLICAS))
            async with scheduler.log_iter(app_id, should_tail=True) as stream:
                for _ in range(20 * REPLICAS):  # until all of them are under way
                    await anext(stream)
                for _ in range(LINES):
                    line = await anext(stream)
                    late.append((time.time_ns() - int(line)) / 1e6)
            await scheduler.kill(app_id)
    return late
