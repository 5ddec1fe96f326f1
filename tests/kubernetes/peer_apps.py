"""Apps that both we and TorchX can render, and how TorchX's side is recorded.

Run by a Python that has torchx 0.7.0 and the package kubernetes, from the root of the repository::

    python tests/kubernetes/peer_apps.py > tests/kubernetes/golden/peer.json
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = ["NAME", "make_apps"]

NAME = "echo-abc"
"""What the jobs are called."""


def make_apps(specs: ModuleType | Any) -> dict[str, Any]:
    """Return apps by name.

    Args:
        specs: ``torchx.specs`` or ``asyncsched.specs``: both have these classes.
    """
    small = specs.Resource(cpu=2, gpu=0, memMB=3000)
    large = specs.Resource(
        cpu=8,
        gpu=4,
        memMB=61000,
        capabilities={"node.kubernetes.io/instance-type": "p3.8xlarge"},
        devices={"x.com/nic": 2},
    )
    documents = specs.AppDef("echo", [specs.Role("echo", image="alpine:latest", entrypoint="echo", args=["hello"])])
    per_replica = specs.AppDef(
        "train",
        [
            specs.Role(
                "trainer",
                image="train:1",
                entrypoint="python",
                args=["-m", "train", "--rank=${replica_id}", "--app=${app_id}"],
                env={"RANK": "${replica_id}", "MODE": "fast"},
                num_replicas=3,
                max_retries=2,
                resource=large,
                port_map={"c10d": 29500},
                mounts=[
                    specs.BindMount("/var/cache", "/cache", read_only=True),
                    specs.VolumeMount("claim", "/data"),
                    specs.DeviceMount("/dev/fuse", "/dev/fuse", "r"),
                ],
            ),
            specs.Role(
                "reader",
                image="read:1",
                entrypoint="cat",
                env={"RANK": "${replica_id}"},
                num_replicas=2,
                resource=small,
            ),
        ],
    )
    return {"documents": documents, "per_replica": per_replica}


def _recorded() -> dict[str, Any]:
    kubernetes, torchx = import_module("kubernetes"), import_module("torchx")
    specs, peer = import_module("torchx.specs"), import_module("torchx.schedulers.kubernetes_scheduler")
    setattr(peer, "make_unique", lambda name: NAME)  # noqa: B010 - a module whose names nobody declares
    jobs = {
        name: peer.sanitize_for_serialization(peer.app_to_resource(app, "test", "robot", "high"))
        for name, app in make_apps(specs).items()
    }
    return {"torchx": torchx.__version__, "kubernetes": kubernetes.__version__, "jobs": jobs}


if __name__ == "__main__":
    json.dump(_recorded(), sys.stdout, indent=1, sort_keys=True)
    print()
