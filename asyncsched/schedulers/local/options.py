"""The run options of ``local_cwd``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from asyncsched._typing import Doc

__all__ = ["LocalOpts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalOpts:
    """Run options for processes on this machine."""

    log_dir: Annotated[
        str | None,
        Doc("directory for the logs, as SESSION/APP/ROLE/REPLICA/{stdout,stderr,combined}.log; never pruned"),
    ] = None
    prepend_cwd: Annotated[bool, Doc("put the working directory before the replicas' PATH instead of after it")] = False
    auto_set_cuda_visible_devices: Annotated[
        bool,
        Doc("set CUDA_VISIBLE_DEVICES to separate GPUs for each replica of a role with GPUs, if there are enough"),
    ] = False
    detach: Annotated[bool, Doc("let the app outlive the process that submits it")] = False
    grace_period: Annotated[float, Doc("seconds between TERM and KILL when a replica is stopped")] = 10.0
    timeout: Annotated[
        float | None, Doc("seconds that the app may run; after that its replicas are ended, and it fails")
    ] = None
    merge_streams: Annotated[
        bool, Doc("use one pipe for stdout and stderr: keeps their exact order, but they cannot be separated")
    ] = False
    on_failure: Annotated[
        Literal["continue", "stop"], Doc("what the other replicas do when one has failed: keep running, or stop")
    ] = "continue"
    max_log_bytes: Annotated[
        int, Doc("bytes of output to keep for an app; then the oldest output is dropped, which readers see as a gap")
    ] = 10 << 30
    env: Annotated[dict[str, str] | None, Doc("environment variables for every replica; the role's env wins")] = None
    copy_env: Annotated[
        list[str] | None,
        Doc("patterns of the submitter's variables that replicas inherit, such as FOO_*; all by default"),
    ] = None
