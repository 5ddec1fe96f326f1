"""The way to AWS over real HTTP: credentials, regions, broken connections, and what users are told."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from asyncsched.errors import AsyncSchedError, AuthError, ClosedError, ConfigError, UnavailableError
from asyncsched.schedulers.aws_batch import AWSBatchScheduler, client, create_scheduler
from asyncsched.schedulers.aws_batch.client import Location
from asyncsched.specs import AppDef, AppState, Role
from tests._support import WITHIN, eventually
from tests.aws_batch.conftest import QUEUE, quick, short_app
from tests.aws_emulator.server import Server, restart

CFG = {"queue": QUEUE}


async def failure(**where: Any) -> AsyncSchedError:
    scheduler = create_scheduler("session", **where)
    try:
        with pytest.raises(AsyncSchedError) as caught:
            await scheduler.submit(short_app(), CFG)
    finally:
        await scheduler.close()
    return caught.value


@pytest.fixture
def nobody(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An environment without credentials, profile and region."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


def test_aws_region_is_read_and_an_argument_goes_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-north-1")

    assert "eu-north-1" == Location().resolved().region
    assert "us-west-2" == Location(region="us-west-2").resolved().region
    assert "sa-east-1" == Location().over({"region": "sa-east-1"}).resolved().region


@pytest.mark.usefixtures("nobody")
async def test_no_credentials_and_no_region_are_errors_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    no_region = await failure()
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    no_credentials = await failure()
    no_profile = await failure(profile="nosuch")

    assert isinstance(no_region, ConfigError)
    assert "AWS_REGION" in no_region.fix
    assert isinstance(no_credentials, AuthError)
    assert "aws configure" in no_credentials.fix
    assert isinstance(no_profile, ConfigError)
    assert "nosuch" in str(no_profile)


@pytest.mark.guard(blocking=False, reason="botocore reads its cache of sign-ons where it signs a request")
@pytest.mark.usefixtures("nobody")
async def test_an_expired_sign_on_names_the_command(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(
        "[profile work]\nregion = us-east-1\nsso_start_url = https://x\nsso_region = us-east-1\n"
        "sso_account_id = 1\nsso_role_name = r\n"
    )

    error = await failure(profile="work")

    assert isinstance(error, AuthError)
    assert "aws sso login --profile work" in error.fix


@pytest.mark.usefixtures("nobody")
async def test_a_profile_of_the_aws_configuration_is_used(server: Server, tmp_path: Path) -> None:
    (tmp_path / "config").write_text("[profile work]\nregion = us-east-1\n")
    (tmp_path / "credentials").write_text("[work]\naws_access_key_id = WORKKEY\naws_secret_access_key = y\n")
    server.cloud.traffic.valid_keys = {"WORKKEY"}
    scheduler = create_scheduler("session")

    await scheduler.submit(short_app(), {**CFG, "profile": "work"})
    await scheduler.close()

    assert 1 == len(server.cloud.jobs)


async def test_an_endpoint_that_is_no_url_is_named(server: Server) -> None:
    error = await failure(endpoint_url="localhost:5000")

    assert isinstance(error, ConfigError)
    assert "localhost:5000" in str(error)
    assert "http://" in error.fix


async def test_keys_that_are_not_accepted(server: Server) -> None:
    server.cloud.traffic.valid_keys = {"another"}

    error = await failure()

    assert isinstance(error, AuthError)
    assert "have expired" in str(error)


@pytest.mark.slow
@pytest.mark.usefixtures("nobody")
async def test_credentials_that_expire_are_renewed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{server.url}/emulator/credentials")
    # Less than the time before their end at which the SDK has credentials renewed, and more than any request takes.
    server.control.credential_life = 60.0
    lines: list[str] = []
    async with quick("session") as scheduler:
        app_id = await scheduler.submit(short_app(["lines", 20, 0.2, "$i"]), CFG)
        async for line in scheduler.log_iter(app_id, should_tail=True):
            lines.append(line.text)
            if len(lines) == 5:
                server.control.revoke()

        assert await scheduler.exists(app_id)  # a call, if the whole log was read before the keys were revoked

    assert [str(i) for i in range(20)] == lines
    assert server.control.issued > 1


async def test_nobody_at_the_endpoint(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    scheduler = create_scheduler("session", endpoint_url="http://127.0.0.1:1", retry_for=0.5)
    with pytest.raises(UnavailableError) as caught:
        await scheduler.describe(f"{QUEUE}:11111111-2222-3333-4444-555555555555")
    await scheduler.close()

    assert "127.0.0.1:1" in str(caught.value) or "0.5 s" in str(caught.value)


@pytest.mark.slow
async def test_an_emulator_that_restarts_in_mid_tail_costs_no_line(
    server: Server, scheduler: AWSBatchScheduler
) -> None:
    app_id = await scheduler.submit(short_app(["lines", 40, 0.1, "$i"], num_replicas=2), CFG)
    lines: list[str] = []
    stopping: threading.Thread | None = None

    async for line in scheduler.log_iter(app_id, k=0, should_tail=True):
        lines.append(line.text)
        if len(lines) == 10:
            stopping = threading.Thread(target=restart, args=(server, 0.7))
            stopping.start()
    assert stopping is not None
    await asyncio.to_thread(stopping.join)

    assert [str(i) for i in range(40)] == lines


@pytest.mark.parametrize("kind", ["cut_after", "reset_after"])
async def test_a_submit_that_is_cut_on_the_wire_after_it_took_effect(
    server: Server, scheduler: AWSBatchScheduler, kind: str
) -> None:
    server.cloud.traffic.fail("SubmitJob", kind)

    app_id = await scheduler.submit(short_app(), CFG)

    assert [app_id] == [f"{QUEUE}:{job.name}" for job in server.cloud.jobs]
    assert 1 == server.cloud.traffic.calls["SubmitJob"]


async def test_a_submit_that_is_cancelled_leaves_no_job_that_runs(server: Server, scheduler: AWSBatchScheduler) -> None:
    server.cloud.traffic.held["submitjob"] = go_on = threading.Event()
    info = await scheduler.submit_dryrun(short_app(["sleep", 60]), CFG)
    by_name = info.app_id
    submitting = asyncio.create_task(scheduler.schedule(info))
    await eventually(lambda: server.cloud.jobs)
    submitting.cancel()
    go_on.set()
    outcome = (await asyncio.gather(submitting, return_exceptions=True))[0]

    assert isinstance(outcome, asyncio.CancelledError)
    assert await scheduler.describe(by_name) is None
    await eventually(lambda: all(job.status == "FAILED" for job in server.cloud.jobs))


@pytest.mark.slow
@pytest.mark.guard(loop_step=False, blocking=False, reason="the test makes its clients as users do, in the loop")
async def test_clients_that_are_given_are_used_and_not_closed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    from aiobotocore.session import AioSession

    session = AioSession()
    async with session.create_client("batch") as batch, session.create_client("logs") as logs:
        scheduler = quick("session", batch, logs)
        app_id = await scheduler.submit(short_app(["line", "x"]), CFG)
        assert ["x"] == [line.text async for line in scheduler.log_iter(app_id, should_tail=True)]
        await scheduler.close()

        assert [] != (await batch.describe_jobs(jobs=[server.cloud.jobs[0].id]))["jobs"]


async def test_closing_while_the_sdk_is_read_leaves_nothing_open(scheduler: AWSBatchScheduler) -> None:
    connection, begun, may_end = scheduler._connections.at(), threading.Event(), threading.Event()

    def held(*arguments: Any) -> Any:
        begun.set()
        may_end.wait(WITHIN)
        return warm_session(*arguments)

    warm_session = client._warm_session
    with mock.patch.object(client, "_warm_session", held):
        call = asyncio.create_task(connection.call("batch", "DescribeJobs", jobs=["x"]))
        await eventually(begun.is_set)
        await scheduler._connections.aclose()
        may_end.set()
        with pytest.raises(ClosedError, match="make a new scheduler"):
            await call

    assert not connection._clients


async def test_a_client_that_opens_while_its_scheduler_closes_is_closed(scheduler: AWSBatchScheduler) -> None:
    connection, entered = scheduler._connections.at(), asyncio.Event()
    may_end = asyncio.Event()
    events: list[str] = []

    class Opening:
        async def __aenter__(self) -> None:
            entered.set()
            await may_end.wait()
            events.append("opened")

        async def __aexit__(self, *_: object) -> None:
            events.append("closed")

    session = mock.Mock(create_client=lambda *_, **__: Opening())
    with mock.patch.object(client, "_warm_session", return_value=session):
        call = asyncio.create_task(connection.call("batch", "DescribeJobs", jobs=["x"]))
        await entered.wait()
        await scheduler._connections.aclose()
        may_end.set()
        with pytest.raises(ClosedError):
            await call

    assert ["opened", "closed"] == events


async def test_a_closed_connection_opens_no_client_again(scheduler: AWSBatchScheduler) -> None:
    usual, elsewhere = scheduler._connections.at(), {"region": "eu-north-1"}
    await scheduler._connections.aclose()

    for connection in (usual, scheduler._connections.at(), scheduler._connections.at(elsewhere)):
        with pytest.raises(ClosedError):
            await connection.call("batch", "DescribeJobs", jobs=["x"])


@pytest.mark.slow
async def test_ecs_signals_processes_and_their_end_is_cancelled(server: Server, scheduler: AWSBatchScheduler) -> None:
    role = Role(
        "main", "busybox", entrypoint="sh", args=["-c", "trap 'echo bye; exit 0' TERM; echo up; sleep 60 & wait"]
    )
    server.cloud.pace.grace = 60.0
    app_id = await scheduler.submit(AppDef("app", [role]), CFG)
    lines = []
    async for line in scheduler.log_iter(app_id, should_tail=True):
        lines.append(line.text)
        if line.text == "up":
            await scheduler.cancel(app_id)
    found = await scheduler.describe(app_id)

    assert ["up", "bye"] == lines
    assert found is not None
    assert (AppState.CANCELLED, AppState.CANCELLED) == (found.state, found.replicas[0].state)
