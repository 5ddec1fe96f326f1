"""The run options of ``local_cwd``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from asyncsched._typing import Doc

__all__ = ["LocalOpts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalOpts:
    """How an app is run as processes of this machine."""

    log_dir: Annotated[
        str | None,
        Doc("directory for the logs, as SESSION/APP/ROLE/REPLICA/{stdout,stderr,combined}.log; never pruned"),
    ] = None
    prepend_cwd: Annotated[bool, Doc("put the working directory before the replicas' PATH instead of after it")] = False
    auto_set_cuda_visible_devices: Annotated[
        bool, Doc("give each replica of a role with GPUs its own, by CUDA_VISIBLE_DEVICES, if there are enough")
    ] = False
    detach: Annotated[bool, Doc("let the app outlive the process that submits it")] = False
    grace_period: Annotated[float, Doc("seconds between TERM and KILL when a replica is stopped")] = 10.0
    timeout: Annotated[
        float | None, Doc("seconds that the app may run; over it its replicas are ended and it has failed")
    ] = None
    merge_streams: Annotated[
        bool, Doc("give stdout and stderr one pipe: exact order of both, but no way to tell them apart")
    ] = False
    on_failure: Annotated[
        Literal["continue", "stop"], Doc("what the other replicas do when one has failed: run on, or be stopped")
    ] = "continue"
    max_log_bytes: Annotated[
        int, Doc("bytes of output that are kept of an app; beyond it the oldest goes, which readers are told")
    ] = 10 << 30
    env: Annotated[dict[str, str] | None, Doc("environment variables for every replica; the role's own win")] = None
    copy_env: Annotated[
        list[str] | None,
        Doc("patterns of the submitter's variables that replicas inherit, such as FOO_*; all without it"),
    ] = None
