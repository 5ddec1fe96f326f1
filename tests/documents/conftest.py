"""What the rows' places need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.aws_batch.conftest import server as server  # noqa: PLC0414 - a fixture
from tests.aws_emulator.server import Server
from tests.gcp_batch.conftest import lead_to
from tests.gcp_batch.conftest import surroundings as surroundings  # noqa: PLC0414 - likewise
from tests.gcp_double.runs import Containers
from tests.gcp_double.server import Double
from tests.kubernetes.conftest import fake as fake  # noqa: PLC0414 - likewise
from tests.kubernetes_fake.cluster import FakeCluster
from tests.local.conftest import home as home  # noqa: PLC0414 - likewise
from tests.services.dockerd import BUSYBOX_IMAGE, Dockerd

# Their asserts speak like those of tests; nothing has imported them yet.
for rows in ("interface", "local", "docker", "aws_batch", "later"):
    pytest.register_assert_rewrite(f"tests.documents.rows_{rows}")


@pytest.fixture(scope="session")
def up(request: pytest.FixtureRequest) -> None:
    """Bring up what a place needs, before anything looks at what a single test leaves behind."""
    if request.param:
        request.getfixturevalue(request.param)


@pytest.fixture
def clean_daemon(docker_host: str, dockerd: Dockerd) -> Iterator[None]:
    """A daemon that has no containers before and after."""
    yield
    dockerd.clean()


@pytest.fixture
def google(dockerd: Dockerd, surroundings: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Double]:
    """A double of Google Cloud whose tasks are containers."""
    with Double(Containers(dockerd.host, BUSYBOX_IMAGE, {})) as made:
        lead_to(made, surroundings, monkeypatch)
        yield made
    assert [] == made.problems


@pytest.fixture
def cluster(fake: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """A cluster whose pods are processes."""
    fake.run(lambda: setattr(fake, "stream_gate", "on"))
    monkeypatch.setenv("KUBECONFIG", str(fake.kubeconfig(tmp_path / "kubeconfig")))
    return fake


@pytest.fixture
def quick_server(server: Server) -> Server:
    """An emulator that does not let a job that is stopped wait."""
    server.cloud.pace.grace = 1.0
    return server
