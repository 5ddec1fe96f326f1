"""Whether a pod fits on the node, and what the scheduler says where it does not."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING

from tests.kubernetes_fake.errors import Json

if TYPE_CHECKING:
    from tests.kubernetes_fake.cluster import FakeCluster

_UNITS: dict[str, int | Decimal] = {
    "": 1, "m": Decimal("0.001"), "k": 1000, "M": 10**6, "G": 10**9, "T": 10**12,
    "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40,
}  # fmt: skip
_QUANTITY = re.compile(r"([+-]?[0-9]+(?:\.[0-9]+)?)([a-zA-Z]*)")


def amount(quantity: object) -> Decimal:
    """Return the value of a quantity such as ``100m`` or ``2Gi``."""
    found = _QUANTITY.fullmatch(str(quantity))
    if found is None or found[2] not in _UNITS:
        raise ValueError(f"quantities must match the regular expression: {quantity!r}")
    return Decimal(found[1]) * _UNITS[found[2]]


def requests(spec: Json) -> dict[str, Decimal]:
    """Return what the containers of a pod ask for together."""
    total: dict[str, Decimal] = {}
    for container in spec.get("containers", ()):
        resources = container.get("resources") or {}
        asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        for name, quantity in asked.items():
            total[name] = total.get(name, Decimal(0)) + amount(quantity)
    return total


def misfit(cluster: FakeCluster, pod: Json) -> str | None:
    """Return the scheduler's sentence; None where the pod fits."""
    spec = pod["spec"]
    labels = cluster.node_labels
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
    for name, wanted in requests(spec).items():
        if wanted > free(cluster, name):
            return (
                f"0/1 nodes are available: 1 Insufficient {name}. no new claims to deallocate, preemption: 0/1 nodes "
                "are available: 1 Preemption is not helpful for scheduling."
            )
    return None


def free(cluster: FakeCluster, name: str) -> Decimal:
    """Return what of a resource is not taken by pods that run."""
    there = cluster.capacity.get(name, Decimal(0) if "/" in name else Decimal(10**18))
    for pod in cluster.kubelet.pods.values():
        if pod.placed and pod.ended is None:
            there -= requests(pod.obj["spec"]).get(name, Decimal(0))
    return there
