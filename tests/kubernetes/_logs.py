"""What tests of logs share: pods of an app on the fake, and streams over them without a scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from typing_extensions import override

from asyncsched.clock import Clock, TimerHandle
from asyncsched.logs.engine import LogSink
from asyncsched.logs.line import LogLine
from asyncsched.logs.query import LogQuery, make_query
from asyncsched.logs.stream import LogStream
from asyncsched.schedulers.kubernetes.changes import Reflectors
from asyncsched.schedulers.kubernetes.client import KubeClient
from asyncsched.schedulers.kubernetes.logs import PodLogs
from asyncsched.schedulers.kubernetes.logs_source import PodLog
from asyncsched.schedulers.responses import DescribeAppResponse
from asyncsched.specs.app import Role
from asyncsched.specs.state import AppState, ReplicaStatus
from tests.kubernetes_fake import FakeCluster
from tests.kubernetes_fake.containers import Run
from tests.kubernetes_fake.kubelet import Pod

APP = "job-x1"
JOB = "5a1e0000-0000-4000-8000-000000000001"
"""The uid of the app's job."""
PATIENCE = 120.0


class Hasty(Clock):
    """A clock whose pauses are a tenth of what they should be, and whose deadlines are not."""

    @override
    def call_later(self, delay: float, callback: Any) -> TimerHandle:
        return super().call_later(delay / 10, callback)

    @override
    def call_at_latest(self, delay: float, callback: Any) -> TimerHandle:
        return super().call_later(delay, callback)


class Still(Clock):
    """A clock that stands: what is waited for for a while is waited for until it is told."""

    @override
    def monotonic(self) -> float:
        return 0.0

    @override
    def call_later(self, delay: float, callback: Any) -> TimerHandle:
        return super().call_later(delay * 1000, callback)

    @override
    def call_at_latest(self, delay: float, callback: Any) -> TimerHandle:
        return super().call_later(delay, callback)


def make_pod(
    fake: FakeCluster,
    script: str = "sleep 1000",
    *,
    name: str = "job-x1-main-0",
    replica: int = 0,
    attempt: int = 0,
    policy: str = "Never",
    spec: Mapping[str, Any] | None = None,
    container: Mapping[str, Any] | None = None,
    owner: str = JOB,
) -> None:
    """Put a pod of the app there, as a controller would; without an owner, as anybody might."""
    labels = {
        "asyncsched/app": APP,
        "asyncsched/kind": "volcano",
        "asyncsched/role": "main",
        "asyncsched/replica": str(replica),
    }
    main = {"name": "main", "image": "busybox", "command": ["sh", "-c", script], **(container or {})}
    reference = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": APP, "uid": owner}
    metadata = {"labels": labels, "annotations": {"volcano.sh/job-retry-count": str(attempt)}}
    fake.create(
        "pods",
        name,
        metadata={**metadata, **({"ownerReferences": [{**reference, "controller": True}]} if owner else {})},
        spec={"restartPolicy": policy, "containers": [main], "terminationGracePeriodSeconds": 2, **(spec or {})},
    )


def pod_of(fake: FakeCluster, name: str = "job-x1-main-0") -> Pod:
    """Return a pod as its node knows it."""
    return fake.kubelet.of("default", name)


def run_of(fake: FakeCluster, name: str = "job-x1-main-0") -> Run:
    """Return the present run of a pod's container."""
    run = pod_of(fake, name).main[0].run
    assert run is not None
    return run


async def until(fake: FakeCluster, condition: Any) -> None:
    """Wait until something is the case inside the cluster."""
    async with asyncio.timeout(PATIENCE):
        while not fake.run(condition):  # noqa: ASYNC110 - it is in another thread
            await asyncio.sleep(0.01)


async def running(fake: FakeCluster, name: str = "job-x1-main-0") -> Run:
    """Wait until a pod's container runs."""

    def runs() -> bool:
        found = fake.store.find("pods", "default", name)
        return found is not None and pod_of(fake, name).main[0].run is not None

    await until(fake, runs)
    return run_of(fake, name)


async def ended(fake: FakeCluster, name: str = "job-x1-main-0") -> Run:
    """Wait until a pod has ended."""
    run = await running(fake, name)
    await until(fake, lambda: pod_of(fake, name).ended is not None)
    return run


class Bench:
    """Streams over the app's pods."""

    def __init__(self, fake: FakeCluster, client: KubeClient, clock: Clock | None = None) -> None:
        self.fake, self.clock = fake, clock or Hasty()
        self.reflectors = Reflectors(client, clock=self.clock)
        self.room = PodLogs(client, self.reflectors, clock=self.clock, retry_for=30.0)
        self.sources: list[PodLog] = []
        self.over = asyncio.Event()  # set: the app has ended
        self.first, self.state = AppState.RUNNING, AppState.SUCCEEDED
        self.reason = ""
        self.replicas = self.roles = 1

    def statuses(self, state: AppState) -> list[ReplicaStatus]:
        return [ReplicaStatus(k, state, "main", "", reason=self.reason) for k in range(self.replicas)]

    def stream(self, *, should_tail: bool = True, **query: Any) -> LogStream:
        """Read the app's log; a tail ends some time after `over` is set."""
        made = make_query(f"default:{APP}", should_tail=should_tail, clock=self.clock, **query)

        async def open_logs(query: LogQuery, sink: LogSink) -> None:
            state = self.first if query.tail and not self.over.is_set() else self.state
            app = DescribeAppResponse(app_id=query.app_id, state=state, native_id=JOB)
            app.roles = [Role(f"role-{n}", "image") for n in range(self.roles)]
            sources = list(await self.room.sources(app, self.statuses(state), query))
            self.sources += sources
            for source in sources:
                sink.add(source)
            if query.tail:
                await self.over.wait()
                for source, status in zip(sources, self.statuses(self.state), strict=True):
                    source.observe(status)
                    source.finish()

        return LogStream(made, open_logs)

    async def read(self, stream: LogStream, count: int | None = None) -> list[LogLine]:
        """Read so many lines, or all."""
        lines: list[LogLine] = []
        async with asyncio.timeout(PATIENCE):
            while count is None or len(lines) < count:
                line = await anext(stream, None)
                if line is None:
                    break
                lines.append(line)
        return lines

    async def all(self, **query: Any) -> list[LogLine]:
        """Read what there is."""
        return await self.read(self.stream(should_tail=False, **query))

    def end(self, state: AppState = AppState.SUCCEEDED) -> None:
        """Let the app have ended."""
        self.state = state
        self.over.set()


@asynccontextmanager
async def bench(fake: FakeCluster, client: KubeClient, clock: Clock | None = None) -> AsyncIterator[Bench]:
    made = Bench(fake, client, clock)
    yield made
    made.end()
    await made.reflectors.close()


def texts(lines: Iterable[LogLine]) -> list[str]:
    """Return the lines; a gap as ``GAP`` and its reason."""
    return [f"GAP {line.gap.reason}" if line.gap is not None else line.text for line in lines]


def attempts(lines: Sequence[LogLine]) -> list[int | None]:
    return [line.attempt for line in lines]
