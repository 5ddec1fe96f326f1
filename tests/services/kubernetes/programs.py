"""The programs of the cluster: their command lines and their configuration."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tests.services.kubernetes import addresses as at
from tests.services.kubernetes.images import PAUSE

RUNTIME = ("etcd", "containerd", "apiserver", "relay")
"""What runs first: with these alone the API answers and images can be imported."""

KUBERNETES = ("controllers", "scheduler", "kubelet", "coredns")
VOLCANO = ("vc-controllers", "vc-scheduler", "vc-webhooks")


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """One program, as the first process of the cluster starts it."""

    command: list[str]
    environment: dict[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """Where things are on the machine's disk.

    Attributes:
        cache: The build.
        directory: What belongs to this cluster alone.
        cgroup: The name of its cgroup in each hierarchy.
        log_size: At what size the kubelet rotates the log of a container.
        splits_streams: Whether stdout and stderr of a log can be had apart; by default a cluster refuses it.
    """

    cache: Path
    directory: Path
    cgroup: str
    log_size: str
    splits_streams: bool

    @property
    def keys(self) -> Path:
        return self.directory / "keys"

    @property
    def containerd(self) -> Path:
        return self.directory / "containerd"

    @property
    def socket(self) -> Path:
        return self.containerd / "containerd.sock"

    @property
    def debian(self) -> Path:
        return self.cache / "root" / "usr"


def programs(layout: Layout) -> dict[str, Program]:
    """Return every program under its name, and write the files that they read."""
    _write_configuration(layout)
    commands = {**_runtime(layout), **_kubernetes(layout), **_volcano(layout)}
    path = f"{layout.debian}/bin:{layout.debian}/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {name: Program(command=command, environment={"PATH": path}) for name, command in commands.items()}


def _runtime(layout: Layout) -> dict[str, list[str]]:
    binaries, keys = layout.cache / "bin", layout.keys
    return {
        "etcd": [
            f"{binaries}/etcd",
            "--name=tests",
            f"--data-dir={layout.directory}/etcd",
            "--unsafe-no-fsync",
            f"--listen-client-urls={at.ETCD}",
            f"--advertise-client-urls={at.ETCD}",
            f"--listen-peer-urls={at.ETCD_PEERS}",
            f"--initial-advertise-peer-urls={at.ETCD_PEERS}",
            f"--initial-cluster=tests={at.ETCD_PEERS}",
        ],
        "containerd": [f"{layout.debian}/bin/containerd", "--config", f"{layout.containerd}/config.toml"],
        "relay": [f"{binaries}/relay", f"{at.NODE}:{at.API_PORT}"],
        "apiserver": [
            f"{binaries}/kube-apiserver",
            f"--etcd-servers={at.ETCD}",
            "--bind-address=0.0.0.0",
            f"--advertise-address={at.NODE}",
            f"--secure-port={at.API_PORT}",
            f"--service-cluster-ip-range={at.SERVICES}",
            "--endpoint-reconciler-type=none",
            f"--tls-cert-file={keys}/apiserver.crt",
            f"--tls-private-key-file={keys}/apiserver.key",
            f"--client-ca-file={keys}/ca.crt",
            f"--token-auth-file={keys}/tokens.csv",
            f"--kubelet-client-certificate={keys}/apiserver-client.crt",
            f"--kubelet-client-key={keys}/apiserver-client.key",
            f"--kubelet-certificate-authority={keys}/ca.crt",
            "--kubelet-preferred-address-types=InternalIP",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={keys}/ca.key",
            f"--service-account-key-file={keys}/ca.pub",
            "--authorization-mode=Node,RBAC",
            "--allow-privileged=true",
            f"--feature-gates=PodLogsQuerySplitStreams={str(layout.splits_streams).lower()}",
        ],
    }


def _kubernetes(layout: Layout) -> dict[str, list[str]]:
    binaries, keys = layout.cache / "bin", layout.keys
    return {
        "controllers": [
            f"{binaries}/kube-controller-manager",
            *_client(keys, "controllers", "--kubeconfig", "--authentication-kubeconfig", "--authorization-kubeconfig"),
            "--bind-address=127.0.0.1",
            "--leader-elect=false",
            f"--root-ca-file={keys}/ca.crt",
            f"--service-account-private-key-file={keys}/ca.key",
            "--use-service-account-credentials=true",
        ],
        "scheduler": [
            f"{binaries}/kube-scheduler",
            *_client(keys, "scheduler", "--kubeconfig", "--authentication-kubeconfig", "--authorization-kubeconfig"),
            "--bind-address=127.0.0.1",
            "--leader-elect=false",
        ],
        "kubelet": [
            f"{binaries}/kubelet",
            *_client(keys, "kubelet", "--kubeconfig"),
            f"--config={layout.directory}/kubelet.json",
            f"--root-dir={layout.directory}/kubelet",
            f"--cert-dir={layout.directory}/kubelet/pki",
            "--hostname-override=node1",
            f"--node-ip={at.NODE}",
            "--runtime-cgroups=/",
        ],
        "coredns": [f"{binaries}/coredns", "-conf", f"{layout.directory}/Corefile"],
    }


def _volcano(layout: Layout) -> dict[str, list[str]]:
    binaries, keys = layout.cache / "bin", layout.keys
    usual = [*_client(keys, "volcano", "--kubeconfig"), "--logtostderr", "-v=2"]
    return {
        "vc-controllers": [
            f"{binaries}/vc-controller-manager",
            *usual,
            "--leader-elect=false",
            "--listen-address=127.0.0.1:18081",
            "--healthz-address=127.0.0.1:18083",
        ],
        "vc-scheduler": [
            f"{binaries}/vc-scheduler",
            *usual,
            "--leader-elect=false",
            f"--scheduler-conf={layout.directory}/volcano/scheduler.conf",
            "--schedule-period=200ms",
            "--listen-address=127.0.0.1:18082",
            "--healthz-address=127.0.0.1:18084",
        ],
        "vc-webhooks": [
            f"{binaries}/vc-webhook-manager",
            *usual,
            f"--tls-cert-file={keys}/apiserver.crt",
            f"--tls-private-key-file={keys}/apiserver.key",
            f"--ca-cert-file={keys}/ca.crt",
            f"--webhook-url={at.WEBHOOKS}",
            "--listen-address=127.0.0.1",
            f"--port={at.WEBHOOKS_PORT}",
            "--enabled-admission=/jobs/mutate,/jobs/validate,/podgroups/validate,/queues/mutate,/queues/validate",
        ],
    }


def _client(keys: Path, name: str, *flags: str) -> list[str]:
    return [f"{flag}={keys}/{name}.kubeconfig" for flag in flags]


def _write_configuration(layout: Layout) -> None:
    directory = layout.directory
    for name in ("cni", "volcano"):
        (directory / name).mkdir(exist_ok=True)
    layout.containerd.mkdir(exist_ok=True)
    (layout.containerd / "config.toml").write_text(_containerd(layout))
    (directory / "cni" / "10-pods.conflist").write_text(json.dumps(_pod_network(layout)))
    (directory / "kubelet.json").write_text(json.dumps(_kubelet(layout), indent=1))
    (directory / "resolv.conf").touch()
    (directory / "Corefile").write_text(_names(layout))
    # Its scheduler watches the folder.
    (directory / "volcano" / "scheduler.conf").write_text(_VOLCANO_SCHEDULER)


def _containerd(layout: Layout) -> str:
    folder = layout.containerd
    unused = ", ".join(f'"io.containerd.snapshotter.v1.{name}"' for name in ("aufs", "btrfs", "devmapper", "zfs"))
    return f"""
