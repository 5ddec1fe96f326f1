"""The fake refuses what a real API server refuses, in its words, and its controllers do what the real ones do."""

from __future__ import annotations

import asyncio
import fcntl
import io
import json
import os
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from tests.kubernetes._logs import until
from tests.kubernetes_fake import FakeCluster
from tests.kubernetes_fake.lists import is_set
from tests.kubernetes_fake.processes import has_more
from tests.kubernetes_fake.server import Server

pytestmark = pytest.mark.service("kubernetes-fake")

VCJOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"

Reply = tuple[int, Any]


class Api:
    """Plain requests, as no client of ours would make them."""

    def __init__(self, fake: FakeCluster, session: aiohttp.ClientSession) -> None:
        self._fake, self._session = fake, session

    async def __call__(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str = "admin-token",
        accept: str = "application/json",
        content_type: str = "application/json",
    ) -> Reply:
        headers = {"Accept": accept, "Content-Type": content_type}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        data = None if body is None else io.BytesIO(json.dumps(body).encode())
        async with self._session.request(method, self._fake.url + path, data=data, headers=headers) as answer:
            text = await answer.text()
            if answer.content_type != "application/json" or "\n" in text.strip():
                return answer.status, text
            return answer.status, json.loads(text)


@pytest.fixture
async def api(fake: FakeCluster) -> AsyncIterator[Api]:
    async with aiohttp.ClientSession() as session:
        yield Api(fake, session)


def template(script: str) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "command": ["sh", "-c", script]}
    return {"spec": {"restartPolicy": "Never", "containers": [container]}}


def volcano_job(name: str, *tasks: tuple[str, str, int], **spec: Any) -> dict[str, Any]:
    made = [{"name": task, "replicas": replicas, "template": template(script)} for task, script, replicas in tasks]
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"tasks": made, **spec},
    }


def indexed_job(name: str, script: str, count: int, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completionMode": "Indexed",
            "completions": count,
            "parallelism": count,
            "template": template(script),
            **spec,
        },
    }


@pytest.mark.parametrize(
    ("job", "code", "message"),
    [
        (
            volcano_job("a", ("t", "true", 1), queue="nosuch"),
            400,
            'admission webhook "validatejob.volcano.sh" denied the request: unable to find job queue: '
            'queue.scheduling.volcano.sh "nosuch" not found;',
        ),
        (volcano_job("a", ("t", "true", 1), minAvailable=2), 400, "should not be greater than total replicas in tasks"),
        (volcano_job("a", ("t", "true", 1), ("t", "true", 1)), 400, "duplicated task name t"),
        (volcano_job("a" * 60, ("task", "true", 1)), 400, "name part must be no more"),
        (volcano_job("a", ("t", "true", 1), queue="root"), 400, "can not submit job to root queue"),
        (volcano_job("a", ("t", "true", 1), plugins={"foo": []}), 400, "unable to find job plugin: foo"),
        (volcano_job("a", ("Task", "true", 1)), 422, "spec.tasks[0].name"),
        (volcano_job("a"), 422, "spec.tasks"),
        (volcano_job("a", ("t", "true", 1), policies=[{"event": "PodDied", "action": "AbortJob"}]), 422, "event"),
        (volcano_job("A_b", ("t", "true", 1)), 422, "a lowercase RFC 1123 subdomain"),
        (volcano_job("a", ("t", "x" * 1_600_000, 1)), 500, "etcdserver: request is too large"),
        (volcano_job("a", ("t", "x" * 2_200_000, 1)), 500, "trying to send message larger than max"),
    ],
)
async def test_a_volcano_job_that_is_refused(api: Api, job: dict[str, Any], code: int, message: str) -> None:
    found, body = await api("POST", VCJOBS, job)

    assert (code, True) == (found, message in body["message"])
    assert (code != 422) == ("reason" not in body)
    assert 404 == (await api("GET", f"{VCJOBS}/{job['metadata']['name']}"))[0]


