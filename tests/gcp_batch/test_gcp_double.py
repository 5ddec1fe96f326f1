"""The double, judged by Google's own clients."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from google.api_core import exceptions
from google.auth.credentials import Credentials
from google.cloud import batch_v1
from google.cloud import logging as cloud_logging

from tests.gcp_batch.conftest import quick
from tests.gcp_double.filters import compile_filter
from tests.gcp_double.server import PROJECT, Double
from tests.gcp_double.wire import Refusal

PARENT = f"projects/{PROJECT}/locations/us-central1"


class Given(Credentials):  # type: ignore[misc]
    """Credentials with a token that is good."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self.token = token

    def refresh(self, request: Any) -> None:
        raise AssertionError("the token is good")


@pytest.fixture
def credentials(double: Double) -> Given:
    return Given(double.tokens.mint())


@pytest.fixture
def client(double: Double, credentials: Given) -> Iterator[batch_v1.BatchServiceClient]:
    options = {"api_endpoint": double.url}
    with batch_v1.BatchServiceClient(transport="rest", credentials=credentials, client_options=options) as made:
        yield made


def a_job(*commands: str) -> batch_v1.Job:
    container = batch_v1.Runnable.Container(image_uri="image", commands=list(commands))
    task = batch_v1.TaskSpec(runnables=[batch_v1.Runnable(container=container)])
    return batch_v1.Job(task_groups=[batch_v1.TaskGroup(task_spec=task, task_count=2)])


def test_googles_client_makes_lists_cancels_and_deletes_jobs(client: batch_v1.BatchServiceClient) -> None:
    request_id = str(uuid.uuid4())
    request = {"parent": PARENT, "job_id": "a-job", "job": a_job('[["sleep", 60]]'), "request_id": request_id}
    first, again = client.create_job(request), client.create_job(request)

    assert first.uid == again.uid
    assert first.uid == client.get_job(name=f"{PARENT}/jobs/a-job").uid
    assert ["a-job"] == [each.name.rpartition("/")[2] for each in client.list_jobs(parent=PARENT)]
    with pytest.raises(exceptions.Conflict):
        client.create_job({**request, "request_id": str(uuid.uuid4())})
    with pytest.raises(exceptions.BadRequest):
        client.create_job(parent=PARENT, job_id="A", job=a_job())
    with pytest.raises(exceptions.NotFound):
        client.get_job(name=f"{PARENT}/jobs/another")
    client.transport.operations_client  # noqa: B018 - it is there
    client.cancel_job(name=f"{PARENT}/jobs/a-job")
    client.delete_job(name=f"{PARENT}/jobs/a-job")


def test_googles_client_reads_entries(double: Double, credentials: Given) -> None:
    for number in range(120):
        double.logs.write("u", number % 2, f"line {number}")
    options = {"api_endpoint": double.url}
    client = cloud_logging.Client(project=PROJECT, credentials=credentials, _use_grpc=False, client_options=options)
    found = client.list_entries(filter_='labels.job_uid="u" AND labels.task_id=~"-group0-1(/|$)"', page_size=50)

    assert [f"line {number}" for number in range(1, 120, 2)] == [entry.payload for entry in found]


async def test_a_client_of_googles_lends_its_credentials_and_its_address(
    double: Double, client: batch_v1.BatchServiceClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_BATCH")
    await asyncio.to_thread(client.create_job, parent=PARENT, job_id="a-job", job=a_job())
    async with quick("s", client=client) as made:
        assert await made.exists(f"{PROJECT}:us-central1:a-job")

    assert 0 == double.tokens.exchanges


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('a="x"', True),
        ('a=("y" OR "x") AND b:"el"', True),
        ('NOT a="x" OR b=~"^h.*o$"', True),
        ('(a="x" b="no")', False),
        ('c!="x"', True),
        ('a!~"x"', False),
    ],
)
def test_the_query_language_is_understood(text: str, found: bool) -> None:
    assert found == compile_filter(text)({"a": "x", "b": "hello"})


@pytest.mark.parametrize("text", ["a=", "(a=b", "a=b)", "=b", 'a="', "AND", "timestamp>=yesterday"])
def test_a_query_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Refusal, match="Unparseable"):
        compile_filter(text)


@pytest.mark.parametrize(
    "body",
    [
        {"imageURI": "x"},
        {"taskGroups": [{"task_count": "1"}]},
        {"taskGroups": [{"taskCount": 1}]},
        {"priority": "0"},
        {"taskGroups": [{"taskSpec": {"maxRunDuration": "1m"}}]},
        {"taskGroups": [{"taskSpec": {"runnables": [{"barrier": {}, "script": {"text": "x"}}]}}]},
        {"logsPolicy": {"destination": "NOWHERE"}},
    ],
)
def test_what_is_not_written_as_googles_own_json_is_refused(body: dict[str, Any]) -> None:
    from tests.gcp_double.wire import parse

    with pytest.raises(Refusal):
        parse(batch_v1.Job.pb(batch_v1.Job()), body)
