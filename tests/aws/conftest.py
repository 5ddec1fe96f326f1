"""What tests of AWS Batch have: an emulator on a port, or one in this process, and schedulers on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from asyncsched.schedulers.aws_batch import AWSBatchScheduler, create_scheduler
from tests.aws_emulator.cloud import Cloud
from tests.aws_emulator.server import Server

QUEUE = "torchx"


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
    made = quick(create_scheduler("session"))
    yield made
    await made.close()


def quick(scheduler: AWSBatchScheduler) -> AWSBatchScheduler:
    """Set times that fit an emulator, where lines are visible after 50 ms and not after 5 s."""
    scheduler.log_settle_polls = 2
    scheduler.poll_interval = 0.1
    return scheduler
