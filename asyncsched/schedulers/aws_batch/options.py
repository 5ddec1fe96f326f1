"""The run options of AWS Batch."""

from __future__ import annotations

import getpass
from dataclasses import dataclass, field
from typing import Annotated, Literal

from asyncsched._typing import Doc

__all__ = ["AWSBatchOpts"]


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # No such user in this container; Python 3.13 made it an OSError.
        return "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class AWSBatchOpts:
    """The run options of AWS Batch; only `queue` is required."""

    queue: Annotated[str, Doc("queue to submit the job in")]
    user: Annotated[str, Doc("user name for the job's tags")] = field(default_factory=_user)
    privileged: Annotated[bool, Doc("run privileged containers, with root's rights on the host")] = False
    share_id: Annotated[
        str | None, Doc("share identifier, for queues with a fair-share policy; part of the job's name")
    ] = None
    priority: Annotated[int, Doc("scheduling priority (0-9999) within the share; needs share_id")] = 0
    job_role_arn: Annotated[str | None, Doc("role of the program in the container")] = None
    execution_role_arn: Annotated[
        str | None, Doc("role for access to image, secrets and logs; required on Fargate and for secrets")
    ] = None
    image_repo: Annotated[str | None, Doc("repository (ECR) to push a workspace's image to")] = None
    quiet: Annotated[bool, Doc("show no progress while an image is built and pushed")] = False
    image_platform: Annotated[
        str | None, Doc("platform of images, such as linux/arm64; default: that of cpu_arch, or the daemon's")
    ] = None

    region: Annotated[str | None, Doc("AWS region; default: the scheduler's, AWS_REGION, or the profile's")] = None
    profile: Annotated[str | None, Doc("profile in the AWS configuration with the credentials")] = None
    endpoint_url: Annotated[str | None, Doc("another address of the services, such as an emulator's")] = None

    job_type: Annotated[
        Literal["auto", "container", "multinode"],
        Doc("auto: a container job for one replica (Spot and Fargate can run it), multi-node for several"),
    ] = "auto"
    platform: Annotated[Literal["EC2", "FARGATE", "MANAGED_INSTANCES"], Doc("what runs the containers")] = "EC2"
    timeout: Annotated[
        float | None,
        Doc("seconds after which an attempt fails and is not retried (at least 60, rounded up)"),
    ] = None
    timeout_s: Annotated[int | None, Doc("another name of timeout")] = None
    pending_timeout: Annotated[
        float | None, Doc("seconds that the app may wait to run; enforced by the submitting process while it lives")
    ] = None
    spot_retries: Annotated[int, Doc("retries after Spot reclaimed the host; with max_retries, the sum is shared")] = 0
    instance_type: Annotated[
        str | None, Doc("instance type of multi-node jobs; default: the resource's instance-type capability")
    ] = None
    main_node: Annotated[int, Doc("node that decides when and how a multi-node job ends")] = 0
    depends_on: Annotated[list[str] | None, Doc("ids of apps or jobs that must succeed first (at most 20)")] = None
    array_size: Annotated[
        int | None, Doc("copies of the one replica, each with its AWS_BATCH_JOB_ARRAY_INDEX (2-10000)")
    ] = None
    tags: Annotated[dict[str, str] | None, Doc("tags of the job, besides those of asyncsched")] = None
    propagate_tags: Annotated[bool, Doc("copy the tags to the ECS tasks, for cost reports")] = False

    shm_size_mb: Annotated[int | None, Doc("size of /dev/shm in MiB; default: the replica's memory")] = None
    ulimits: Annotated[list[str] | None, Doc("limits such as nofile=1024:4096 (soft:hard)")] = None
    init_process: Annotated[bool, Doc("run an init that forwards signals and reaps children")] = False
    user_in_container: Annotated[str | None, Doc("user to run as inside the container")] = None
    readonly_root: Annotated[bool, Doc("mount the container's root file system read-only")] = False
    tmpfs: Annotated[list[str] | None, Doc("in-memory file systems such as /scratch:64 (MiB)")] = None
    secrets: Annotated[dict[str, str] | None, Doc("environment variables from Secrets Manager or SSM: name to ARN")] = (
        None
    )
    efs_options: Annotated[
        dict[str, str] | None,
        Doc("for volume mounts: rootDirectory, transitEncryption, accessPointId, iam (ENABLED)"),
    ] = None
    log_group: Annotated[str | None, Doc("CloudWatch group of the logs; default: /aws/batch/job")] = None
    log_options: Annotated[dict[str, str] | None, Doc("more options of the awslogs driver")] = None
    public_ip: Annotated[bool, Doc("assign a public IP address to a Fargate job")] = False
    cpu_arch: Annotated[
        Literal["X86_64", "ARM64"] | None, Doc("CPU architecture of a job on Fargate or managed instances")
    ] = None
    ephemeral_storage_gb: Annotated[int | None, Doc("disk size of a Fargate job in GiB (21-200)")] = None
    consumable_resources: Annotated[
        dict[str, str] | None, Doc("consumable resources to reserve while it runs: name to quantity")
    ] = None
    enable_exec: Annotated[bool, Doc("allow ECS Exec into the containers")] = False
    ecr_create_repository: Annotated[bool, Doc("create the repository of image_repo if it does not exist")] = False
    definition: Annotated[
        Literal["reuse", "per-app"],
        Doc("reuse a job definition with the same content, or register one that is removed when the app ends"),
    ] = "reuse"
