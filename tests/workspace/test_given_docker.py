"""A Docker client of the caller's tells where its daemon is; a connection of our own goes there."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import aiodocker
import docker
import pytest
from docker.tls import TLSConfig

from asyncsched._dockerd import Daemon, inspect_image
from asyncsched.errors import ConfigError
from asyncsched.schedulers.aws_batch import AWSBatchScheduler
from asyncsched.schedulers.kubernetes import KubernetesScheduler
from asyncsched.workspace.given_docker import accept_docker
from tests.services.dockerd import BUSYBOX_IMAGE, Dockerd


def made(url: str, **more: Any) -> docker.DockerClient:
    return docker.DockerClient(base_url=url, version="1.41", **more)


@pytest.mark.parametrize(
    ("url", "used"),
    [("unix:///run/a.sock", "unix:///run/a.sock"), ("tcp://127.0.0.1:7", "http://127.0.0.1:7")],
)
async def test_where_the_daemon_is(url: str, used: str) -> None:
    client = made(url)
    async with aiodocker.Docker(url) as other:
        for given in (client, client.api, other):
            endpoint = accept_docker(given, "docker_client").endpoint()

            assert (used, "docker_client", None) == (endpoint.url, endpoint.source, endpoint.tls)
    client.close()


@pytest.mark.parametrize("verify", [True, False])
def test_the_certificates_of_a_blocking_client(tmp_path: Path, verify: bool) -> None:
    for name in ("ca.pem", "cert.pem", "key.pem"):
        (tmp_path / name).touch()
    certificates = (str(tmp_path / "cert.pem"), str(tmp_path / "key.pem"))
    tls = TLSConfig(client_cert=certificates, ca_cert=str(tmp_path / "ca.pem"), verify=verify)
    client = made("tcp://127.0.0.1:7", tls=tls)
    endpoint = accept_docker(client, "docker_client").endpoint()
    client.close()

    assert "https://127.0.0.1:7" == endpoint.url
    assert endpoint.tls is not None
    assert (tmp_path / "cert.pem", tmp_path / "key.pem") == (endpoint.tls.certificate, endpoint.tls.key)
    assert verify is endpoint.tls.verify
    assert (tmp_path / "ca.pem" if verify else None) == endpoint.tls.ca


async def test_the_certificates_of_an_awaiting_client() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    async with aiodocker.Docker("tcp://127.0.0.1:7", ssl_context=context) as client:
        endpoint = accept_docker(client, "docker_client").endpoint()

    assert "https://127.0.0.1:7" == endpoint.url
    assert endpoint.tls is not None
    assert context is endpoint.tls.context()


@pytest.mark.parametrize("kind", [AWSBatchScheduler, KubernetesScheduler])
@pytest.mark.parametrize("client", [object(), "unix:///x", MagicMock()])
def test_anything_else_is_refused_with_what_fits(client: object, kind: Callable[..., object]) -> None:
    with pytest.raises(ConfigError, match=r"docker_client is not a Docker client: .*aiodocker\.Docker or a docker\."):
        kind("me", docker_client=client)


@pytest.mark.service
@pytest.mark.parametrize("make", [AWSBatchScheduler, KubernetesScheduler])
@pytest.mark.parametrize("kind", ["docker", "aiodocker"])
async def test_images_are_built_where_the_client_would(
    dockerd: Dockerd, monkeypatch: pytest.MonkeyPatch, kind: str, make: Callable[..., Any]
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    client: Any = docker.DockerClient(base_url=dockerd.host) if kind == "docker" else aiodocker.Docker(dockerd.host)
    scheduler = make("me", docker_client=client)
    async with scheduler._image_daemon() as daemon:
        assert isinstance(daemon, Daemon)
        assert await inspect_image(daemon, BUSYBOX_IMAGE) is not None
    await scheduler.close()
    closed = client.close()
    if kind == "aiodocker":
        await closed
