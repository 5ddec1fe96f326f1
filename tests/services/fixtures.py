"""The services as fixtures of the whole session: brought up when the first test asks, gone at its end."""

from __future__ import annotations

import json
import secrets
import shutil
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests._services import unavailable
from tests.services import dockerd as docker_service
from tests.services import registry as registry_service
from tests.services import slurm as slurm_service
from tests.services.dockerd import Dockerd
from tests.services.registry import PASSWORD, USER, Registry
from tests.services.slurm import SlurmCluster


@pytest.fixture(scope="session")
def dockerd() -> Iterator[Dockerd]:
    """A Docker daemon of our own, with the tests' images."""
    why = docker_service.why_it_cannot_run()
    if why:
        unavailable("dockerd", why)
    with docker_service.new_dockerd() as daemon:
        yield daemon


@pytest.fixture(scope="session")
def slurm() -> Iterator[SlurmCluster]:
    """A Slurm cluster of our own, which keeps no accounts."""
    why = slurm_service.why_it_cannot_run()
    if why:
        unavailable("slurm", why)
    with slurm_service.new_cluster() as cluster:
        yield cluster


@pytest.fixture
def own_slurm(request: pytest.FixtureRequest) -> Iterator[SlurmCluster]:
    """A cluster for one test, which may break it; the parameter holds how it differs from others."""
    why = slurm_service.why_it_cannot_run()
    if why:
        unavailable("slurm", why)
    with slurm_service.new_cluster(**getattr(request, "param", {})) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def slurm_with_accounts() -> Iterator[SlurmCluster]:
    """A cluster that keeps accounts, and forgets a job that has ended within seconds."""
    why = slurm_service.why_it_cannot_run(accounts=True)
    if why:
        unavailable("slurmdbd", why)
    with slurm_service.new_cluster(accounts=True, min_job_age=2) as cluster:
        yield cluster


@pytest.fixture
def docker_host(dockerd: Dockerd, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Its address, and an environment in which nothing else is found."""
    monkeypatch.setenv("DOCKER_HOST", dockerd.host)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker-config"))
    for name in ("DOCKER_CONTEXT", "DOCKER_TLS", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"):
        monkeypatch.delenv(name, raising=False)
    return dockerd.host


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A registry of our own, which wants a login."""
    why = registry_service.why_it_cannot_run()
    if why:
        unavailable("registry", why)
    service = Registry(tmp_path_factory.mktemp("registry"))
    service.start()
    try:
        yield service
    finally:
        service.stop()


@pytest.fixture
def logged_in(registry: Registry, docker_host: str, tmp_path: Path) -> Iterator[Path]:
    """A Docker configuration that holds the registry's login; returns its directory."""
    directory = tmp_path / "docker-config"
    directory.mkdir()
    auth = b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    (directory / "config.json").write_text(json.dumps({"auths": {registry.address: {"auth": auth}}}))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace of one file, which no other test has."""
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "file").write_text(secrets.token_hex())
    return root


@pytest.fixture
def repository(registry: Registry) -> str:
    """A name in the registry that no other test uses."""
    return f"{registry.address}/team/{secrets.token_hex(4)}"