version = 2
root = "{folder}/root"
state = "{folder}/state"
disabled_plugins = [{unused}]

[grpc]
address = "{layout.socket}"

[ttrpc]
address = "{folder}/ttrpc.sock"

[plugins."io.containerd.internal.v1.opt"]
path = "{folder}/opt"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
restrict_oom_score_adj = true
disable_apparmor = true

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{layout.debian}/lib/cni"
conf_dir = "{layout.directory}/cni"

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
"""


def _pod_network(layout: Layout) -> dict[str, object]:
    bridge = {
        "type": "bridge",
        "bridge": "pods",
        "isGateway": False,  # it would switch forwarding on
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "dataDir": f"{layout.directory}/cni/addresses",
            "ranges": [[{"subnet": at.PODS, "rangeStart": at.FIRST_POD, "gateway": at.NODE}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]}


def _kubelet(layout: Layout) -> dict[str, object]:
    keys = layout.keys
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": at.NODE,
        "port": at.KUBELET_PORT,
        "readOnlyPort": 0,
        "healthzPort": 0,
        "containerRuntimeEndpoint": f"unix://{layout.socket}",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{keys}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{keys}/kubelet.crt",
        "tlsPrivateKeyFile": f"{keys}/kubelet.key",
        "featureGates": {"PodLogsQuerySplitStreams": True},
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{layout.cgroup}",
        "enforceNodeAllocatable": [],
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,  # there is no registry to pull from again
        "imageGCLowThresholdPercent": 99,
        "podLogsDir": f"{layout.directory}/pod-logs",
        "containerLogMaxSize": layout.log_size,
        "containerLogMaxFiles": 5,
        "containerLogMonitorInterval": "3s",
        "maxPods": 250,
        "registryPullQPS": 0,
        "serializeImagePulls": False,
        "clusterDomain": "cluster.local",
        "clusterDNS": [at.NODE],
        "resolvConf": f"{layout.directory}/resolv.conf",
        "volumePluginDir": f"{layout.directory}/kubelet/volume-plugins",
        "kubeAPIQPS": 50,
        "kubeAPIBurst": 100,
        "syncFrequency": "10s",
    }


def _names(layout: Layout) -> str:
    return f"""
.:53 {{
    bind {at.NODE}
    errors
    ready 127.0.0.1:8181
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {layout.keys}/volcano.kubeconfig
        pods insecure
        ttl 1
    }}
}}
"""


_VOLCANO_SCHEDULER = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""
