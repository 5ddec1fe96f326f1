"""Clients that the caller gives: what is taken from them, what only stands in for one, and what is no client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock
from urllib.parse import urlsplit

import boto3
import pytest
from aiobotocore.config import AioConfig
from aiobotocore.session import AioSession
from botocore.config import Config
from botocore.credentials import RefreshableCredentials
from botocore.session import Session
from botocore.stub import Stubber

from asyncsched.errors import ConfigError
from asyncsched.schedulers.aws_batch import AWSBatchScheduler, create_scheduler
from asyncsched.specs import AppState
from tests.aws_batch.conftest import QUEUE, quick, short_app
from tests.aws_emulator.server import Server

CFG = {"queue": QUEUE}
KEYS = {"region_name": "us-east-1", "aws_access_key_id": "GIVEN", "aws_secret_access_key": "x"}
JOB = "11111111-2222-3333-4444-555555555555"

pytestmark = pytest.mark.guard(
    loop_step=False, blocking=False, reason="the tests make clients as users do, in the loop"
)


@pytest.fixture
async def clients(server: Server) -> AsyncIterator[dict[str, tuple[Any, Any]]]:
    """A client for ``batch`` and one for ``logs`` of each SDK, with the SDK's own way to try again."""
    async with AsyncExitStack() as stack:
        session = AioSession()
        of_aio = [await stack.enter_async_context(session.create_client(name, **KEYS)) for name in ("batch", "logs")]
        of_boto = [boto3.client(name, **KEYS) for name in ("batch", "logs")]
        for client in of_boto:
            stack.callback(client.close)
        yield {"aiobotocore": tuple(of_aio), "boto3": tuple(of_boto)}


@pytest.fixture
def of_another_account(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment whose own keys are not accepted, those of the given clients are."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ENVIRONMENT")
    server.cloud.traffic.valid_keys = {"GIVEN"}


@pytest.mark.parametrize("kind", ["cut_after", "reset_after"])
@pytest.mark.parametrize("sdk", ["aiobotocore", "boto3"])
async def test_a_submit_that_is_cut_after_it_took_effect_is_one_job_with_a_given_client(
    server: Server, clients: dict[str, tuple[Any, Any]], sdk: str, kind: str
) -> None:
    server.cloud.traffic.fail("SubmitJob", kind)
    scheduler = quick("session", *clients[sdk])

    app_id = await scheduler.submit(short_app(), CFG)
    await scheduler.close()

    assert [app_id] == [f"{QUEUE}:{job.name}" for job in server.cloud.jobs]
    assert 1 == server.cloud.traffic.calls["SubmitJob"]


@pytest.mark.slow
@pytest.mark.usefixtures("of_another_account")
@pytest.mark.parametrize("sdk", ["aiobotocore", "boto3"])
async def test_their_credentials_serve_every_operation_and_they_stay_open(
    clients: dict[str, tuple[Any, Any]], sdk: str
) -> None:
    scheduler = quick("session", *clients[sdk])
    app_id = await scheduler.submit(short_app(["line", "x"]), CFG)
    assert ["x"] == [line.text async for line in scheduler.log_iter(app_id, should_tail=True)]
    found = await scheduler.describe(app_id)
    await scheduler.close()

    assert found is not None
    assert AppState.SUCCEEDED == found.state
    answer = clients[sdk][0].describe_jobs(jobs=[found.native_id])
    assert 1 == len((await answer if sdk == "aiobotocore" else answer)["jobs"])


@pytest.mark.slow
@pytest.mark.usefixtures("of_another_account")
async def test_a_batch_client_alone_tells_who_reads_the_logs(clients: dict[str, tuple[Any, Any]]) -> None:
    scheduler = quick("session", clients["boto3"][0])
    app_id = await scheduler.submit(short_app(["line", "x"]), CFG)

    assert ["x"] == [line.text async for line in scheduler.log_iter(app_id, should_tail=True)]
    await scheduler.close()


