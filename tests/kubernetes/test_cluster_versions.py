"""Custom resources of others on a real cluster, and Volcano's in another version: no app of ours suffers from them.

The definitions of the tests' cluster are changed, of which other tests live: this one is a cluster for these alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from asyncsched.errors import InvalidRequestError
from asyncsched.schedulers.kubernetes import KubernetesScheduler
from asyncsched.specs import AppState
from tests.kubernetes._cluster_apps import OBEYS, app, ended, options
from tests.services.kubernetes.api import Api
from tests.services.kubernetes.build_cluster import why_not_built
from tests.services.kubernetes.cluster import Cluster, new_directory
from tests.services.kubernetes.fixtures import GivenCluster
from tests.services.kubernetes.tenant import Tenant, new_tenant
from tests.services.kubernetes.waiting import until

pytestmark = [
    pytest.mark.service("cluster"),
    pytest.mark.heavy("kubernetes"),
    pytest.mark.one_loop,
    pytest.mark.timeout(900),
]

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
HOOKS = "/apis/admissionregistration.k8s.io/v1"
JOBS, GROUPS = "jobs.batch.volcano.sh", "podgroups.scheduling.volcano.sh"
OURS = "/apis/batch.volcano.sh/v1alpha1"
THEIRS = "/apis/batch.volcano.sh/v1beta1"
ANYTHING = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
STRANGE: list[dict[str, Any]] = [
    {"spec": {"tasks": {"a": {"replicas": 2}}, "queue": 7}, "status": {"state": "Running"}},
    {"spec": "text", "status": [1, 2]},
    {"status": {"state": {"phase": 5}, "succeeded": "many"}},
    {"spec": {"tasks": [{"name": 3, "replicas": "two"}, 4]}, "status": {"state": {"phase": "Gone"}}},
]
"""Jobs as another version might have them; what is stored is read as ours, as it is."""


@pytest.fixture(scope="module")
def altered(cluster: GivenCluster) -> Iterator[Cluster]:
    """A cluster whose definitions may be changed, and which lets jobs of any content in."""
    if cluster.own is None or why_not_built()[0]:
        pytest.skip("it would change the definitions of somebody else's cluster")
    made = Cluster(new_directory())
    made.up()
    try:
        api = Api(made.kubeconfig)
        api.call("DELETE", f"{HOOKS}/mutatingwebhookconfigurations/volcano-admission-service-jobs-mutate")
        api.call("DELETE", f"{HOOKS}/validatingwebhookconfigurations/volcano-admission-service-jobs-validate")
        yield made
    finally:
        made.down()


@pytest.fixture
def place(altered: Cluster, tmp_path: Path) -> Iterator[Tenant]:
    """A namespace there; after the test the definitions are what they were."""
    api = Api(altered.kubeconfig)
    before = [api.get(f"{DEFINITIONS}/{name}")["spec"] for name in (JOBS, GROUPS)]
    with new_tenant(altered.kubeconfig, tmp_path) as made:
        yield made
        for name, spec in zip((JOBS, GROUPS), before, strict=True):
            define(api, name, spec)
        until(lambda: api.answers(f"{OURS}/jobs"), "Volcano's jobs")


@pytest.fixture
async def scheduler(place: Tenant) -> AsyncIterator[KubernetesScheduler]:
    async with KubernetesScheduler("mine", kubeconfig=str(place.user), namespaces=[place.namespace]) as made:
        yield made


def define(api: Api, name: str, spec: dict[str, Any]) -> None:
    """Change a definition; its controller writes it, too."""
    path = f"{DEFINITIONS}/{name}"
    api.call("PATCH", path, {"spec": {"versions": spec["versions"]}}, "application/merge-patch+json")


def serve_another(api: Api, name: str, version: str, *, with_ours: bool) -> None:
    """Serve a resource under another version, which takes anything, beside ours or in its place."""
    spec = api.get(f"{DEFINITIONS}/{name}")["spec"]
    (ours,) = spec["versions"]
    another = {"name": version, "served": True, "storage": False, "schema": ANYTHING}
    define(api, name, {"versions": [{**ours, "served": with_ours}, another]})
    plural, _, group = name.partition(".")
    until(lambda: api.answers(f"/apis/{group}/{version}/{plural}"), f"{name} of {version}")
    until(lambda: with_ours == api.answers(f"/apis/{group}/{ours['name']}/{plural}"), f"{name} of {ours['name']}")


def mine(place: Tenant, **more: Any) -> dict[str, Any]:
    """Return the options for a Job of Kubernetes' own."""
    return options("job", place.namespace, **more)


async def rows(scheduler: KubernetesScheduler) -> dict[str, AppState]:
    return {row.app_id: row.state for row in await scheduler.list()}


