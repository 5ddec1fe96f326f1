"""A Kubernetes API server of our own, strict, with a node that runs pods as processes of this machine.

It answers what a cluster cannot be made to answer (410, 429, half lines, cut connections, slow bodies), refuses what a
real one refuses, and has enough of Volcano and of the Job controller that the contract suite passes on it::

    with FakeCluster() as cluster:
        path = cluster.kubeconfig(tmp_path / "config")       # the user of the minimal role; user="admin" may do all
        cluster.run(lambda: cluster.store.list("pods"))      # everything inside belongs to the cluster's own thread
        cluster.fail("list pods", too_many())                # see `Fault` for cuts, slow bodies and lost answers

Its answers are those of a live cluster: Kubernetes 1.34 with Volcano 1.14. An image whose name contains ``missing``
cannot be pulled; the others have all that this machine has.
"""

from __future__ import annotations

from tests.kubernetes_fake.cluster import FakeCluster, Pace
from tests.kubernetes_fake.errors import StatusError, expired, too_many
from tests.kubernetes_fake.faults import Fault

__all__ = ["FakeCluster", "Fault", "Pace", "StatusError", "expired", "too_many"]
