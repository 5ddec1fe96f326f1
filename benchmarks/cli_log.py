"""How fast the command line writes log lines."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from asyncsched import AppDef, Role
from asyncsched.clock import Clock
from asyncsched.logs import LogOrigin, QueueSource, label
from asyncsched.logs.select import LogQuery
from asyncsched.logs.source import LogSource
from asyncsched.schedulers.responses import DescribeAppResponse
from asyncsched.specs.state import ReplicaStatus
from asyncsched.testing import FakeScheduler, FakeService
from benchmarks._harness import Claim, at_least, in_turns
from benchmarks.cli_start import program, seconds

LINES = 100_000
ROUNDS = 5


def claims() -> Iterator[Claim]:
    """Run `asyncsched log` over many lines and over one; the difference is what the lines take."""
    with tempfile.TemporaryDirectory() as folder:
        _install(Path(folder))
        took = in_turns({str(count): _log(Path(folder), count) for count in (1, LINES)}, ROUNDS)
    alone, flood = took.values()
    yield at_least(
        f"{LINES} lines of four replicas are written at no less than 200 k lines/s",
        LINES / (flood - alone),
        200_000,
        unit=" lines/s",
        detail=f"{flood:.2f} s with them, {alone:.2f} s with one line",
    )


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


def _log(folder: Path, count: int) -> Callable[[], float]:
    here = str(Path(__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": f"{folder}:{here}", "FLOOD_LINES": str(count)}
    return seconds(program(), "log", "flood:///app", env=env)
