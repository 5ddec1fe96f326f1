"""The run options of Google Cloud Batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from asyncsched._typing import Doc

__all__ = ["GCPBatchOpts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GCPBatchOpts:
    """The run options of Google Cloud Batch; none is required if the project can be found."""

    project: Annotated[
        str | None, Doc("project to run in; default: from the scheduler, the environment or the credentials")
    ] = None
    location: Annotated[str, Doc("region to run in")] = "us-central1"

    timeout: Annotated[
        float | None, Doc("seconds after which an attempt fails and is not retried (at most 14 days)")
    ] = None
    max_run_duration: Annotated[float | None, Doc("another name of timeout")] = None
    pending_timeout: Annotated[
        float | None, Doc("seconds that the app may wait to run; enforced by the submitting process while it lives")
    ] = None
    image_repo: Annotated[str | None, Doc("repository (Artifact Registry) to push a workspace's image to")] = None
    quiet: Annotated[bool, Doc("show no progress while an image is built and pushed")] = False
    image_platform: Annotated[
        str | None, Doc("platform of images, such as linux/arm64; default: the Docker daemon's")
    ] = None

    retry_on_preemption: Annotated[
        int,
        Doc("retries of a task whose Spot VM was preempted; with max_retries, Batch counts the sum of both"),
    ] = 0

    machine_type: Annotated[
        str | None, Doc("machine type such as e2-standard-8; default: Batch chooses one that fits")
    ] = None
    gpu_type: Annotated[str, Doc("type of the GPUs in resource.gpu, such as nvidia-l4")] = "nvidia-tesla-a100"
    install_gpu_drivers: Annotated[bool, Doc("have Batch install the drivers if GPUs are requested")] = True
    spot: Annotated[bool, Doc("run on Spot VMs, which are cheaper and may be preempted")] = False
    allowed_locations: Annotated[list[str] | None, Doc("places for VMs: the region of location, or zones of it")] = None
    boot_disk_type: Annotated[str | None, Doc("type of the boot disk, such as pd-ssd")] = None
    boot_disk_gb: Annotated[int | None, Doc("size of the boot disk in GB")] = None
    boot_disk_image: Annotated[str | None, Doc("image of the boot disk, such as batch-cos or batch-debian")] = None
    service_account: Annotated[str | None, Doc("e-mail of the VMs' service account")] = None
    network: Annotated[str | None, Doc("VPC network, such as projects/P/global/networks/N")] = None
    subnetwork: Annotated[str | None, Doc("its subnetwork, such as projects/P/regions/R/subnetworks/S")] = None
    no_external_ip: Annotated[bool, Doc("give the VMs no external IP address; needs network and subnetwork")] = False
    collocated: Annotated[bool, Doc("place the VMs close to each other")] = False
    image_streaming: Annotated[bool, Doc("start containers while their image is still being pulled")] = False

    priority: Annotated[int, Doc("priority (0-99) among the project's jobs in the location")] = 0
    parallelism: Annotated[int | None, Doc("most tasks at the same time; default: all, at most 5000")] = None
    task_count_per_node: Annotated[
        int | None,
        Doc("most tasks on one VM at the same time; default: 1 if replicas share a network"),
    ] = None
    replica_network: Annotated[
        bool, Doc("connect several replicas: host network, one VM each, hosts file, rank 0's name")
    ] = True
    open_firewall: Annotated[bool, Doc("open the VM's firewall to traffic from other replicas")] = True
    gang: Annotated[bool, Doc("start no program before all replicas can start")] = False
    labels: Annotated[dict[str, str] | None, Doc("labels of the job, besides those of asyncsched")] = None
    pubsub_topic: Annotated[str | None, Doc("topic for notifications of changes: projects/P/topics/T")] = None
    log_destination: Annotated[
        Literal["cloud_logging", "none"], Doc("destination of the tasks' output; with none it cannot be read")
    ] = "cloud_logging"
