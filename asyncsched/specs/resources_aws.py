"""Named resources that are AWS instance types: ``aws_`` and the type's name."""

from __future__ import annotations

from asyncsched.specs.app import Resource
from asyncsched.specs.devices import EFA_DEVICE, NEURON_DEVICE

__all__ = ["AWS_RESOURCES", "INSTANCE_TYPE"]

INSTANCE_TYPE = "node.kubernetes.io/instance-type"
"""The capability that names the instance type."""

# The host and its agent need some memory, and AWS Batch never places a job that asks for all of it:
# https://docs.aws.amazon.com/batch/latest/userguide/memory-management.html
_USABLE_MEMORY = 0.96
_GIB = int(1024 * _USABLE_MEMORY)


def _instance(name: str, cpu: int, gpu: int, gib: int, *, efa: int = 0, neuron: int = 0) -> Resource:
    devices = {EFA_DEVICE: efa, NEURON_DEVICE: neuron}
    return Resource(
        cpu=cpu,
        gpu=gpu,
        memMB=gib * _GIB,
        capabilities={INSTANCE_TYPE: name},
        devices={device: count for device, count in devices.items() if count},
    )


_INSTANCES = (
    _instance("t3.medium", 2, 0, 4),
    _instance("m5.2xlarge", 8, 0, 32),
    _instance("p3.2xlarge", 8, 1, 61),
    _instance("p3.8xlarge", 32, 4, 244),
    _instance("p3.16xlarge", 64, 8, 488),
    _instance("p3dn.24xlarge", 96, 8, 768, efa=1),
    _instance("p4d.24xlarge", 96, 8, 1152, efa=4),
    _instance("p4de.24xlarge", 96, 8, 1152, efa=4),
    _instance("p5.48xlarge", 192, 8, 2048, efa=32),
    _instance("g4dn.xlarge", 4, 1, 16),
    _instance("g4dn.2xlarge", 8, 1, 32),
    _instance("g4dn.4xlarge", 16, 1, 64),
    _instance("g4dn.8xlarge", 32, 1, 128, efa=1),
    _instance("g4dn.12xlarge", 48, 4, 192, efa=1),
    _instance("g4dn.16xlarge", 64, 1, 256, efa=1),
    _instance("g4dn.metal", 96, 8, 384, efa=1),
    _instance("g5.xlarge", 4, 1, 16),
    _instance("g5.2xlarge", 8, 1, 32),
    _instance("g5.4xlarge", 16, 1, 64),
    _instance("g5.8xlarge", 32, 1, 128, efa=1),
    _instance("g5.12xlarge", 48, 4, 192, efa=1),
    _instance("g5.16xlarge", 64, 1, 256, efa=1),
    _instance("g5.24xlarge", 96, 4, 384, efa=1),
    _instance("g5.48xlarge", 192, 8, 768, efa=1),
    _instance("trn1.2xlarge", 8, 0, 32, neuron=1),
    _instance("trn1.32xlarge", 128, 0, 512, efa=8, neuron=16),
)

AWS_RESOURCES: dict[str, Resource] = {
    f"aws_{resource.capabilities[INSTANCE_TYPE]}": resource for resource in _INSTANCES
}
