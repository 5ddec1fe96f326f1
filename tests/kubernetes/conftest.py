"""What tests of Kubernetes have: a fake cluster, and schedulers and clients on it."""

from __future__ import annotations

import resource
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from asyncsched.clock import Clock
from asyncsched.schedulers.kubernetes import KubernetesScheduler
from asyncsched.schedulers.kubernetes.client import KubeClient
from asyncsched.schedulers.kubernetes.client_config import ConfigSource
from tests.kubernetes_fake import FakeCluster

OnFake = Callable[..., KubernetesScheduler]


@pytest.fixture
def many_files() -> Iterator[None]:
    """Let this process hold 2,048 descriptors; an ordinary user's limit is often 1,024."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(2048, limits[1]), limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.fixture
def fake() -> Iterator[FakeCluster]:
    """A cluster with Volcano, for one test."""
    with FakeCluster() as cluster:
        yield cluster
        assert [] == cluster.faults()


@pytest.fixture
def on_fake(fake: FakeCluster, tmp_path: Path) -> OnFake:
    """Make a scheduler on the fake cluster, as the user of the minimal role; the caller closes it."""
    path = fake.kubeconfig(tmp_path / "kubeconfig")

    def make(session: str = "session", **more: Any) -> KubernetesScheduler:
        return KubernetesScheduler(session, kubeconfig=str(path), **more)

    return make


@pytest.fixture
async def client(fake: FakeCluster, tmp_path: Path) -> AsyncIterator[KubeClient]:
    """A client on the fake cluster, as the user of the minimal role."""
    made = KubeClient(ConfigSource(kubeconfig=str(fake.kubeconfig(tmp_path / "config"))), clock=Clock())
    yield made
    await made.close()


@pytest.fixture
async def scheduler(on_fake: OnFake) -> AsyncIterator[KubernetesScheduler]:
    """A scheduler on that cluster."""
    async with on_fake() as made:
        yield made
