"""The machines of a job: each family of machine types gets the GPUs that Google can give it, or is refused."""

from __future__ import annotations

from typing import Any

import pytest
from google.cloud import batch_v1

from asyncsched.errors import ConfigError
from asyncsched.schedulers.gcp_batch import GCPBatchOpts
from asyncsched.schedulers.gcp_batch.request import make_request, to_wire
from asyncsched.specs import AppDef, Resource, Role
from tests.gcp_double.checks import check_job
from tests.gcp_double.wire import parse

APP_ID = "proj-1:us-central1:app-x1"
A100, L4, H100, T4, V100 = (
    "nvidia-tesla-a100",
    "nvidia-l4",
    "nvidia-h100-80gb",
    "nvidia-tesla-t4",
    "nvidia-tesla-v100",
)

NO_GPUS = (
    *("e2", "n2", "n2d", "n4", "c2", "c2d", "c3", "c3d", "c4", "c4a"),
    *("h3", "h4d", "m1", "m3", "t2d", "t2a", "x4", "z3"),
)


def instance(gpu: int, **options: Any) -> dict[str, Any]:
    """Return how the machines of a job are described, after Google's own messages have taken it."""
    app = AppDef("app", [Role("trainer", "image", entrypoint="train", resource=Resource(4, gpu, 1000))])
    opts = GCPBatchOpts(project="proj-1", **options)
    wire: Any = to_wire(make_request(app, opts, app_id=APP_ID, session="me", version="1"), digest="d", note="{}")
    check_job(parse(batch_v1.Job.pb(batch_v1.Job()), wire))
    (made,) = wire["allocationPolicy"]["instances"]
    found: dict[str, Any] = made
    return found


@pytest.mark.parametrize(
    ("gpu", "kind", "machine"),
    [
        *((n, A100, f"a2-highgpu-{n}g") for n in (1, 2, 4, 8)),
        (16, A100, "a2-megagpu-16g"),
        *((n, "nvidia-a100-80gb", f"a2-ultragpu-{n}g") for n in (1, 2, 4, 8)),
        (1, L4, "g2-standard-4"),
        (2, L4, "g2-standard-24"),
        (4, L4, "g2-standard-48"),
        (8, L4, "g2-standard-96"),
        (8, H100, "a3-highgpu-8g"),
    ],
)
def test_a_gpu_chooses_the_machine_that_has_it(gpu: int, kind: str, machine: str) -> None:
    made = instance(gpu, gpu_type=kind)

    assert {"machineType": machine, "provisioningModel": "STANDARD"} == made["policy"]
    assert made["installGpuDrivers"]


@pytest.mark.parametrize("machine", [None, "n1-standard-8", "n1-highmem-96", "custom-8-16384"])
@pytest.mark.parametrize(("gpu", "kind"), [(2, T4), (8, V100), (4, "nvidia-tesla-p100"), (1, "nvidia-tesla-t4-vws")])
def test_gpus_are_attached_to_a_machine_that_has_none(machine: str | None, gpu: int, kind: str) -> None:
    made = instance(gpu, gpu_type=kind, machine_type=machine)

    assert [{"type": kind, "count": str(gpu)}] == made["policy"]["accelerators"]
    assert machine == made["policy"].get("machineType")
    assert made["installGpuDrivers"]


@pytest.mark.parametrize(
    ("machine", "options"),
    [
        ("a2-highgpu-4g", {}),
        ("g2-standard-48", {}),
        ("g2-standard-48", {"gpu_type": L4}),
        ("a3-megagpu-8g", {}),
        ("a3-highgpu-8g", {"gpu_type": H100}),
        ("a4-highgpu-8g", {}),
        ("of-tomorrow-8g", {}),
    ],
)
def test_a_machine_that_brings_its_gpus_gets_no_others(machine: str, options: Any) -> None:
    made = instance(4, machine_type=machine, **options)

    assert {"machineType": machine, "provisioningModel": "STANDARD"} == made["policy"]
    assert made["installGpuDrivers"]


def test_drivers_are_installed_where_there_are_gpus() -> None:
    assert instance(-1, machine_type="a2-highgpu-1g")["installGpuDrivers"]
    assert "installGpuDrivers" not in instance(-1, machine_type="n1-standard-8")
    assert "installGpuDrivers" not in instance(2, gpu_type=T4, install_gpu_drivers=False)


@pytest.mark.parametrize(
    ("gpu", "options", "message"),
    [
        (3, {}, "resource.gpu must be one of 1, 2, 4, 8, 16 for gpu_type=nvidia-tesla-a100, got 3"),
        (3, {"gpu_type": T4}, "must be one of 1, 2, 4 for .*, got 3"),
        (8, {"gpu_type": T4, "machine_type": "n1-standard-8"}, "must be one of 1, 2, 4 for .*, got 8"),
        (
            1,
            {"machine_type": "n1-standard-8"},
            "machine_type=n1-standard-8 does not fit resource.gpu=1",
        ),
        (1, {"machine_type": "custom-8-16384", "gpu_type": L4}, "nvidia-tesla-t4, .* gpu_type"),
        (1, {"machine_type": "a2-highgpu-1g", "gpu_type": T4}, "built-in GPUs, and Google attaches no others"),
        (1, {"machine_type": "a2-highgpu-1g", "gpu_type": L4}, "built-in GPUs are of another type"),
        (4, {"machine_type": "a2-highgpu-1g"}, "it has 1; lower resource.gpu"),
        *(
            (1, {"machine_type": f"{family}-standard-4"}, f"{family}-standard-4 .* N1 machines only")
            for family in NO_GPUS
        ),
        (1, {"machine_type": "g1-small"}, "N1 machines only"),
    ],
)
def test_gpus_that_no_machine_has_are_refused(gpu: int, options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        instance(gpu, **options)