@pytest.mark.usefixtures("of_another_account")
async def test_their_region_and_endpoint_go_before_the_environments(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = boto3.client("batch", endpoint_url=server.url, **{**KEYS, "region_name": "eu-north-1"})
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_REGION", "sa-east-1")
    scheduler = create_scheduler("session", client)

    await scheduler.submit(short_app(), CFG)
    shown = repr(scheduler._connections.at())
    await scheduler.close()
    client.close()

    assert "eu-north-1" in shown
    assert 1 == len(server.cloud.jobs)


@pytest.mark.usefixtures("of_another_account")
async def test_a_run_option_goes_before_a_client(
    server: Server, clients: dict[str, tuple[Any, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    credentials = tmp_path / "credentials"
    credentials.write_text("[work]\naws_access_key_id = WORKKEY\naws_secret_access_key = y\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))
    server.cloud.traffic.valid_keys = {"WORKKEY"}
    scheduler = create_scheduler("session", clients["boto3"][0])

    await scheduler.submit(short_app(), {**CFG, "profile": "work", "region": "us-west-2"})
    await scheduler.close()

    assert 1 == len(server.cloud.jobs)


@pytest.mark.usefixtures("of_another_account")
async def test_credentials_of_boto3_that_expire_are_renewed(server: Server) -> None:
    renewals = []

    def renew() -> dict[str, str]:
        renewals.append(1)
        ends = datetime.now(UTC) + timedelta(hours=1)
        return {"access_key": "GIVEN", "secret_key": "x", "token": "t", "expiry_time": ends.isoformat()}

    over = datetime.now(UTC) - timedelta(hours=1)
    session = Session()
    session._credentials = RefreshableCredentials("OLD", "x", "t", over, renew, "test")
    client = session.create_client("batch", region_name="us-east-1")
    scheduler = create_scheduler("session", client)

    await scheduler.submit(short_app(), CFG)
    await scheduler.close()
    client.close()

    assert [1] == renewals
    assert 1 == len(server.cloud.jobs)


async def test_their_proxy_and_their_trust_are_used(server: Server) -> None:
    tls = Config(proxies={"http": "http://127.0.0.1:1"}, client_cert="/nowhere/cert.pem")
    client = boto3.client("batch", config=tls, verify="/nowhere/ca.pem", **KEYS)
    scheduler = create_scheduler("session", client)
    connection = scheduler._connections.at()
    own = await connection._client("batch")
    await scheduler.close()
    client.close()

    assert own is not client
    assert ({"http": "http://127.0.0.1:1"}, "/nowhere/cert.pem") == (
        own.meta.config.proxies,
        own.meta.config.client_cert,
    )
    assert "/nowhere/ca.pem" == own._endpoint.http_session._verify
    assert {"total_max_attempts": 1, "mode": "standard"} == own.meta.config.retries


@pytest.mark.parametrize(
    ("kind", "addresses"),
    [
        ("use_fips_endpoint", ["fips.batch.us-east-1", "logs-fips.us-east-1", "fips.batch.us-west-2"]),
        ("use_dualstack_endpoint", ["batch.us-east-1.api", "logs.us-east-1.api", "batch.us-west-2.api"]),
    ],
)
async def test_their_kind_of_addresses_is_used_for_every_service_and_region(
    monkeypatch: pytest.MonkeyPatch, kind: str, addresses: list[str]
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    settings: dict[str, Any] = {kind: True}
    client = boto3.client("batch", config=Config(**settings), **KEYS)
    scheduler = create_scheduler("session", client)
    here, there = scheduler._connections.at(), scheduler._connections.at({"region": "us-west-2"})
    own = [await here._client("batch"), await here._client("logs"), await there._client("batch")]
    await scheduler.close()
    client.close()

    assert addresses == [
        urlsplit(each.meta.endpoint_url).netloc.removesuffix(".aws").removesuffix(".amazonaws.com") for each in own
    ]


@pytest.mark.filterwarnings("ignore::DeprecationWarning:aiobotocore")
async def test_a_client_on_httpx_is_one_to_submit_with(server: Server) -> None:
    httpx = pytest.importorskip("aiobotocore.httpxsession")  # not every release has it
    settings = AioConfig(http_session_cls=httpx.HttpxSession)
    async with AioSession().create_client("batch", config=settings, **KEYS) as client:
        scheduler = create_scheduler("session", client)
        await scheduler.submit(short_app(), CFG)
        await scheduler.close()

    assert 1 == len(server.cloud.jobs)


def stubbed() -> Any:
    client = boto3.client("batch", endpoint_url="http://127.0.0.1:1", **KEYS)
    stub = Stubber(client)
    stub.add_response("describe_jobs", {"jobs": []})
    stub.activate()
    return client


def mocked() -> Any:
    client = MagicMock()
    client.describe_jobs.return_value = {"jobs": []}
    return client


@pytest.mark.parametrize("make", [stubbed, mocked])
async def test_what_stands_in_for_a_client_is_called_as_it_is(make: Any, server: Server) -> None:
    stand_in = make()
    scheduler = create_scheduler("session", stand_in)

    assert await scheduler.describe(f"{QUEUE}:{JOB}") is None
    await scheduler.close()
    assert 0 == server.cloud.traffic.calls.total()
    stand_in.close()


def test_what_is_no_client_is_refused_with_what_fits() -> None:
    logs = boto3.client("logs", **KEYS)
    not_entered = AioSession().create_client("batch")
    for wrong in (boto3.Session(region_name="us-east-1"), "batch", not_entered, logs):
        with pytest.raises(ConfigError) as caught:
            AWSBatchScheduler("session", wrong)
        assert 'boto3.client("batch")' in caught.value.fix
        assert "client" in caught.value.what
    with pytest.raises(ConfigError) as caught:
        create_scheduler("session", log_client=object())
    assert "log_client" in caught.value.what
    assert 'boto3.client("logs")' in caught.value.fix
    logs.close()
    not_entered._coro.close()
