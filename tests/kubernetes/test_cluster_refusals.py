"""What a real cluster refuses is told in words that help, and leaves nothing behind."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from asyncsched.errors import (
    AsyncSchedError,
    AuthError,
    ConfigError,
    InvalidRequestError,
    PermissionDeniedError,
    UnavailableError,
)
from asyncsched.schedulers.kubernetes import KubernetesScheduler
from asyncsched.specs import AppDef
from asyncsched.specs.run_options import CfgVal
from tests._support import eventually
from tests.kubernetes._cluster_apps import OBEYS, app, options
from tests.services.kubernetes import keys
from tests.services.kubernetes.tenant import Tenant

pytestmark = [pytest.mark.service("cluster"), pytest.mark.one_loop]


def changed(tenant: Tenant, directory: Path, change: Callable[[Any, Any], None]) -> str:
    """Write the plain user's kubeconfig with a change of its cluster and its user; return its path."""
    config = json.loads(tenant.user.read_text())
    current = next(each["context"] for each in config["contexts"] if each["name"] == config["current-context"])
    cluster = next(each["cluster"] for each in config["clusters"] if each["name"] == current["cluster"])
    user = next(each["user"] for each in config["users"] if each["name"] == current["user"])
    change(cluster, user)
    path = directory / "changed.kubeconfig"
    path.write_text(json.dumps(config))
    return str(path)


def wrong_token(cluster: Any, user: Any) -> None:
    user["token"] = user["token"][:-8] + "AAAAAAAA"


def no_token(cluster: Any, user: Any) -> None:
    user.clear()


def nobody_there(cluster: Any, user: Any) -> None:
    cluster["server"] = "https://127.0.0.1:9"


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (wrong_token, AuthError, "does not accept the credentials"),
        (no_token, AuthError, "anonymous"),
        (nobody_there, UnavailableError, "127.0.0.1:9"),
    ],
)
async def test_a_user_or_a_server_that_is_wrong(
    change: Callable[[Any, Any], None], error: type[AsyncSchedError], said: str, tenant: Tenant, tmp_path: Path
) -> None:
    async with KubernetesScheduler("mine", kubeconfig=changed(tenant, tmp_path, change)) as scheduler:
        with pytest.raises(error, match=said):
            await scheduler.submit(app(OBEYS), options("job", tenant.namespace))


async def test_a_certificate_of_another_authority(tenant: Tenant, tmp_path: Path) -> None:
    keys.make(tmp_path / "other")

    def other(cluster: Any, user: Any) -> None:
        cluster.pop("certificate-authority-data", None)
        cluster["certificate-authority"] = str(tmp_path / "other" / "ca.crt")

    async with KubernetesScheduler("mine", kubeconfig=changed(tenant, tmp_path, other)) as scheduler:
        with pytest.raises(AsyncSchedError, match="certificate"):
            await scheduler.submit(app(OBEYS), options("job", tenant.namespace))


async def test_a_user_who_was_removed(second_tenant: Tenant) -> None:
    """A token of a service account is good as long as the account is there."""
    async with KubernetesScheduler(
        "mine", kubeconfig=str(second_tenant.user), namespaces=[second_tenant.namespace]
    ) as scheduler:
        assert [] == list(await scheduler.list())
        second_tenant.api.call("DELETE", second_tenant.path("serviceaccounts/plain"))

        async def is_refused() -> bool:
            try:
                await scheduler.describe(f"{second_tenant.namespace}:nosuchapp-x1")
            except AuthError:
                return True
            return False  # API servers remember for some seconds whom they have let in

        await eventually(is_refused)
        with pytest.raises(AuthError, match="does not accept the credentials"):
            await scheduler.submit(app(OBEYS), options("job", second_tenant.namespace))


async def test_a_context_that_is_not_there_names_those_that_are(tenant: Tenant) -> None:
    async with KubernetesScheduler("mine", kubeconfig=str(tenant.user), context="nosuch") as scheduler:
        with pytest.raises(ConfigError, match="nosuch"):
            await scheduler.submit(app(OBEYS), options("job", tenant.namespace))


@pytest.fixture
async def scheduler(tenant: Tenant) -> AsyncIterator[KubernetesScheduler]:
    async with KubernetesScheduler("mine", kubeconfig=str(tenant.user), namespaces=[tenant.namespace]) as made:
        yield made


def jobs(tenant: Tenant) -> list[str]:
    apis = ("/apis/batch/v1", "/apis/batch.volcano.sh/v1alpha1")
    return [item["metadata"]["name"] for api in apis for item in tenant.api.get(tenant.path("jobs", api))["items"]]


@pytest.mark.parametrize(
    ("wrong", "more", "error", "said"),
    [
        (app(OBEYS), {"queue": "nosuch"}, InvalidRequestError, "nosuch"),
        (app(OBEYS), {"namespace": "kube-system"}, PermissionDeniedError, "kube-system"),
        (app(OBEYS), {"overlay": '{"metadata": {"labels": {"asyncsched/app": "x"}}}'}, ConfigError, "asyncsched/app"),
        (app(OBEYS), {"overlay": '{"spec": {"restartPolicy": "Always"}}'}, ConfigError, "restartPolicy"),
        (app(OBEYS), {"overlay": '{"spec": {"containers": [{"name": "main", "env": null}]}}'}, ConfigError, "env"),
        (app(OBEYS), {"overlay": '{"spec": {"nosuchField": 1}}'}, InvalidRequestError, "nosuchField"),
        (
            app(OBEYS),
            {"overlay": '{"spec": {"nosuchField": 1}}', "kind": "job", "queue": None},
            InvalidRequestError,
            "nosuchField",
        ),
        (app(OBEYS, env={"BIG": "x" * 2_000_000}), {}, ConfigError, "bytes"),
    ],
    ids=["queue", "namespace", "label", "restartPolicy", "env", "field", "field-of-job", "size"],
)
async def test_an_app_that_is_refused_leaves_nothing(
    wrong: AppDef,
    more: dict[str, CfgVal],
    error: type[AsyncSchedError],
    said: str,
    scheduler: KubernetesScheduler,
    tenant: Tenant,
) -> None:
    before = jobs(tenant)
    with pytest.raises(error, match=said):
        await scheduler.submit(wrong, {**options("volcano", tenant.namespace), **more})

    assert before == jobs(tenant)


async def test_volcano_wants_a_queue(scheduler: KubernetesScheduler, tenant: Tenant) -> None:
    cfg = options("volcano", tenant.namespace)
    del cfg["queue"]

    with pytest.raises(ConfigError, match="queue"):
        await scheduler.submit(app(OBEYS), cfg)


async def test_a_dry_run_can_ask_the_webhooks(scheduler: KubernetesScheduler, tenant: Tenant) -> None:
    cfg = options("volcano", tenant.namespace, validate_spec=True)

    await scheduler.submit_dryrun(app(OBEYS), cfg)
    with pytest.raises(InvalidRequestError, match="nosuch"):
        await scheduler.submit_dryrun(app(OBEYS), {**cfg, "queue": "nosuch"})
    assert [] == jobs(tenant)