async def test_the_webhook_fills_in_what_a_zero_cannot_ask_for(api: Api) -> None:
    job = volcano_job("a", ("t", "true", 2), maxRetry=0, minAvailable=0)
    found, dry = await api("POST", f"{VCJOBS}?dryRun=All", job)
    assert (201, 404) == (found, (await api("GET", f"{VCJOBS}/a"))[0])

    spec = (await api("POST", VCJOBS, job))[1]["spec"]
    assert dry["spec"] == spec
    assert (3, 2, "default", "volcano") == tuple(
        spec[key] for key in ("maxRetry", "minAvailable", "queue", "schedulerName")
    )
    assert (3, 2) == (spec["tasks"][0]["maxRetry"], spec["tasks"][0]["minAvailable"])
    assert "AlreadyExists" == (await api("POST", VCJOBS, job))[1]["reason"]


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (indexed_job("a.b", "true", 1), "will not able to create pod with invalid DNS label: a.b-0"),
        (indexed_job("a", "true", 200_000), "must be less than or equal to 100000"),
        (
            {**indexed_job("a", "true", 1), "spec": {"completionMode": "Indexed", "template": template("true")}},
            "completions",
        ),
    ],
)
async def test_a_job_that_is_refused(api: Api, job: dict[str, Any], message: str) -> None:
    found, body = await api("POST", JOBS, job)

    assert (422, True) == (found, message in body["message"])


async def test_unknown_fields_are_dropped_or_refused(api: Api) -> None:
    job = indexed_job("a", "true", 1, foo=1)
    found, body = await api("POST", f"{JOBS}?fieldValidation=Strict", job)
    assert (400, True) == (found, 'strict decoding error: unknown field "spec.foo"' in body["message"])
    found, body = await api("POST", JOBS, job)
    assert (201, False) == (found, "foo" in body["spec"])


async def test_rights_are_told_in_the_servers_words(api: Api) -> None:
    secrets = "/api/v1/namespaces/default/secrets"
    found, body = await api("GET", secrets, token="alice-token")
    assert (403, 'secrets is forbidden: User "alice" cannot list resource "secrets" in API group "" in the namespace '
            '"default"') == (found, body["message"])  # fmt: skip
    assert 401 == (await api("GET", secrets, token="stale"))[0]
    assert "system:anonymous" in (await api("GET", secrets, token=""))[1]["message"]
    assert 200 == (await api("GET", "/version", token=""))[0]
    workloads = "/apis/kueue.x-k8s.io/v1beta1/namespaces/default/workloads"
    assert (403, (404, "404 page not found\n")) == (
        (await api("GET", workloads, token="alice-token"))[0],
        await api("GET", workloads),
    )


async def test_requests_of_a_wrong_form_are_refused(api: Api) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, **template("true")}
    assert 415 == (await api("POST", PODS, pod, content_type="text/plain"))[0]
    assert 405 == (await api("POST", f"{PODS}/p", pod))[0]
    assert 400 == (await api("POST", JOBS, pod))[0]
    assert 406 == (await api("GET", PODS, accept="text/html"))[0]
    assert 400 == (await api("GET", f"{PODS}?fieldSelector=spec.nothing=1"))[0]
    assert 400 == (await api("GET", f"{PODS}?labelSelector=a=%3F"))[0]
    assert 400 == (await api("GET", f"{PODS}?limit=x"))[0]


@pytest.mark.parametrize(
    ("query", "told"),
    [({}, False), *(({"follow": each}, each not in ("0", "False")) for each in ("", "0", "1", "True", "False"))],
)
def test_what_is_true_is_said_in_any_case(query: dict[str, str], told: bool) -> None:
    assert told is is_set(query, "follow")


async def test_pages_of_a_list_expire(fake: FakeCluster, api: Api) -> None:
    for number in range(5):
        fake.create("services", f"s{number}")
    path = "/api/v1/namespaces/default/services"
    _, first = await api("GET", f"{path}?limit=2")
    assert (["s0", "s1"], 3) == (
        [item["metadata"]["name"] for item in first["items"]], first["metadata"]["remainingItemCount"]
    )  # fmt: skip
    token = first["metadata"]["continue"]
    _, second = await api("GET", f"{path}?limit=2&continue={token}")
    assert ["s2", "s3"] == [item["metadata"]["name"] for item in second["items"]]
    fake.run(fake.store.compact)
    found, expired = await api("GET", f"{path}?limit=2&continue={token}")
    assert (410, "Expired") == (found, expired["reason"])
    _, rest = await api("GET", f"{path}?continue={expired['metadata']['continue']}")
    assert ["s2", "s3", "s4"] == [item["metadata"]["name"] for item in rest["items"]]
    assert 400 == (await api("GET", f"{path}?continue=nonsense"))[0]
    assert 504 == (await api("GET", f"{path}?resourceVersion=999999"))[0]


