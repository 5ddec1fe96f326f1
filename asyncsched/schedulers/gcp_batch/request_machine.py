"""Choose the machines of a job: type, GPUs, disks, location and network."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from asyncsched.errors import ConfigError
from asyncsched.schedulers.gcp_batch.options import GCPBatchOpts
from asyncsched.schedulers.gcp_batch.request_task import present
from asyncsched.specs.app import Resource

__all__ = ["allocation"]

Json = dict[str, object]

_WITH_GPUS: Mapping[str, Mapping[int, str]] = {
    "nvidia-tesla-a100": {n: f"a2-highgpu-{n}g" for n in (1, 2, 4, 8)} | {16: "a2-megagpu-16g"},
    "nvidia-a100-80gb": {n: f"a2-ultragpu-{n}g" for n in (1, 2, 4, 8)},
    "nvidia-l4": {1: "g2-standard-4", 2: "g2-standard-24", 4: "g2-standard-48", 8: "g2-standard-96"},
    "nvidia-h100-80gb": {8: "a3-highgpu-8g"},
}
"""Machine types with built-in GPUs, by type and number of the GPUs."""

_ATTACHED: Mapping[str, tuple[int, ...]] = {
    "nvidia-tesla-t4": (1, 2, 4),
    "nvidia-tesla-p4": (1, 2, 4),
    "nvidia-tesla-p100": (1, 2, 4),
    "nvidia-tesla-v100": (1, 2, 4, 8),
}
"""GPUs that Google attaches to N1 machines, with their possible numbers."""

_GPUS_OF = {machine: number for machines in _WITH_GPUS.values() for number, machine in machines.items()}
_BRINGS_GPUS = re.compile(r"(a[2-9]x?|g[2-9])-")
_TAKES_GPUS = re.compile(r"(n1|custom)-")
_HAS_NO_GPUS = re.compile(r"(e2|n2d?|n4[ad]?|c2d?|c3d?|c4[ad]?|h3|h4d|m[1-4]|t2[ad]|x4|z3|f1|g1)-")
"""Families of machine types by their GPUs; any other family is assumed to have built-in GPUs."""


def allocation(resource: Resource, options: GCPBatchOpts) -> Json:
    """Return the allocation policy of a job: the machines for its tasks.

    Raises:
        ConfigError: Google has no machine with these GPUs.
    """
    policy = _machine(resource.gpu, options)
    disk: Json = {"sizeGb": str(options.boot_disk_gb)} if options.boot_disk_gb else {}
    disk |= present(type=options.boot_disk_type, image=options.boot_disk_image)
    policy |= present(bootDisk=disk)
    policy["provisioningModel"] = "SPOT" if options.spot else "STANDARD"
    on_gpus = resource.gpu > 0 or _BRINGS_GPUS.match(options.machine_type or "") is not None
    instance: Json = {"policy": policy} | present(installGpuDrivers=on_gpus and options.install_gpu_drivers)
    network = present(
        network=options.network, subnetwork=options.subnetwork, noExternalIpAddress=options.no_external_ip
    )
    return {"instances": [instance]} | present(
        location=present(allowedLocations=list(options.allowed_locations or ())),
        serviceAccount=present(email=options.service_account),
        network=present(networkInterfaces=[network] if network else []),
        placement={"collocation": "COLLOCATED"} if options.collocated else {},
    )


def _machine(gpus: int, options: GCPBatchOpts) -> Json:
    """Return the machine type, and the GPUs to attach to it."""
    machine, kind = options.machine_type, options.gpu_type
    if gpus <= 0:
        return present(machineType=machine)
    if machine is not None:
        _check_machine(machine, gpus, kind)
    elif kind in _WITH_GPUS:
        _check_number(kind, gpus, _WITH_GPUS[kind])
        return {"machineType": _WITH_GPUS[kind][gpus]}
    _check_number(kind, gpus, _ATTACHED.get(kind, (gpus,)))
    added = [] if kind in _WITH_GPUS else [{"type": kind, "count": str(gpus)}]
    return present(machineType=machine, accelerators=added)


def _check_number(kind: str, gpus: int, numbers: Collection[int]) -> None:
    if gpus not in numbers:
        known = ", ".join(map(str, numbers))
        fix = "use one of these numbers, or another gpu_type"
        raise ConfigError(f"resource.gpu must be one of {known} for gpu_type={kind}, got {gpus}", fix=fix)


def _check_machine(machine: str, gpus: int, kind: str) -> None:
    """Check that a machine can have the requested GPUs.

    The default of gpu_type is not checked for a machine with built-in GPUs: the user may not have chosen it.
    """
    attached = ", ".join(_ATTACHED)
    if _HAS_NO_GPUS.match(machine):
        why = "Google attaches GPUs to N1 machines only; machines of the families A and G have built-in GPUs"
        fix = "use such a machine_type, omit it, or request no GPUs"
    elif _TAKES_GPUS.match(machine) and kind in _WITH_GPUS:
        why, fix = f"Google attaches only {attached} to it", "use one of these as gpu_type, or omit machine_type"
    elif _BRINGS_GPUS.match(machine) and kind in _ATTACHED:
        why, fix = "it has built-in GPUs, and Google attaches no others", "omit gpu_type or machine_type"
    elif _BRINGS_GPUS.match(machine) and _is_of_others(kind, machine):
        why, fix = "its built-in GPUs are of another type", "omit gpu_type or machine_type"
    elif gpus > _GPUS_OF.get(machine, gpus):
        why, fix = f"it has {_GPUS_OF[machine]}", "lower resource.gpu, or omit machine_type"
    else:
        return
    raise ConfigError(f"machine_type={machine} does not fit resource.gpu={gpus} of gpu_type={kind}", why=why, fix=fix)


def _is_of_others(kind: str, machine: str) -> bool:
    if kind == GCPBatchOpts().gpu_type or kind not in _WITH_GPUS:
        return False
    families = {each.partition("-")[0] for each in _WITH_GPUS[kind].values()}
    return machine.partition("-")[0] not in families
