"""The double, judged by Google's own clients."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from google.api_core import exceptions
from google.auth.credentials import Credentials
from google.cloud import batch_v1
from google.cloud import logging as cloud_logging
from googleapiclient.discovery import build
from googleapiclient.errors import HttpError

from tests._support import eventually_blocking
from tests.gcp_batch.conftest import quick
from tests.gcp_double import discovery
from tests.gcp_double.filters import compile_filter
from tests.gcp_double.server import PROJECT, Double
from tests.gcp_double.wire import Refusal

PARENT = f"projects/{PROJECT}/locations/us-central1"


class Given(Credentials):
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


def test_googles_clients_read_the_tasks_of_a_job(
    double: Double, client: batch_v1.BatchServiceClient, by_discovery: Callable[[str, str], Any]
) -> None:
    group = f"{PARENT}/jobs/a-job/taskGroups/group0"
    client.create_job(parent=PARENT, job_id="a-job", job=a_job('[["wait"]]'))
    eventually_blocking(lambda: {"RUNNING"} == {task.status.state.name for task in client.list_tasks(parent=group)})
    tasks = by_discovery("batch", "v1").projects().locations().jobs().taskGroups().tasks()

    assert [f"{group}/tasks/0", f"{group}/tasks/1"] == [task.name for task in client.list_tasks(parent=group)]
    for number in range(2):
        name = f"{group}/tasks/{number}"
        found, row = client.get_task(name=name), tasks.get(name=name).execute()
        assert (name, "RUNNING") == (found.name, found.status.state.name) == (row["name"], row["status"]["state"])
    with pytest.raises(exceptions.NotFound):
        client.get_task(name=f"{group}/tasks/2")
    with pytest.raises(HttpError, match="not found"):
        tasks.get(name=f"{group}/tasks/x").execute()


def test_googles_client_reads_entries(double: Double, credentials: Given) -> None:
    for number in range(120):
        double.logs.write("u", number % 2, f"line {number}")
    options = {"api_endpoint": double.url}
    client = cloud_logging.Client(project=PROJECT, credentials=credentials, _use_grpc=False, client_options=options)
    found = client.list_entries(filter_='labels.job_uid="u" AND labels.task_id=~"-group0-1(/|$)"', page_size=50)

    assert [f"line {number}" for number in range(1, 120, 2)] == [entry.payload for entry in found]


GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.json"))


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda each: each.stem)
def test_googles_client_submits_the_golden_jobs(
    double: Double, client: batch_v1.BatchServiceClient, golden: Path
) -> None:
    double.jobs.pace.queued = 3600.0  # they are not to run
    job = batch_v1.Job.from_json(golden.read_text())
    made = client.create_job(parent=PARENT, job_id="a-job", job=job)

    assert batch_v1.JobStatus.State.QUEUED == made.status.state
    assert job.task_groups[0].task_spec == made.task_groups[0].task_spec
    assert json.loads(golden.read_text()) == batch_v1.Job.to_dict(
        job, use_integers_for_enums=False, preserving_proto_field_name=False, always_print_fields_with_no_presence=False
    )


@pytest.fixture
def by_discovery(double: Double, credentials: Given) -> Iterator[Callable[[str, str], Any]]:
    """What makes the client of a service from the discovery document that google-api-python-client brings."""
    with ExitStack() as closing:

        def made(service: str, version: str) -> Any:
            options = {"api_endpoint": double.url}
            client = build(service, version, credentials=credentials, client_options=options, static_discovery=True)
            closing.callback(client.close)
            return client

        yield made


def test_the_client_by_discovery_makes_lists_cancels_and_deletes_jobs(by_discovery: Callable[[str, str], Any]) -> None:
    locations = by_discovery("batch", "v1").projects().locations()
    jobs, name = locations.jobs(), f"{PARENT}/jobs/a-job"
    container = {"container": {"imageUri": "image", "commands": ['[["sleep", 60]]']}}
    body = {"taskGroups": [{"taskCount": "2", "taskSpec": {"runnables": [container]}}]}
    asked = {"parent": PARENT, "jobId": "a-job", "requestId": str(uuid.uuid4()), "body": body}
    first, again = jobs.create(**asked).execute(), jobs.create(**asked).execute()

    assert first["uid"] == again["uid"] == jobs.get(name=name).execute()["uid"]
    with pytest.raises(HttpError, match="already exists"):
        jobs.create(**{**asked, "requestId": str(uuid.uuid4())}).execute()
    assert [name] == [each["name"] for each in jobs.list(parent=PARENT, orderBy="create_time desc").execute()["jobs"]]
    assert {"us-central1", "europe-west1"} == {
        each["locationId"] for each in locations.list(name=f"projects/{PROJECT}").execute()["locations"]
    }
    operation = jobs.cancel(name=name, body={"requestId": str(uuid.uuid4())}).execute()
    assert "cancel" == locations.operations().get(name=operation["name"]).execute()["metadata"]["verb"]
    tasks = jobs.taskGroups().tasks().list(parent=f"{name}/taskGroups/group0", pageSize=1).execute()
    assert {*tasks} <= {"tasks", "nextPageToken"}  # none, if it was cancelled before it had any
    jobs.delete(name=name, requestId=str(uuid.uuid4())).execute()


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda each: each.stem)
def test_the_client_by_discovery_submits_the_golden_jobs(
    double: Double, by_discovery: Callable[[str, str], Any], golden: Path
) -> None:
    double.jobs.pace.queued = 3600.0  # they are not to run
    jobs = by_discovery("batch", "v1").projects().locations().jobs()
    job = json.loads(golden.read_text())
    made = jobs.create(parent=PARENT, jobId="a-job", requestId=str(uuid.uuid4()), body=job).execute()

    assert {"state": "QUEUED"}.items() <= made["status"].items()
    assert job["allocationPolicy"] == made["allocationPolicy"]
    assert job["taskGroups"][0]["taskSpec"] == made["taskGroups"][0]["taskSpec"]


def test_the_client_by_discovery_reads_entries_page_by_page(
    double: Double, by_discovery: Callable[[str, str], Any]
) -> None:
    for number in range(120):
        double.logs.write("u", number % 2, f"line {number}")
    entries = by_discovery("logging", "v2").entries()
    body = {"resourceNames": [f"projects/{PROJECT}"], "filter": 'labels.job_uid="u"', "pageSize": 50}
    lines: list[str] = []
    while True:
        page = entries.list(body=body).execute()
        lines += [entry["textPayload"] for entry in page["entries"]]
        if "nextPageToken" not in page:
            break
        body["pageToken"] = page["nextPageToken"]

    assert [f"line {number}" for number in range(120)] == lines


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (("GET", "/v1/projects/p/places", {}, None, {}), "does not exist"),
        (("GET", f"/v1/{PARENT}/jobs", {"order": "x"}, None, {}), "no parameter order"),
        (("GET", f"/v1/{PARENT}/jobs", {}, {"a": 1}, {}), "takes no body"),
        (("POST", f"/v1/{PARENT}/jobs", {}, {"task_groups": []}, {}), "no field task_groups"),
        (("POST", f"/v1/{PARENT}/jobs", {}, {"uid": "x"}, {}), "uid is told only"),
        (("POST", f"/v1/{PARENT}/jobs", {}, {"priority": 3}, {}), "3 is not of the type string"),
        (("POST", f"/v1/{PARENT}/jobs", {}, {"priority": "3.5"}, {}), "not a whole number"),
        (("POST", f"/v1/{PARENT}/jobs", {}, {"logsPolicy": {"destination": "DISK"}}, {}), "none of the enum's"),
        (("GET", f"/v1/{PARENT}/jobs/j", {}, None, {"taskGroups": [{"size": 1}]}), r"\.taskGroups\[\]: .* size"),
        (("POST", "/v2/entries:list", {}, {"pageSize": True}, {}), "True is not of the type integer"),
    ],
)
def test_what_the_discovery_documents_do_not_have_is_found(call: Any, told: str) -> None:
    (found,) = discovery.problems(*call)

    assert re.search(told, found)


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


def test_connections_that_are_made_at_its_end_are_closed() -> None:
    """The guard finds those that are not."""
    for _ in range(20):
        with Double() as double:
            port = urlsplit(double.url).port
            clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(5)]
        for client in clients:
            client.close()
