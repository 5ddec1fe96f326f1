"""Credentials: those of the machine, those that a caller gives, and files that hold anything."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult
from google.auth.credentials import CredentialsWithQuotaProject
from google.cloud import batch_v1
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from typing_extensions import override

from asyncsched.clock import Clock
from asyncsched.errors import AuthError, ConfigError, UnavailableError
from asyncsched.schedulers.gcp_batch.client_credentials import GCPCredentials
from asyncsched.specs import AppDef
from asyncsched.testing import VirtualClock
from tests.gcp_batch.conftest import played, quick
from tests.gcp_double.server import PROJECT, Double

UNKNOWN = f"{PROJECT}:us-central1:nosuchapp-x1"
APP = AppDef("app", [played()])


@pytest.fixture
def on_a_vm(double: Double, monkeypatch: pytest.MonkeyPatch) -> Double:
    """A machine without a file, whose metadata server is the double."""
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    monkeypatch.setenv("GCE_METADATA_HOST", double.url.removeprefix("http://"))
    return double


async def test_a_metadata_server_that_fails_for_a_moment_is_asked_again(on_a_vm: Double) -> None:
    on_a_vm.tokens.cuts = 7  # more than the tries of one exchange
    async with VirtualClock() as clock, quick("s", clock=clock) as made:
        assert await made.describe(UNKNOWN) is None
        await clock.sleep(3600)
        on_a_vm.tokens.cuts = 7
        assert await made.describe(UNKNOWN) is None

    assert 16 == on_a_vm.tokens.exchanges


async def test_a_metadata_server_that_stays_away_is_a_failure_that_passes(
    on_a_vm: Double, offline: aiohttp.ClientSession
) -> None:
    async with VirtualClock() as clock:
        credentials = GCPCredentials(clock=clock)
        await credentials.access(offline)
        await clock.sleep(3600)
        on_a_vm.tokens.cuts = -1
        with pytest.raises(UnavailableError, match=r"cannot get a token .* the metadata server") as caught:
            await credentials.access(offline)

    assert caught.value.retryable


class Nowhere(AbstractResolver):
    """Knows no names but those of this machine."""

    @override
    async def resolve(self, host: str, port: int = 0, family: Any = 0) -> list[ResolveResult]:
        raise OSError(f"{host} is not known")

    @override
    async def close(self) -> None:
        pass


@pytest.fixture
async def offline() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(resolver=Nowhere())) as session:
        yield session


async def test_a_machine_without_file_and_metadata_server_has_no_credentials(
    double: Double, offline: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    with pytest.raises(AuthError, match="no Google credentials found: there is no credentials file; run gcloud auth"):
        await GCPCredentials(clock=Clock()).access(offline)


async def test_an_account_that_cannot_be_asked_to_act_as_another_is_not_missing(
    on_a_vm: Double, offline: aiohttp.ClientSession
) -> None:
    async with VirtualClock() as clock:
        with pytest.raises(UnavailableError, match=r"iamcredentials\.googleapis\.com"):
            await GCPCredentials(clock=clock, impersonate="a@b.iam.gserviceaccount.com").access(offline)


# What a caller gives


class Given(CredentialsWithQuotaProject):
    """Credentials of google-auth, with a token that is good."""

    def __init__(self, token: str, quota_project: str | None = None, project: str | None = None) -> None:
        super().__init__()
        self.token, self._quota_project_id, self.project_id = token, quota_project, project

    def refresh(self, request: Any) -> None:
        raise AssertionError("the token is good")


def a_token(double: Double, folder: Path) -> Any:
    from gcloud.aio.auth import Token

    path = folder / "given.json"
    path.write_text(json.dumps({**double.tokens.user_file(double.url), "quota_project_id": "billed"}))
    return Token(service_file=str(path), scopes=["https://www.googleapis.com/auth/cloud-platform"])


def a_client(double: Double) -> batch_v1.BatchServiceClient:
    options = {"api_endpoint": double.url}
    credentials = Given(double.tokens.mint(), "billed")
    return batch_v1.BatchServiceClient(transport="rest", credentials=credentials, client_options=options)


@pytest.mark.parametrize("kind", ["google-auth", "gcloud-aio-auth", "client"])
async def test_the_quota_project_of_what_is_given_is_sent(double: Double, surroundings: Path, kind: str) -> None:
    with ExitStack() as closing:
        given: Any = Given(double.tokens.mint(), "billed")
        if kind == "client":
            given = closing.enter_context(a_client(double))
        elif kind == "gcloud-aio-auth":
            given = a_token(double, surroundings)
        async with quick("s", client=given) as one, quick("s", client=given, quota_project="another") as other:
            await one.describe(UNKNOWN)
            await other.describe(UNKNOWN)
        if kind == "gcloud-aio-auth":
            await given.close()

    assert ["billed", "another"] == [each["x-goog-user-project"] for each in double.headers]


async def test_what_is_given_and_names_no_project_sends_none(double: Double) -> None:
    async with quick("s", client=Given(double.tokens.mint())) as made:
        await made.describe(UNKNOWN)

    assert "x-goog-user-project" not in double.headers[0]


async def test_the_project_of_what_is_given_is_used(double: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT")
    async with quick("s", client=Given(double.tokens.mint(), project="of-the-key")) as made:
        assert (await made.submit_dryrun(APP, {})).app_id.startswith("of-the-key:us-central1:app-")


# Files that hold anything

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["", " ", "a\nb", "é"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)
FIELDS = [
    "type", "project_id", "quota_project_id", "client_email", "private_key", "private_key_id", "token_uri",
    "client_id", "client_secret", "refresh_token", "source_credentials", "service_account_impersonation_url",
    "delegates", "universe_domain", "audience", "subject_token_type", "token_url", "credential_source",
]  # fmt: skip
KINDS = ["service_account", "authorized_user", "external_account", "impersonated_service_account"]


def a_file(kind: str, double: Double) -> dict[str, Any]:
    """Return a file of each kind that can be used."""
    user = double.tokens.user_file(double.url)
    if kind == "service_account":
        return {**double.tokens.key_file(double.url)}
    if kind == "authorized_user":
        return {**user}
    if kind == "impersonated_service_account":
        acts = f"{double.url}/accounts/x:generateAccessToken"
        return {"type": kind, "source_credentials": user, "token_uri": user["token_uri"],
                "service_account_impersonation_url": acts}  # fmt: skip
    source = {"url": f"{double.url}/subject", "format": {"type": "text"}}
    exchange = {"audience": "a", "subject_token_type": "t", "token_url": f"{double.url}/token"}
    return {"type": kind, "credential_source": source, **exchange}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_file_of_each_kind_signs_in(double: Double, surroundings: Path, kind: str) -> None:
    (surroundings / "key.json").write_text(json.dumps({**a_file(kind, double), "quota_project_id": None}))
    async with quick("s") as made:
        assert await made.describe(UNKNOWN) is None


@pytest.fixture(scope="module")
def one_double() -> Iterator[Double]:
    with Double() as made:
        yield made


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(KINDS),
    wrong=st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=3),
    inner=st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=2),
    without=st.sets(st.sampled_from(FIELDS), max_size=1),
)
@example("service_account", {"type": []}, {}, set())
@example("service_account", {"type": {"a": 1}}, {}, set())
@example("service_account", {"token_uri": 7}, {}, set())
@example("authorized_user", {"quota_project_id": "a\nb"}, {}, set())
@example("authorized_user", {"quota_project_id": {"a": 1}}, {}, set())
@example("external_account", {"credential_source": "x"}, {}, set())
@example("impersonated_service_account", {}, {"type": ["authorized_user"]}, set())
def test_any_json_in_a_key_file_is_used_or_an_error_of_ours(
    one_double: Double,
    tmp_path: Path,
    kind: str,
    wrong: dict[str, Any],
    inner: dict[str, Any],
    without: set[str],
) -> None:
    data = a_file(kind, one_double)
    if inner and isinstance(data.get("source_credentials"), dict):
        data["source_credentials"] = {**data["source_credentials"], **inner}
    data = {name: value for name, value in {**data, **wrong}.items() if name not in without}
    if data.get("token_uri") is None:  # else it would be Google's own address
        data["token_uri"] = f"{one_double.url}/token"
    path = tmp_path / "key.json"
    path.write_text(json.dumps(data))

    async def described() -> None:
        addresses = {"endpoint_url": one_double.url, "logging_url": one_double.url}
        async with quick("s", credentials_file=str(path), **addresses) as made:
            assert await made.describe(UNKNOWN) is None

    try:
        asyncio.run(described())
    except AuthError as error:
        told = str(error)
        assert str(path) in told
        assert not re.search(r"\b(TypeError|AttributeError|KeyError|IndexError|unhashable|has no attribute)\b", told)


@pytest.mark.parametrize("content", [b"\xff\xfe{", b"[" * 200_000, b"", b"null", b"7"])
async def test_a_file_that_is_not_an_object_is_named(double: Double, surroundings: Path, content: bytes) -> None:
    (surroundings / "key.json").write_bytes(content)
    async with quick("s") as made:
        with pytest.raises(AuthError, match=r"key\.json"):
            await made.describe(UNKNOWN)


@pytest.mark.parametrize(
    ("kind", "wrong", "told"),
    [
        ("service_account", {"type": ["service_account"]}, r"type must be one of .*, got \['service_account'\]"),
        ("service_account", {"client_email": None}, "client_email must be a non-empty string, got nothing"),
        ("service_account", {"private_key": ["s3cret"]}, "private_key must be a non-empty string, got a list"),
        ("service_account", {"token_uri": "ftp://x"}, "token_uri must be a URL, got 'ftp://x'"),
        ("authorized_user", {"refresh_token": 7}, "refresh_token must be a non-empty string, got a int"),
        ("authorized_user", {"quota_project_id": "a\r\nb: c"}, "quota_project_id must be the name of a project"),
        ("impersonated_service_account", {"source_credentials": []}, "source_credentials.type must be authorized_user"),
        ("external_account", {"credential_source": {"url": 7}}, "credential_source.url must be a string, got 7"),
        ("external_account", {"credential_source": {}}, "must have a url or a file"),
        (
            "external_account",
            {"credential_source": {"environment_id": "aws1", "url": "http://x"}},
            "AWS and programs are not supported",
        ),
    ],
)
async def test_what_is_wrong_in_a_file_is_named_and_no_secret_is_shown(
    double: Double, surroundings: Path, kind: str, wrong: dict[str, Any], told: str
) -> None:
    (surroundings / "key.json").write_text(json.dumps({**a_file(kind, double), **wrong}))
    async with quick("s") as made:
        with pytest.raises(AuthError, match=told) as caught:
            await made.describe(UNKNOWN)

    assert "s3cret" not in str(caught.value)


async def test_a_quota_project_that_no_header_can_hold_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="quota_project must be the name of a project, got 'a b'"):
        quick("s", quota_project="a b")
    monkeypatch.setenv("GOOGLE_CLOUD_QUOTA_PROJECT", "a\nb")
    with pytest.raises(ConfigError, match="GOOGLE_CLOUD_QUOTA_PROJECT"):
        quick("s")
