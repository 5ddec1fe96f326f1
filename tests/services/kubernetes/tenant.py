"""A namespace of the tests' own on a cluster, with a user who has the documented role in it and no other right."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.services.kubernetes.api import Api, ApiError
from tests.services.kubernetes.waiting import until

ROLE = Path(__file__).parents[3] / "docs" / "backends" / "kubernetes-role.yaml"

_PREFIX = "asyncsched-tests-"
_USER = "plain"
_SECONDS_OF_TOKEN = 36_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Tenant:
    """A namespace.

    Attributes:
        namespace: Its name.
        api: The cluster, as its administrator.
        admin: An administrator's kubeconfig, whose context has this namespace.
        user: The plain user's.
    """

    namespace: str
    api: Api
    admin: Path
    user: Path

    def path(self, resource: str, api: str = "/api/v1") -> str:
        """Return the address of a resource in this namespace."""
        return f"{api}/namespaces/{self.namespace}/{resource}"

    def clean(self) -> None:
        """Delete every job, and wait until none of their pods is left."""
        for resource in self._kinds_of_jobs():
            self.api.call("DELETE", f"{resource}?propagationPolicy=Background")
        pods = self.path("pods")
        if self.api.get(pods)["items"]:
            self.api.call("DELETE", f"{pods}?gracePeriodSeconds=0")
        _until(lambda: not self.api.get(pods)["items"], f"the pods of {self.namespace} to go")

    def _kinds_of_jobs(self) -> Iterator[str]:
        for api in ("/apis/batch/v1", "/apis/batch.volcano.sh/v1alpha1"):
            if self.api.find(api) is not None:
                yield self.path("jobs", api)


@contextmanager
def new_tenant(kubeconfig: Path, directory: Path) -> Iterator[Tenant]:
    """Make a namespace, and remove it with all that is in it."""
    api = Api(kubeconfig)
    namespace = f"{_PREFIX}{secrets.token_hex(3)}"
    tenant = Tenant(
        namespace=namespace,
        api=api,
        admin=directory / f"{namespace}-admin.kubeconfig",
        user=directory / f"{namespace}-user.kubeconfig",
    )
    api.call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    try:
        _admit_user(tenant)
        _write_kubeconfigs(tenant)
        yield tenant
    finally:
        tenant.clean()
        api.call("DELETE", f"/api/v1/namespaces/{namespace}")
        _until(lambda: api.find(f"/api/v1/namespaces/{namespace}") is None, f"namespace {namespace} to go")


def _admit_user(tenant: Tenant) -> None:
    rights = "/apis/rbac.authorization.k8s.io/v1"
    tenant.api.apply(tenant.path("roles/asyncsched", rights), ROLE.read_bytes())
    tenant.api.call("POST", tenant.path("serviceaccounts"), {"metadata": {"name": _USER}})
    tenant.api.call(
        "POST",
        tenant.path("rolebindings", rights),
        {
            "metadata": {"name": "asyncsched"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "asyncsched"},
            "subjects": [{"kind": "ServiceAccount", "name": _USER, "namespace": tenant.namespace}],
        },
    )
    _until(lambda: _has_default_account(tenant), f"the service account of {tenant.namespace}")


def _has_default_account(tenant: Tenant) -> bool:
    return tenant.api.find(tenant.path("serviceaccounts/default")) is not None


def _write_kubeconfigs(tenant: Tenant) -> None:
    config = tenant.api.config()
    context = next(each["context"] for each in config["contexts"] if each["name"] == config["current-context"])
    context["namespace"] = tenant.namespace
    _write(tenant.admin, config)
    user = next(each for each in config["users"] if each["name"] == context["user"])
    user["user"] = {"token": token(tenant)}
    _write(tenant.user, config)


def token(tenant: Tenant, seconds: int = _SECONDS_OF_TOKEN) -> str:
    """Return a token of the plain user; the shortest that the server gives is one of ten minutes."""
    path = tenant.path(f"serviceaccounts/{_USER}/token")
    told = tenant.api.call("POST", path, {"spec": {"expirationSeconds": seconds}})
    return str(told["status"]["token"])


def _write(path: Path, config: Any) -> None:
    path.touch(mode=0o600)
    path.write_text(json.dumps(config, indent=1))


def _until(condition: Callable[[], bool], what: str) -> None:
    until(lambda: _holds(condition), what)


def _holds(condition: Callable[[], bool]) -> bool:
    try:
        return condition()
    except (OSError, ApiError):
        return False  # a server that a test has just started again
