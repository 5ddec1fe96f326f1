"""Access to a real cluster: what a pod has mounted, tokens that are replaced and expire, kinds that are not there."""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from asyncsched.errors import AuthError
from asyncsched.schedulers.kubernetes.client import KubeClient
from asyncsched.schedulers.kubernetes.client_config import ConfigSource
from asyncsched.testing import VirtualClock
from tests._support import eventually
from tests.services.kubernetes.api import Api
from tests.services.kubernetes.cluster import Cluster
from tests.services.kubernetes.tenant import Tenant, token

pytestmark = [pytest.mark.service("cluster"), pytest.mark.one_loop]

LEEWAY = 60
"""Seconds after its end for which the API server takes a token."""


@pytest.fixture
def mounted(tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a pod of the plain user has mounted."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    server = Api(tenant.user).server
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", str(server.hostname))
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.port))
    (cluster,) = (each["cluster"] for each in json.loads(tenant.user.read_text())["clusters"])
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    authority = cluster["certificate-authority-data"]
    (folder / "ca.crt").write_bytes(urlsafe_b64decode(authority.translate({43: 45, 47: 95})))
    (folder / "namespace").write_text(tenant.namespace)
    (folder / "token").write_text(token(tenant))
    return folder


@pytest.fixture
async def client(mounted: Path, clock: VirtualClock) -> AsyncIterator[KubeClient]:
    made = KubeClient(ConfigSource(service_account=mounted), clock=clock)
    yield made
    await made.close()


async def test_in_a_pod_its_service_account_is_used_and_its_token_read_again(
    client: KubeClient, clock: VirtualClock, mounted: Path, tenant: Tenant
) -> None:
    await client.request("GET", tenant.path("pods"))
    assert tenant.namespace == (await client.target()).namespace

    (mounted / "token").write_text("of-nobody")
    await client.request("GET", tenant.path("pods"))  # what is in the file is known
    await clock.sleep(61)
    with pytest.raises(AuthError, match="does not accept the credentials"):
        await client.request("GET", tenant.path("pods"))

    (mounted / "token").write_text(token(tenant))
    await clock.sleep(6)
    await client.request("GET", tenant.path("pods"))


async def test_a_token_that_expires_is_refused_and_the_next_one_is_found(
    client: KubeClient, clock: VirtualClock, mounted: Path, tenant: Tenant, own_cluster: Cluster
) -> None:
    """The shortest that the server gives is one of ten minutes: this one is signed with the cluster's own key."""
    (mounted / "token").write_text(ending_soon(token(tenant), own_cluster))
    await client.request("GET", tenant.path("pods"))

    async def is_refused() -> bool:
        try:
            await client.request("GET", tenant.path("pods"))
        except AuthError as error:
            return "does not accept the credentials" in str(error)
        return False  # API servers remember for some seconds whom they have let in

    await eventually(is_refused)
    (mounted / "token").write_text(token(tenant))
    await clock.sleep(6)
    await client.request("GET", tenant.path("pods"))


def ending_soon(token: str, cluster: Cluster) -> str:
    """Return a token that is good for some seconds more."""
    head, payload, _ = token.split(".")
    now = int(time.time())
    claims: dict[str, Any] = json.loads(urlsafe_b64decode(payload + "=="))
    claims |= {"iat": now - 600, "nbf": now - 600, "exp": now - LEEWAY + 8}
    signed = f"{head}.{_encoded(json.dumps(claims).encode())}"
    key = serialization.load_pem_private_key((cluster.directory / "keys" / "ca.key").read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    parts = decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{signed}.{_encoded(b''.join(part.to_bytes(32, 'big') for part in parts))}"


def _encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


async def test_kinds_that_are_not_there_are_told_by_discovery(client: KubeClient) -> None:
    assert await client.discovery.has("batch.volcano.sh/v1alpha1", "jobs")
    assert await client.discovery.has("batch/v1", "jobs")
    assert not await client.discovery.has("batch.volcano.sh/v9", "jobs")
    assert not await client.discovery.has("nosuch.example.org/v1", "jobs")
    assert not await client.discovery.has("batch/v1", "nosuch")
    assert await client.discovery.has_group("batch.volcano.sh")
    assert not await client.discovery.has_group("nosuch.example.org")
