"""The run options of Google Cloud Batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from asyncsched._typing import Doc

__all__ = ["GCPBatchOpts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GCPBatchOpts:
    """How an app runs on Google Cloud Batch; none is required where the project can be found."""

    project: Annotated[
        str | None, Doc("project to run in; else that of the scheduler, the environment or the credentials")
    ] = None
    location: Annotated[str, Doc("region to run in")] = "us-central1"

    timeout: Annotated[
        float | None, Doc("seconds that an attempt may run (at most 14 days): over it the app is FAILED, not retried")
    ] = None
    max_run_duration: Annotated[float | None, Doc("another name of timeout")] = None
    pending_timeout: Annotated[
        float | None, Doc("seconds that it may wait to run; kept by the process that submits, while it lives")
    ] = None
    image_repo: Annotated[str | None, Doc("repository (Artifact Registry) that a workspace's image is pushed to")] = (
        None
    )
    quiet: Annotated[bool, Doc("show no progress while an image is built and pushed")] = False
    image_platform: Annotated[
        str | None, Doc("what images must be for, such as linux/arm64; else the Docker daemon's own")
    ] = None

    retry_on_preemption: Annotated[
        int,
        Doc(
            "run a task again so often when its Spot VM is taken away; beside max_retries Batch counts both as one sum"
        ),
    ] = 0

    machine_type: Annotated[str | None, Doc("machine type such as e2-standard-8; else Batch chooses one that fits")] = (
        None
    )
    gpu_type: Annotated[str, Doc("GPU that resource.gpu counts, such as nvidia-l4")] = "nvidia-tesla-a100"
    install_gpu_drivers: Annotated[bool, Doc("have Batch install the drivers where GPUs are asked for")] = True
    spot: Annotated[bool, Doc("run on Spot VMs, which are cheaper and may be taken away")] = False
    allowed_locations: Annotated[list[str] | None, Doc("where VMs may be: the region of location, or zones of it")] = (
        None
    )
    boot_disk_type: Annotated[str | None, Doc("type of the boot disk, such as pd-ssd")] = None
    boot_disk_gb: Annotated[int | None, Doc("size of the boot disk")] = None
    boot_disk_image: Annotated[str | None, Doc("image of the boot disk, such as batch-cos or batch-debian")] = None
    service_account: Annotated[str | None, Doc("e-mail of the service account that the VMs act as")] = None
    network: Annotated[str | None, Doc("VPC network, such as projects/P/global/networks/N")] = None
    subnetwork: Annotated[str | None, Doc("its subnetwork, such as projects/P/regions/R/subnetworks/S")] = None
    no_external_ip: Annotated[bool, Doc("give the VMs no address outside; needs network and subnetwork")] = False
    collocated: Annotated[bool, Doc("place the VMs close to each other")] = False
    image_streaming: Annotated[bool, Doc("start containers while their image is still being read")] = False

    priority: Annotated[int, Doc("priority (0-99) among the project's jobs in the location")] = 0
    parallelism: Annotated[int | None, Doc("tasks at a time; else all, at most 5000")] = None
    task_count_per_node: Annotated[
        int | None,
        Doc("tasks on one VM at a time; else 1 where replicas share a network"),
    ] = None
    replica_network: Annotated[
        bool, Doc("several replicas reach each other: host network, a VM each, hosts file, rank 0's name")
    ] = True
    open_firewall: Annotated[bool, Doc("let the VM's own firewall pass what comes from other replicas")] = True
    gang: Annotated[bool, Doc("let no replica start its program before all of them can")] = False
    labels: Annotated[dict[str, str] | None, Doc("labels of the job, beside those of asyncsched")] = None
    pubsub_topic: Annotated[str | None, Doc("topic that is told of changes: projects/P/topics/T")] = None
    log_destination: Annotated[
        Literal["cloud_logging", "none"], Doc("where the tasks' output goes; with none it cannot be read")
    ] = "cloud_logging"
