"""The run options of ``slurm``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from asyncsched._typing import Doc

__all__ = ["SlurmOpts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmOpts:
    """How to run an app on a Slurm cluster."""

    partition: Annotated[str | None, Doc("the partition to run in; the cluster's default if none is given")] = None
    account: Annotated[str | None, Doc("the account to charge")] = None
    qos: Annotated[str | None, Doc("the quality of service")] = None
    time: Annotated[str | None, Doc("the time limit in Slurm's form, such as 90, 1:30:00 or 2-12")] = None
    timeout: Annotated[
        float | None, Doc("seconds that the app may run, rounded up to minutes; the cluster then ends the job")
    ] = None
    pending_timeout: Annotated[
        float | None, Doc("seconds that the app may wait to run; then the process that submitted it ends it")
    ] = None
    constraint: Annotated[str | None, Doc("features that the nodes must have, such as gpu&ib")] = None
    nodelist: Annotated[str | None, Doc("nodes that the job must use, among others")] = None
    exclude: Annotated[str | None, Doc("nodes that the job must not use")] = None
    nodes: Annotated[int | None, Doc("how many nodes to spread the replicas over, if all are of one size")] = None
    ntasks_per_node: Annotated[int | None, Doc("how many replicas may share a node, if all are of one size")] = None
    comment: Annotated[str | None, Doc("a comment on the job, which everybody on the cluster can read")] = None
    mail_user: Annotated[str | None, Doc("the address for the cluster's mail about the job")] = None
    mail_type: Annotated[str | None, Doc("the events to send mail about, such as END,FAIL")] = None
    reservation: Annotated[str | None, Doc("the reservation to run in")] = None
    gres: Annotated[str | None, Doc("generic resources of each node, such as gpu:2")] = None
    job_dir: Annotated[str | None, Doc("parent of the app's directory, on a file system that the nodes share")] = None
    requeue: Annotated[bool, Doc("restart the job when a node fails or it is preempted")] = False
    sbatch_args: Annotated[list[str] | None, Doc("more arguments for sbatch, in its own form")] = None
    modules: Annotated[list[str] | None, Doc("environment modules to load before the replicas start")] = None
    prolog: Annotated[str | None, Doc("a line of shell to run in the job's script before the replicas start")] = None
    timestamps: Annotated[bool, Doc("write the time before each line of the logs, which `since` and `until` need")] = (
        False
    )
    container: Annotated[
        Literal["apptainer", "singularity", "enroot"] | None,
        Doc("run each replica in its role's image, with this program"),
    ] = None
    check: Annotated[bool, Doc("ask the cluster at dry-run whether it would accept the job")] = False
