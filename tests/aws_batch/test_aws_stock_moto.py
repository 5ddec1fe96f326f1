"""A smoke test against moto_server as it comes, so that the emulator is not the only judge.

Stock moto runs containers where there is a Docker daemon; here there is none, and jobs end at once. What is looked
at is that every request of ours is understood, and every answer of its.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from asyncsched.errors import NotFoundError
from asyncsched.schedulers.aws_batch import AWSBatchScheduler
from asyncsched.specs import AppDef, Resource, Role
from tests.aws_batch.conftest import quick

QUEUE = "stock"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.guard(left_over=False, reason="moto starts a process to look for a Docker daemon, and leaves it"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    from moto.moto_server.threaded_moto_server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    _make_queue(f"http://{host}:{port}")
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
async def scheduler(moto: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AWSBatchScheduler]:
    for name, value in {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": moto,
        "DOCKER_HOST": "tcp://127.0.0.1:1",
    }.items():
        monkeypatch.setenv(name, value)
    scheduler = quick("session")
    yield scheduler
    await scheduler.close()


def _make_queue(url: str) -> None:
    import boto3

    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
    iam, batch = (boto3.client(name, endpoint_url=url, **keys) for name in ("iam", "batch"))
    role = iam.create_role(RoleName="service", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
    made = batch.create_compute_environment(computeEnvironmentName="unmanaged", type="UNMANAGED", serviceRole=role)
    order = [{"order": 1, "computeEnvironment": made["computeEnvironmentArn"]}]
    batch.create_job_queue(jobQueueName=QUEUE, state="ENABLED", priority=1, computeEnvironmentOrder=order)
    for client in (iam, batch):
        client.close()


def app(replicas: int = 1) -> AppDef:
    resource = Resource(cpu=1, gpu=0, memMB=128)
    return AppDef("app", [Role("main", "busybox", entrypoint="true", num_replicas=replicas, resource=resource)])


@pytest.mark.parametrize("replicas", [1, 3])
async def test_an_app_goes_its_way(scheduler: AWSBatchScheduler, replicas: int) -> None:
    app_id = await scheduler.submit(app(replicas), {"queue": QUEUE})

    events = [event async for event in scheduler.watch([app_id])]
    found = await scheduler.describe(app_id)

    assert events[-1].is_terminal()
    assert found is not None
    assert (app_id, "app", "session") == (found.app_id, found.name, found.session)
    assert replicas == len(found.replicas)
    assert app_id in [row.app_id for row in await scheduler.list()]
    assert [] == [line async for line in scheduler.log_iter(app_id)]
    await scheduler.cancel(app_id)


async def test_definitions_are_reused(scheduler: AWSBatchScheduler) -> None:
    for _ in range(2):
        await scheduler.submit(app(), {"queue": QUEUE})
    again = quick("another")
    await again.submit(app(), {"queue": QUEUE})
    connection = again._connections.at()
    found = await connection.call("batch", "DescribeJobDefinitions", jobDefinitionName="asx-app", status="ACTIVE")
    await again.close()

    single = [row for row in found["jobDefinitions"] if row["type"] == "container"]
    assert 1 == len(single)


async def test_what_does_not_exist(scheduler: AWSBatchScheduler) -> None:
    assert await scheduler.describe(f"{QUEUE}:11111111-2222-3333-4444-555555555555") is None
    assert await scheduler.describe(f"{QUEUE}:nobody") is None
    with pytest.raises(NotFoundError):
        await scheduler.submit(app(), {"queue": "nowhere"})
