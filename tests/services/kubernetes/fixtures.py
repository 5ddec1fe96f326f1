"""The cluster as fixtures of the whole session.

``KUBECONFIG_FOR_TESTS`` names somebody else's cluster instead of the tests' own: an administrator's kubeconfig, with
a token or a client certificate. There tests work only in namespaces that they make and delete, and what would stop a
part of the cluster is left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests._services import unavailable
from tests.services.kubernetes import cluster as cluster_service
from tests.services.kubernetes.build_cluster import why_not_built
from tests.services.kubernetes.cluster import Cluster
from tests.services.kubernetes.tenant import Tenant, new_tenant

SOMEBODY_ELSES = "KUBECONFIG_FOR_TESTS"
_SERVICE = "kubernetes"


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenCluster:
    """A cluster to test on.

    Attributes:
        kubeconfig: An administrator's.
        own: The tests' own, whose programs can be stopped; None where it is somebody else's.
    """

    kubeconfig: Path
    own: Cluster | None


@pytest.fixture(scope="session")
def cluster() -> Iterator[GivenCluster]:
    """A real cluster with Volcano."""
    given = os.environ.get(SOMEBODY_ELSES)
    if given:
        yield GivenCluster(kubeconfig=Path(given), own=None)
        return
    made = Cluster(_directory_or_skip(), log_size="1Mi")  # so that logs rotate while a test waits
    made.up()
    try:
        yield GivenCluster(kubeconfig=made.kubeconfig, own=made)
    finally:
        made.down()


def _directory_or_skip() -> Path:
    why = cluster_service.why_it_cannot_run()
    if why:
        unavailable(_SERVICE, why)
    why, excused = why_not_built()
    if why:
        unavailable(_SERVICE, why, excused=excused)
    return cluster_service.new_directory()


@pytest.fixture(scope="session")
def own_cluster(cluster: GivenCluster) -> Cluster:
    """The tests' own cluster: for what stops parts of it."""
    if cluster.own is None:
        pytest.skip(f"it would stop a part of the cluster that {SOMEBODY_ELSES} names")
    return cluster.own


@pytest.fixture(scope="session")
def tenant(cluster: GivenCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenant]:
    """A namespace on it, with a plain user."""
    with new_tenant(cluster.kubeconfig, tmp_path_factory.mktemp("tenant")) as made:
        yield made


@pytest.fixture
def second_tenant(cluster: GivenCluster, tmp_path: Path) -> Iterator[Tenant]:
    """A namespace for one test, which may set quotas and the like."""
    with new_tenant(cluster.kubeconfig, tmp_path) as made:
        yield made
