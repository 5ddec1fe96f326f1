"""What tests of AWS Batch have: an emulator on a port, or one in this process, and schedulers on it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from asyncsched.schedulers._common.rate_limit import RateLimits
from asyncsched.schedulers.aws_batch import AWSBatchScheduler, create_scheduler
from asyncsched.specs import AppDef, Role
from asyncsched.testing import VirtualClock
from tests.aws_emulator import shapes
from tests.aws_emulator.cloud import Cloud
from tests.aws_emulator.direct import DirectClient
from tests.aws_emulator.server import Server

QUEUE = "torchx"

for service in ("batch", "logs"):
    shapes.operations(service)  # Read from disk here, where nobody measures.

in_bulk = pytest.mark.skipif(
    "terminatejobs" not in shapes.operations("batch"), reason="this release of botocore does not know TerminateJobs"
)
"""A test of what ends jobs in bulk; with an older SDK they are ended one by one."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """An emulator of its own for each test, and an environment that leads there."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    cloud = Cloud()
    cloud.queues.add(QUEUE)
    with Server(cloud) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        yield server
    assert [] == cloud.traffic.problems


@pytest.fixture
def cloud(server: Server) -> Cloud:
    return server.cloud


@pytest.fixture
async def scheduler(server: Server) -> AsyncIterator[AWSBatchScheduler]:
    """A scheduler that talks to the emulator through aiobotocore."""
    made = quick("session")
    yield made
    await made.close()


def quick(session: str, *clients: object, limits: RateLimits | None = None) -> AWSBatchScheduler:
    """Make a scheduler with times that fit an emulator, where lines are visible after 50 ms and not after 5 s."""
    scheduler = create_scheduler(session, *clients, limits=limits, log_interval=0.1, log_settle_polls=2)
    scheduler.poll_interval = 0.1
    return scheduler


class Virtual:
    """A cloud and a scheduler that share a clock which does not wait; no network in between."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.cloud = Cloud(clock=lambda: self.clock.time_ns() / 1e9)
        self.cloud.queues.add(QUEUE)
        self.schedulers: list[AWSBatchScheduler] = []

    def scheduler(self, latency: float = 0.03, **more: Any) -> AWSBatchScheduler:
        batch, logs = (
            DirectClient(self.cloud, service, sleep=self.clock.sleep, latency=latency) for service in ("batch", "logs")
        )
        made = create_scheduler("session", batch, logs, clock=self.clock, **more)
        self.schedulers.append(made)
        return made

    @property
    def calls(self) -> int:
        return self.cloud.traffic.calls.total()


@pytest.fixture
async def virtual() -> AsyncIterator[Virtual]:
    """Virtual time: inside the test the clock jumps whenever there is nothing left to do."""
    made = Virtual()
    async with made.clock:
        yield made
        for scheduler in made.schedulers:
            await scheduler.close()
    assert [] == made.cloud.traffic.problems


def script(*steps: list[Any], name: str = "main", **more: Any) -> Role:
    """Return a role whose nodes play these steps (see `tests.aws_emulator.scripts`)."""
    return Role(name, "script", entrypoint="play", args=[json.dumps(steps)], **more)


def app(*steps: list[Any], name: str = "app", **more: Any) -> AppDef:
    """Make an app of one role that takes these steps, or sleeps for five seconds of the emulator's."""
    return AppDef(name, [script(*(steps or (["sleep", 5],)), **more)])


def short_app(*steps: list[Any], **more: Any) -> AppDef:
    """Make one for an emulator in real time: it sleeps for a fifth of a second."""
    return app(*(steps or (["sleep", 0.2],)), **more)
