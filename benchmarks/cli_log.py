"""What it costs the command line to write log lines."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from asyncsched import AppDef, Role
from asyncsched.clock import Clock
from asyncsched.logs import LogOrigin, QueueSource, label
from asyncsched.logs.query import LogQuery
from asyncsched.logs.source import LogSource
from asyncsched.schedulers.responses import DescribeAppResponse
from asyncsched.specs.state import ReplicaStatus
from asyncsched.testing import FakeScheduler, FakeService
from benchmarks._harness import Claim, at_most, in_turns
from benchmarks.cli_start import costs, program

LINES = 200_000
ROUNDS = 5

BARE = """
count = {count}
for number in range(count):
    print("main/0", "line", number, "of a log that is long enough to be one")
"""


def claims() -> Iterator[Claim]:
    """Run `asyncsched log` over many lines and over one; the difference is what the lines cost."""
    ours, bare = "`asyncsched log`", "a Python program that prints as many"
    with tempfile.TemporaryDirectory() as folder:
        _install(Path(folder))
        taken = in_turns({ours: _lines(_log(Path(folder))), bare: _lines(_print)}, ROUNDS)
    yield at_most(
        f"CPU of {LINES:,} lines of four replicas, written by {ours}",
        taken.ratio(ours, bare),
        1.2,
        detail=f"a line: {taken.told(1e6 / LINES, 'us')}",
    )


def _lines(command: Callable[[int], Callable[[], float]]) -> Callable[[], float]:
    few, many = command(4), command(LINES)
    return lambda: many() - few()


def _print(count: int) -> Callable[[], float]:
    return costs(sys.executable, "-c", BARE.format(count=count))


class Flood(FakeScheduler):
    """Has an app whose log is ready: what remains is the engine and the command line."""

    def __init__(self, session_name: str) -> None:
        super().__init__(session_name, FakeService(Clock(), start_delay=None))
        self.backend = "flood"
        roles = [Role("main", "", entrypoint="sh", args=["-c", "exit 0"], num_replicas=4)]
        self.service.launch("app", AppDef("app", roles), "", "")

    async def _log_sources(
        self, app: DescribeAppResponse, replicas: Sequence[ReplicaStatus], query: LogQuery
    ) -> Sequence[LogSource]:
        count = int(os.environ["FLOOD_LINES"])
        return [_ready(replica, max(count // len(replicas), 1)) for replica in replicas]


def _ready(replica: ReplicaStatus, count: int) -> LogSource:
    origin = LogOrigin(app_id="app", role=replica.role, replica=replica.id)
    source = QueueSource(role=replica.role, replica=replica.id, room=count)
    source.put(label((f"line {number} of a log that is long enough to be one\n" for number in range(count)), origin, 1))
    source.end()
    return source


def create_scheduler(session_name: str, **kwargs: object) -> Flood:
    """Make the scheduler; no I/O."""
    return Flood(session_name)


def _install(folder: Path) -> None:
    """Make a distribution that brings this module's scheduler."""
    meta = folder / "flood-1.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: flood\nVersion: 1\n")
    (meta / "entry_points.txt").write_text("[asyncsched.schedulers]\nflood = benchmarks.cli_log:create_scheduler\n")


def _log(folder: Path) -> Callable[[int], Callable[[], float]]:
    here = str(Path(__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": f"{folder}:{here}"}
    return lambda count: costs(program(), "log", "flood:///app", env={**env, "FLOOD_LINES": str(count)})
