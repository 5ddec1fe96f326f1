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
    """How an app runs on AWS Batch; only `queue` is required."""

    queue: Annotated[str, Doc("queue to submit the job in")]
    user: Annotated[str, Doc("the user that the job's tags name")] = field(default_factory=_user)
    privileged: Annotated[bool, Doc("give the containers the host's rights, as root on it has them")] = False
    share_id: Annotated[
        str | None, Doc("share identifier, for queues with a fair-share policy; part of the job's name")
    ] = None
    priority: Annotated[int, Doc("scheduling priority (0-9999) inside the share; needs share_id")] = 0
    job_role_arn: Annotated[str | None, Doc("role that the program in the container acts as")] = None
    execution_role_arn: Annotated[
        str | None, Doc("role with which image, secrets and logs are reached; required on Fargate and for secrets")
    ] = None
    image_repo: Annotated[str | None, Doc("repository (ECR) that a workspace's image is pushed to")] = None
    quiet: Annotated[bool, Doc("show no progress while an image is built and pushed")] = False
    image_platform: Annotated[
        str | None, Doc("what images must be for, such as linux/arm64; else what cpu_arch says, or the daemon's own")
    ] = None

    region: Annotated[str | None, Doc("AWS region; else the scheduler's, AWS_REGION, or the profile's")] = None
    profile: Annotated[str | None, Doc("profile of the AWS configuration to take credentials from")] = None
    endpoint_url: Annotated[str | None, Doc("other address of the services, such as an emulator's")] = None

    job_type: Annotated[
        Literal["auto", "container", "multinode"],
        Doc("auto: one replica is a container job (Spot and Fargate can run it), several are multi-node"),
    ] = "auto"
    platform: Annotated[Literal["EC2", "FARGATE", "MANAGED_INSTANCES"], Doc("what runs the containers")] = "EC2"
    timeout: Annotated[
        float | None,
        Doc("seconds that an attempt may run (at least 60, rounded up): over it the app is FAILED, and not retried"),
    ] = None
    timeout_s: Annotated[int | None, Doc("another name of timeout")] = None
    pending_timeout: Annotated[
        float | None, Doc("seconds that it may wait to run; kept by the process that submits, while it lives")
    ] = None
    spot_retries: Annotated[
        int, Doc("run again so often when Spot takes the host away; with max_retries the sum is shared")
    ] = 0
    instance_type: Annotated[
        str | None, Doc("instance type of multi-node jobs; else the resource's instance-type capability")
    ] = None
    main_node: Annotated[int, Doc("node that decides a multi-node job's end and verdict")] = 0
    depends_on: Annotated[list[str] | None, Doc("ids of apps or jobs that must succeed first (at most 20)")] = None
    array_size: Annotated[
        int | None, Doc("run the one replica so often, each with its AWS_BATCH_JOB_ARRAY_INDEX (2-10000)")
    ] = None
    tags: Annotated[dict[str, str] | None, Doc("tags of the job, beside those of asyncsched")] = None
    propagate_tags: Annotated[bool, Doc("give the tags to the ECS tasks too, for cost reports")] = False

    shm_size_mb: Annotated[int | None, Doc("size of /dev/shm; else as much as the replica's memory")] = None
    ulimits: Annotated[list[str] | None, Doc("limits such as nofile=1024:4096 (soft:hard)")] = None
    init_process: Annotated[bool, Doc("run an init that forwards signals and reaps children")] = False
    user_in_container: Annotated[str | None, Doc("user to run as inside the container")] = None
    readonly_root: Annotated[bool, Doc("let the container only read its root file system")] = False
    tmpfs: Annotated[list[str] | None, Doc("file systems in memory such as /scratch:64 (MiB)")] = None
    secrets: Annotated[dict[str, str] | None, Doc("environment variables from Secrets Manager or SSM: name to ARN")] = (
        None
    )
    efs_options: Annotated[
        dict[str, str] | None,
        Doc("for volume mounts: rootDirectory, transitEncryption, accessPointId, iam (ENABLED)"),
    ] = None
    log_group: Annotated[str | None, Doc("CloudWatch group of the logs; else /aws/batch/job")] = None
    log_options: Annotated[dict[str, str] | None, Doc("further options of the awslogs driver")] = None
    public_ip: Annotated[bool, Doc("give a Fargate job a public address")] = False
    cpu_arch: Annotated[
        Literal["X86_64", "ARM64"] | None, Doc("processor of a job on Fargate or managed instances")
    ] = None
    ephemeral_storage_gb: Annotated[int | None, Doc("disk of a Fargate job (21-200)")] = None
    consumable_resources: Annotated[
        dict[str, str] | None, Doc("consumable resources to hold while it runs: name to quantity")
    ] = None
    enable_exec: Annotated[bool, Doc("allow ECS Exec into the containers")] = False
    ecr_create_repository: Annotated[bool, Doc("make image_repo's repository if there is none")] = False
    definition: Annotated[
        Literal["reuse", "per-app"],
        Doc("reuse a job definition of the same content, or register one that goes when the app is over"),
    ] = "reuse"