async def test_a_table_has_names_and_columns(fake: FakeCluster, api: Api) -> None:
    await api("POST", VCJOBS, volcano_job("a", ("t", "sleep 100", 1)))
    accept = "application/json;as=Table;g=meta.k8s.io;v=v1"
    _, table = await api("GET", f"{VCJOBS}?includeObject=None", accept=accept)

    assert ["Name", "STATUS", "minAvailable", "RUNNINGS", "AGE", "QUEUE"] == [
        column["name"] for column in table["columnDefinitions"]
    ]
    assert [["cells"]] == [list(row) for row in table["rows"]]
    assert "a" == table["rows"][0]["cells"][0]


async def test_what_a_watch_shows_of_a_selection(fake: FakeCluster, api: Api) -> None:
    service = fake.create("services", "s", metadata={"labels": {"a": "1"}})
    version = service["metadata"]["resourceVersion"]
    fake.run(lambda: fake.store.update("services", service, lambda obj: obj["metadata"].update(labels={"a": "2"})))
    path = f"/api/v1/namespaces/default/services?watch=true&timeoutSeconds=1&resourceVersion={version}"

    async def kinds(more: str) -> list[str]:
        _, text = await api("GET", path + more)
        lines = text.strip().splitlines() if isinstance(text, str) else [json.dumps(text)]
        return [json.loads(line)["type"] for line in lines]

    assert [["DELETED"], ["ADDED"], ["MODIFIED"]] == await asyncio.gather(
        kinds("&labelSelector=a=1"), kinds("&labelSelector=a=2"), kinds("")
    )


async def test_deleting_a_job_orphans_its_pods_unless_it_is_told_otherwise(fake: FakeCluster, api: Api) -> None:
    for name, policy in (("orphans", ""), ("none", "?propagationPolicy=Background")):
        await api("POST", JOBS, indexed_job(name, "sleep 100", 1))
        await until(
            fake, lambda name=name: [p for p in fake.store.list("pods") if p["metadata"]["name"].startswith(name)]
        )
        assert 200 == (await api("DELETE", f"{JOBS}/{name}{policy}"))[0]
    await until(fake, lambda: 1 == len(fake.store.list("pods")))

    left = fake.run(lambda: fake.store.list("pods"))
    assert ["orphans"] == [pod["metadata"]["labels"]["job-name"] for pod in left]
    assert "ownerReferences" not in left[0]["metadata"]


async def phases(fake: FakeCluster, api: Api, name: str, end: str) -> dict[str, Any]:
    def is_over() -> bool:
        job = fake.store.find("vcjobs", "default", name)
        return job is not None and job.get("status", {}).get("state", {}).get("phase") == end

    await until(fake, is_over)
    status: dict[str, Any] = (await api("GET", f"{VCJOBS}/{name}"))[1]["status"]
    return status


@pytest.mark.parametrize(("retries", "attempts"), [(1, 1), (3, 3)])
async def test_volcano_allows_one_restart_less_than_max_retry(
    fake: FakeCluster, api: Api, retries: int, attempts: int
) -> None:
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    await api("POST", VCJOBS, volcano_job("a", ("t", "exit 3", 1), maxRetry=retries, policies=policies))
    status = await phases(fake, api, "a", "Failed")

    assert retries == status["retryCount"]
    pod = (await api("GET", f"{PODS}/a-t-0"))[1]
    assert str(attempts - 1) == pod["metadata"]["annotations"]["volcano.sh/job-version"]


async def test_volcano_wipes_the_status_of_a_finished_job(fake: FakeCluster, api: Api) -> None:
    await api("POST", VCJOBS, volcano_job("a", ("t", "true", 2), plugins={"svc": [], "env": []}))
    await phases(fake, api, "a", "Completed")
    await until(fake, lambda: not fake.store.list("podgroups"))

    status = (await api("GET", f"{VCJOBS}/a"))[1]["status"]
    assert {"taskStatusCount", "succeeded", "failed"}.isdisjoint(status)
    assert 2 == len((await api("GET", PODS))[1]["items"])
    assert [] == fake.run(lambda: fake.store.list("services") + fake.store.list("configmaps"))


