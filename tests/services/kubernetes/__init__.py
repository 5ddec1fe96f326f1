"""A real cluster of one node: Kubernetes and Volcano, built once from Go modules, in namespaces of its own.

The API server, its controllers, Volcano with its webhooks, the kubelet, containerd and CoreDNS are the real ones, and
pods really run.  From a shell, as root, on Debian::

    tests/services/kubernetes/build           # once; see `build_cluster`
    tests/services/kubernetes/up DIR          # prints the kubeconfig of an administrator
    tests/services/kubernetes/down DIR        # ends it and removes the directory

    python -m tests.services.kubernetes status|stop|start DIR [NAME]     # its programs, one by one

**What it needs.**  Linux, root, openssl, iproute2 and util-linux. It was run on cgroup v1 and mixed hierarchies; not
on a machine with cgroup v2 alone. Where namespaces or a bridge in them are refused, its tests are left out with that
reason: a bridge on the machine itself would not help, as each pod has a namespace of its own.

**What the machine sees of it.**  The cluster has its own namespaces of processes, mounts and network. In the machine's
network there is one socket, on a free port of 127.0.0.1, whose connections a small relay hands on to the API server;
bridge, kubelet and DNS have their addresses inside. It sets no sysctl, adds no firewall rule, and writes nowhere but
in its directory. On the machine itself it makes one cgroup in each hierarchy, which `down` removes. Everything ends
with the first process of its namespaces, mounts included: there is nothing to find and to kill one by one.

**Images on the node**, since there is no registry: those of `images`.
"""
