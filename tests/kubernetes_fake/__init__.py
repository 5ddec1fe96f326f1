"""A Kubernetes API server of our own, strict, with a node that runs pods as processes of this machine.

It answers what a cluster cannot be made to answer (410, 429, half lines, cut connections, slow bodies), refuses what a
real one refuses, and has enough of Volcano and of the Job controller that the contract suite passes on it::

    with FakeCluster() as cluster:
        path = cluster.kubeconfig(tmp_path / "config")       # the user of the minimal role; user="admin" may do all
        cluster.run(lambda: cluster.store.list("pods"))      # everything inside belongs to the cluster's own thread

The facts are those of a live cluster (Kubernetes 1.34 with Volcano 1.14); `tests/kubernetes_fake/README.md` lists them.
"""
