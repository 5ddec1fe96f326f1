"""Credentials and calls: the guards around the SDK, what is tried again, and what errors say."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest

from asyncsched.errors import (
    AuthError,
    ClosedError,
    ConfigError,
    PermissionDeniedError,
    SchedulerError,
    UnavailableError,
)
from asyncsched.schedulers.gcp_batch import GCPBatchScheduler, create_scheduler
from asyncsched.schedulers.gcp_batch.client_credentials import GCPCredentials
from asyncsched.specs import AppDef
from asyncsched.testing import VirtualClock
from tests._support import eventually, held_import
from tests.gcp_batch.conftest import played, quick
from tests.gcp_double.server import PROJECT, Double, Fault

UNKNOWN = f"{PROJECT}:us-central1:nosuchapp-x1"


async def test_a_caller_who_is_cancelled_leaves_the_exchange_to_the_others(
    double: Double, scheduler: GCPBatchScheduler
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    async def gate() -> None:
        loop.call_soon_threadsafe(begun.set)
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(go_on.wait(), loop))

    double.tokens.gate = gate
    calls = [asyncio.create_task(scheduler.describe(UNKNOWN)) for _ in range(20)]
    await begun.wait()
    calls[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await calls[0]
    go_on.set()

    assert [None] * 19 == await asyncio.gather(*calls[1:])
    assert 1 == double.tokens.exchanges


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "are not JSON"),
        ("[]", "cannot be used"),
        ('{"type": "external_account_authorized_user"}', "external_account_authorized_user"),
        ('{"type": "service_account", "client_email": "a", "private_key": "x", "token_uri": "http://x"}', "be used"),
        (
            '{"type": "impersonated_service_account", "source_credentials": {"type": "service_account"}}',
            "source_credentials.type must be authorized_user",
        ),
    ],
)
async def test_a_broken_file_is_an_error_and_not_the_machines_account(
    double: Double, surroundings: Path, text: str, message: str
) -> None:
    (surroundings / "key.json").write_text(text)
    async with quick("s") as made:
        with pytest.raises(AuthError, match=message) as caught:
            await made.describe(UNKNOWN)

    assert "key.json" in str(caught.value)
    assert "gcloud auth application-default login" in caught.value.fix
    assert 0 == double.tokens.exchanges


async def test_a_file_that_is_not_there_is_named(double: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nonexistent/key.json")
    async with quick("s") as made:
        with pytest.raises(AuthError, match=r"/nonexistent/key\.json cannot be read: No such file"):
            await made.describe(UNKNOWN)


async def test_what_is_refused_for_good_is_asked_for_once(double: Double, scheduler: GCPBatchScheduler) -> None:
    double.tokens.refuses = True
    with pytest.raises(AuthError, match="does not accept the credentials"):
        await scheduler.describe(UNKNOWN)

    assert 1 == double.tokens.exchanges


async def test_a_failure_of_the_exchange_that_passes_is_tried_again(
    double: Double, scheduler: GCPBatchScheduler
) -> None:
    double.tokens.failures = 2

    assert await scheduler.describe(UNKNOWN) is None
    assert 3 == double.tokens.exchanges


async def test_a_user_and_an_impersonated_account_sign_in(double: Double, surroundings: Path) -> None:
    user = double.tokens.user_file(double.url)
    acting = {
        "type": "impersonated_service_account",
        "source_credentials": user,
        "token_uri": user["token_uri"],
        "service_account_impersonation_url": f"{double.url}/accounts/x:generateAccessToken",
    }
    for data in (user, acting):
        (surroundings / "key.json").write_text(json.dumps(data))
        async with quick("s") as made:
            assert await made.describe(UNKNOWN) is None


async def test_a_token_that_is_refused_is_had_anew_once(double: Double, scheduler: GCPBatchScheduler) -> None:
    await scheduler.describe(UNKNOWN)
    double.tokens.good.clear()

    assert await scheduler.describe(UNKNOWN) is None
    assert 2 == double.tokens.exchanges
    double.faults.append(Fault("401", method="GET", times=2))
    with pytest.raises(AuthError, match="gcloud auth application-default login"):
        await scheduler.describe(UNKNOWN)


async def test_a_token_is_used_until_shortly_before_its_end(double: Double) -> None:
    class Counted:
        count = 0

        async def refresh(self, *, timeout: int) -> Any:
            self.count += 1
            answer: Any = type("Answer", (), {"value": double.tokens.mint(), "expires_in": 3600})
            return answer

    given = Counted()
    async with quick("s", client=given) as made:
        for _ in range(5):
            await made.describe(UNKNOWN)

    assert 1 == given.count


class Awaited:
    """Credentials of google.auth.aio, as far as they are looked at."""

    valid = True

    async def refresh(self, request: object) -> None: ...


@pytest.mark.parametrize("given", ["client", object(), MagicMock(), AsyncMock(), Awaited()])
def test_what_is_no_client_is_refused_with_what_fits(given: object) -> None:
    with pytest.raises(
        ConfigError, match=r"pass a gcloud\.aio\.auth\.Token, a BatchServiceClient, or credentials"
    ) as caught:
        create_scheduler("s", given)

    assert f"client must have Google credentials, got {type(given).__name__}" == caught.value.what


async def test_a_refused_token_of_given_credentials_is_had_anew(double: Double) -> None:
    class GCPCredentials:
        """Those of google-auth, as far as they are looked at: they believe in a token until its end."""

        valid, expiry, count = True, None, 0

        def __init__(self) -> None:
            self.token = "of yesterday, and revoked"

        def refresh(self, request: object) -> None:
            self.count += 1
            self.token = double.tokens.mint()

    given = GCPCredentials()
    async with quick("s", client=given) as made:
        for _ in range(5):
            assert await made.describe(UNKNOWN) is None

    assert 1 == given.count


async def test_the_quota_project_is_sent(double: Double, surroundings: Path) -> None:
    (surroundings / "key.json").write_text(json.dumps(double.tokens.user_file(double.url)))
    async with quick("s") as one, quick("s", quota_project="billed") as other:
        await one.describe(UNKNOWN)
        await other.describe(UNKNOWN)

    assert [PROJECT, "billed"] == [each["x-goog-user-project"] for each in double.headers]


async def test_the_project_is_found_or_asked_for(
    double: Double, surroundings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = AppDef("app", [played()])
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT")
    async with quick("s") as by_file:
        assert f"{PROJECT}:us-central1:app-" in (await by_file.submit_dryrun(app, {})).app_id
    user = double.tokens.user_file(double.url)
    del user["quota_project_id"]
    (surroundings / "key.json").write_text(json.dumps(user))
    async with quick("s") as unknown:
        with pytest.raises(ConfigError, match="set the run option project, or GOOGLE_CLOUD_PROJECT"):
            await unknown.submit_dryrun(app, {})
    folder = surroundings / "gcloud/configurations"
    folder.mkdir(parents=True)
    (folder / "config_default").write_text("[core]\nproject = of-gcloud\n")
    async with quick("s") as by_gcloud:
        assert "of-gcloud:us-central1:app-" in (await by_gcloud.submit_dryrun(app, {})).app_id


@pytest.mark.parametrize("kind", ["503", "reset", "429"])
async def test_what_passes_is_tried_again(double: Double, scheduler: GCPBatchScheduler, kind: str) -> None:
    double.faults.append(Fault(kind, method="GET", times=2))

    assert await scheduler.describe(UNKNOWN) is None


async def test_a_body_that_stops_half_way_is_asked_for_again(double: Double) -> None:
    async with quick("s", request_timeout=0.5) as made:
        app_id = await made.submit(AppDef("app", [played(["sleep", 60])]), {})
        double.faults.append(Fault("stall", method="GET", times=2))
        found = await made.describe(app_id)

    assert found is not None
    assert app_id == found.app_id


async def test_a_log_whose_page_stops_half_way_is_whole(double: Double) -> None:
    lines = [f"line {number}" for number in range(50)]
    async with quick("s", request_timeout=0.5) as made, asyncio.timeout(60):
        app_id = await made.submit(AppDef("app", [played(*(["say", line] for line in lines))]), {})
        double.faults.append(Fault("stall", path="entries:list", times=2))
        found = [line.text async for line in made.log_iter(app_id, should_tail=True)]

    assert lines == found


async def test_a_service_that_is_not_there_is_told(double: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    async with quick("s", endpoint_url="http://127.0.0.1:9", retry_for=0.2) as made:
        with pytest.raises(UnavailableError, match=r"did not answer"):
            await made.describe(UNKNOWN)


async def test_what_was_tried_again_to_the_end_is_told(double: Double) -> None:
    double.faults.append(Fault("503", method="GET", times=-1))
    async with VirtualClock() as clock, quick("s", clock=clock, retry_for=20) as made:
        with pytest.raises(UnavailableError, match=r"describe took more than 20 s; the last try .*503") as told:
            await made.describe(UNKNOWN)

    assert isinstance(told.value.__cause__, SchedulerError)


async def test_what_is_not_allowed_names_the_permission(double: Double, scheduler: GCPBatchScheduler) -> None:
    with pytest.raises(PermissionDeniedError, match=r"batch\.jobs\.get"):
        await scheduler.describe("another:us-central1:app-x1")


async def test_a_client_that_is_closed_while_it_opens_opens_nothing(double: Double) -> None:
    async with quick("s") as made:
        with held_import("aiohttp") as begun:
            call = asyncio.create_task(made.describe(UNKNOWN))
            await eventually(begun.is_set)
            await made._client.close()
        with pytest.raises(ClosedError):
            await call

        assert made._client._session is None


async def test_credentials_are_closed_with_their_scheduler(double: Double) -> None:
    made = quick("s")
    await made.describe(UNKNOWN)
    await made.close()

    assert "closed" in repr(made._client)
    assert isinstance(made._credentials, GCPCredentials)