async def lives(scheduler: KubernetesScheduler, place: Tenant) -> None:
    """See some apps through their whole lives."""
    ids = [await scheduler.submit(app("true"), mine(place)) for _ in range(3)]
    runs = await scheduler.submit(app(OBEYS), mine(place))
    states = [(await ended(scheduler, app_id)).state for app_id in ids]

    assert [AppState.SUCCEEDED] * 3 == states
    told = await scheduler.describe_many(ids)
    assert {AppState.SUCCEEDED} == {each.state for each in told.values() if each is not None}
    assert dict.fromkeys([*ids, runs], None) == await scheduler.cancel_many([*ids, runs])
    assert AppState.CANCELLED is (await ended(scheduler, runs)).state
    assert {*ids, runs} <= (await rows(scheduler)).keys()
    assert {*ids, runs} == {*await scheduler.prune(timedelta(0))}


async def test_a_list_without_a_column_for_states_tells_them(place: Tenant, scheduler: KubernetesScheduler) -> None:
    spec = place.api.get(f"{DEFINITIONS}/{JOBS}")["spec"]
    del spec["versions"][0]["additionalPrinterColumns"]
    await asyncio.to_thread(define, place.api, JOBS, spec)
    app_id = await scheduler.submit(app("true"), options("volcano", place.namespace))

    assert AppState.SUCCEEDED is (await ended(scheduler, app_id)).state
    assert {app_id: AppState.SUCCEEDED} == await rows(scheduler)


async def test_a_kind_of_somebody_elses_with_the_same_name_is_left_alone(
    place: Tenant, scheduler: KubernetesScheduler
) -> None:
    names = {"plural": "jobs", "singular": "job", "kind": "Job", "shortNames": ["vcjob"]}
    version = {"name": "v1", "served": True, "storage": True, "schema": ANYTHING}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    body = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": spec}
    place.api.call("POST", DEFINITIONS, {**body, "metadata": {"name": "jobs.example.com"}})
    path = place.path("jobs", "/apis/example.com/v1")
    until(lambda: place.api.answers(path), "the foreign kind")
    app_id = await scheduler.submit(app(OBEYS), mine(place))
    labels = {"asyncsched/app": app_id.partition(":")[2]}
    foreign = {"apiVersion": "example.com/v1", "kind": "Job", "status": {"state": "Failed"}}
    for name in ("foreign", labels["asyncsched/app"]):
        place.api.call("POST", path, {**foreign, "metadata": {"name": name, "labels": labels}})
    before = place.api.get(path)["items"]

    assert [app_id] == [*await rows(scheduler)]
    await scheduler.cancel(app_id)
    assert AppState.CANCELLED is (await ended(scheduler, app_id)).state
    await scheduler.delete(app_id)
    await lives(scheduler, place)
    assert before == place.api.get(path)["items"]


async def test_jobs_of_a_second_version_are_listed_as_unknown_and_left_alone(
    place: Tenant, scheduler: KubernetesScheduler
) -> None:
    await asyncio.to_thread(serve_another, place.api, JOBS, "v1beta1", with_ours=True)
    copied = {"asyncsched/roles": "[[", "asyncsched/request": "x"}  # without the latter it is nobody's app
    for name, said, body in [
        *((f"foreign-{number}", copied, body) for number, body in enumerate(STRANGE)),
        ("stranger", {"asyncsched/roles": "[["}, STRANGE[0]),
    ]:
        labels = {"asyncsched/app": name, "asyncsched/role-index": "first"}
        metadata = {"name": name, "labels": labels, "annotations": said}
        job = {"apiVersion": "batch.volcano.sh/v1beta1", "kind": "Job", "metadata": metadata, **body}
        place.api.call("POST", place.path("jobs", THEIRS), job)
    before = place.api.get(place.path("jobs", OURS))["items"]

    try:
        found = await rows(scheduler)
        assert {f"{place.namespace}:foreign-{number}" for number in range(len(STRANGE))} == found.keys()
        assert {*found.values()} <= {AppState.UNKNOWN, AppState.SUBMITTED}
        assert all((await scheduler.describe_many(found)).values())
        await lives(scheduler, place)
        assert before == place.api.get(place.path("jobs", OURS))["items"]
    finally:
        place.api.call("DELETE", place.path("jobs", OURS))  # Volcano itself cannot read them


async def test_pod_groups_of_another_version_keep_nobody_from_watching(
    place: Tenant, scheduler: KubernetesScheduler
) -> None:
    await asyncio.to_thread(serve_another, place.api, GROUPS, "v1", with_ours=False)

    await lives(scheduler, place)


async def test_a_version_of_volcano_that_goes_while_apps_are_watched(
    place: Tenant, scheduler: KubernetesScheduler
) -> None:
    runs = [await scheduler.submit(app(OBEYS), mine(place)) for _ in range(3)]
    assert {*runs} == {*await rows(scheduler)}
    watching = [asyncio.ensure_future(ended(scheduler, app_id)) for app_id in runs]

    await asyncio.to_thread(serve_another, place.api, JOBS, "v1beta1", with_ours=False)

    assert {*runs} == {*await rows(scheduler)}
    await lives(scheduler, place)
    assert dict.fromkeys(runs) == await scheduler.cancel_many(runs)
    assert [AppState.CANCELLED] * 3 == [each.state for each in await asyncio.gather(*watching)]
    with pytest.raises(InvalidRequestError, match="has no Volcano"):
        await scheduler.submit(app("true"), options("volcano", place.namespace))
