"""The machines of a job: their type, their GPUs, their disks, where they are and what network they have."""

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
"""Machine types that bring their GPUs, by the GPU's type and their number."""

_ATTACHED: Mapping[str, tuple[int, ...]] = {
    "nvidia-tesla-t4": (1, 2, 4),
    "nvidia-tesla-p4": (1, 2, 4),
    "nvidia-tesla-p100": (1, 2, 4),
    "nvidia-tesla-v100": (1, 2, 4, 8),
}
"""GPUs that Google attaches to an N1 machine, and how many of them."""

_GPUS_OF = {machine: number for machines in _WITH_GPUS.values() for number, machine in machines.items()}
_BRINGS_GPUS = re.compile(r"(a[2-9]x?|g[2-9])-")
_TAKES_GPUS = re.compile(r"(n1|custom)-")
_HAS_NO_GPUS = re.compile(r"(e2|n2d?|n4[ad]?|c2d?|c3d?|c4[ad]?|h3|h4d|m[1-4]|t2[ad]|x4|z3|f1|g1)-")
"""Families of machine types by their GPUs; one that is in none of these is taken to bring what it has."""


def allocation(resource: Resource, options: GCPBatchOpts) -> Json:
    """Return on which machines a job's tasks run.

    Raises:
        ConfigError: No machine of Google's has such GPUs.
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
    """Return the machine's type, and the GPUs that are added to it."""
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
        why = f"machines with {kind} have {', '.join(map(str, numbers))}"
        fix = "ask for one of these numbers in resource.gpu, or name another gpu_type"
        raise ConfigError(f"There is no machine with {gpus} GPUs of gpu_type={kind}", why=why, fix=fix)


def _check_machine(machine: str, gpus: int, kind: str) -> None:
    """Check that a machine can have the GPUs that are asked for.

    The default of gpu_type says nothing of a machine that brings its own: nobody may have chosen it.
    """
    attached = ", ".join(_ATTACHED)
    if _HAS_NO_GPUS.match(machine):
        why = "Google attaches GPUs to N1 machines only; those of the families A and G bring theirs"
        fix = "name such a machine_type, leave it out, or ask for no GPUs"
    elif _TAKES_GPUS.match(machine) and kind in _WITH_GPUS:
        why, fix = f"Google attaches {attached} to it", "name one of these as gpu_type, or leave machine_type out"
    elif _BRINGS_GPUS.match(machine) and kind in _ATTACHED:
        why, fix = "it brings its own GPUs, and none are attached to it", "leave gpu_type or machine_type out"
    elif _BRINGS_GPUS.match(machine) and _is_of_others(kind, machine):
        why, fix = "it brings others", "leave gpu_type or machine_type out"
    elif gpus > _GPUS_OF.get(machine, gpus):
        why, fix = f"it has {_GPUS_OF[machine]}", "lower resource.gpu, or leave machine_type out"
    else:
        return
    raise ConfigError(f"machine_type={machine} does not fit resource.gpu={gpus} of gpu_type={kind}", why=why, fix=fix)


def _is_of_others(kind: str, machine: str) -> bool:
    if kind == GCPBatchOpts().gpu_type or kind not in _WITH_GPUS:
        return False
    families = {each.partition("-")[0] for each in _WITH_GPUS[kind].values()}
    return machine.partition("-")[0] not in families
