"""Named devices, which a resource counts, and their device files."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from asyncsched.specs.mounts import DeviceMount

__all__ = ["EFA_DEVICE", "NEURON_DEVICE", "get_device_mounts"]

EFA_DEVICE = "vpc.amazonaws.com/efa"
NEURON_DEVICE = "aws.amazon.com/neurondevice"

_PATHS = {EFA_DEVICE: "/dev/infiniband/uverbs", NEURON_DEVICE: "/dev/neuron"}


def get_device_mounts(devices: Mapping[str, int]) -> list[DeviceMount]:
    """Return the mounts for a resource's ``devices``; an unknown name gives a warning."""
    for name in devices.keys() - _PATHS.keys():
        warnings.warn(f"Could not find named device: {name}", stacklevel=2)
    return [
        DeviceMount(src_path=f"{path}{index}", dst_path=f"{path}{index}")
        for name, path in _PATHS.items()
        for index in range(devices.get(name, 0))
    ]