async def test_without_room_for_the_gang_there_are_no_pods_only_events(fake: FakeCluster, api: Api) -> None:
    job = volcano_job("a", ("t", "true", 2))
    job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "900"}}
    await api("POST", VCJOBS, job)
    await until(fake, lambda: 2 <= len(fake.store.list("events")))

    assert [] == (await api("GET", PODS))[1]["items"]
    messages = [event["message"] for event in (await api("GET", "/api/v1/namespaces/default/events"))[1]["items"]]
    assert "resource in cluster is overused: overused cpu" in messages


@pytest.mark.parametrize(
    ("spec", "kind", "reason"),
    [
        ({"backoffLimit": 0}, "Failed", "BackoffLimitExceeded"),
        ({"backoffLimitPerIndex": 0}, "Failed", "FailedIndexes"),
        (
            {
                "backoffLimit": 3,
                "podFailurePolicy": {
                    "rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}]
                },
            },
            "Failed",
            "PodFailurePolicy",
        ),
        ({"successPolicy": {"rules": [{"succeededIndexes": "0"}]}, "backoffLimit": 9}, "Complete", "SuccessPolicy"),
    ],
)
async def test_a_job_ends_for_a_reason(
    fake: FakeCluster, api: Api, spec: dict[str, Any], kind: str, reason: str
) -> None:
    await api("POST", JOBS, indexed_job("a", '[ "$JOB_COMPLETION_INDEX" = 0 ] || exit 3', 2, **spec))

    def condition() -> dict[str, Any] | None:
        found = fake.store.get("jobs", "default", "a").get("status", {}).get("conditions", ())
        return next((each for each in found if each["type"] == kind), None)

    await until(fake, condition)
    told = fake.run(condition)
    assert told is not None
    assert reason == told["reason"]


async def test_a_suspended_job_loses_its_pods_and_goes_on_later(fake: FakeCluster, api: Api) -> None:
    await api("POST", JOBS, indexed_job("a", "sleep 100", 1))
    await until(fake, lambda: fake.store.list("pods"))
    first = fake.run(lambda: fake.store.list("pods"))[0]["metadata"]["name"]
    await api("PATCH", f"{JOBS}/a", {"spec": {"suspend": True}}, content_type=MERGE)
    await until(fake, lambda: not fake.store.list("pods"))
    await api("PATCH", f"{JOBS}/a", {"spec": {"suspend": False}}, content_type=MERGE)
    await until(fake, lambda: fake.store.list("pods"))

    assert first != fake.run(lambda: fake.store.list("pods"))[0]["metadata"]["name"]


async def test_a_pod_that_is_gone_before_its_first_process_starts_none(fake: FakeCluster, api: Api) -> None:
    fake.run(fake.kubelet.creates.clear)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, **template("sleep 1000")}
    assert 201 == (await api("POST", PODS, pod))[0]
    (living,) = fake.kubelet.pods.values()
    await until(fake, lambda: living.placed)
    await api("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0})
    await until(fake, lambda: living.gone)

    fake.run(fake.kubelet.creates.set)
    await until(fake, lambda: living.task.done() or fake.kubelet.processes)

    assert not fake.kubelet.processes


def test_a_fake_that_cannot_begin_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(_: object) -> None:
        raise ModuleNotFoundError("No module named 'cryptography'")

    monkeypatch.setattr(Server, "start", broken)

    with pytest.raises(ModuleNotFoundError, match="cryptography"), FakeCluster():
        pass


@pytest.mark.usefixtures("many_files")
def test_processes_are_read_to_their_end_whatever_descriptors_they_have() -> None:
    """select() takes none from 1024 on."""
    reading, writing = os.pipe()
    high = fcntl.fcntl(reading, fcntl.F_DUPFD, 1024)
    try:
        os.write(writing, b"x")
        assert has_more(high)
        os.read(high, 1)
        assert not has_more(high)
    finally:
        for descriptor in (reading, writing, high):
            os.close(descriptor)
