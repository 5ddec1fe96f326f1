"""Components for distributed training with PyTorch's ``torchrun``, one agent per replica.

The agents meet at replica 0 of the job. Every scheduler sets its address in the environment variable that
`macros.rank0_env` names.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import PurePath

from asyncsched._typing import NamedTuple
from asyncsched.components.images import default_image
from asyncsched.errors import ComponentError
from asyncsched.specs.app import AppDef, Role
from asyncsched.specs.macros import macros
from asyncsched.specs.mounts import parse_mounts
from asyncsched.specs.resources import get_named_resources, resource

__all__ = ["ddp", "spmd"]

TORCH_IMAGE = "pytorch/pytorch:latest"
DEFAULT_EXPERIMENT = "default-experiment"

_DEBUG = {
    "CUDA_LAUNCH_BLOCKING": "1",
    "NCCL_DESYNC_DEBUG": "1",
    "TORCH_DISTRIBUTED_DEBUG": "DETAIL",
    "TORCH_SHOW_CPP_STACKTRACES": "1",
}
_JOB_SIZE = re.compile(r"(?:(?:(\d+):)?(\d+)x)?(\d+)")


def ddp(
    *script_args: str,
    script: str | None = None,
    m: str | None = None,
    image: str | None = None,
    name: str = "/",
    h: str | None = None,
    cpu: int = 2,
    gpu: int = 0,
    memMB: int = 1024,  # noqa: N803 - the documents' name
    j: str = "1x2",
    env: dict[str, str] | None = None,
    max_retries: int = 0,
    rdzv_port: int = 29500,
    rdzv_backend: str = "c10d",
    rdzv_conf: str | None = None,
    mounts: list[str] | None = None,
    debug: bool = False,
    tee: int = 3,
) -> AppDef:
    """Train on several nodes with torchrun, several processes on each.

    Args:
        script_args: Arguments for the script or module.
        script: The script to run.
        m: The module to run.
        image: The image to run in; it needs PyTorch.
        name: The job's name, as experiment/run; missing parts come from the script or module.
        h: A named resource, instead of cpu, gpu and memMB.
        cpu: Processors per node.
        gpu: GPUs per node.
        memMB: Memory per node in MB.
        j: Nodes and processes on each of them, as [min:]nodesxprocesses: 2x4, or 1:2x4 to start with one node.
        env: Environment variables.
        max_retries: How often to restart after a failure.
        rdzv_port: The port at replica 0 where the nodes meet.
        rdzv_backend: torchrun's rendezvous backend.
        rdzv_conf: Settings of the rendezvous backend, as name=value,name=value.
        mounts: What to mount, as in type=bind,src=/host,dst=/job,readonly.
        debug: Set the environment variables that make PyTorch log more.
        tee: Which streams torchrun shows and keeps: 0 none, 1 stdout, 2 stderr, 3 both.
    """
    size = _job_size(j)
    experiment, run = _names(name, script, m)
    command = ["torchrun", "--rdzv_backend", rdzv_backend, *(["--rdzv_conf", rdzv_conf] if rdzv_conf else [])]
    command += ["--rdzv_id", macros.app_id, "--nnodes", size.nodes, "--nproc_per_node", str(size.processes)]
    command += ["--tee", str(tee), "--role", "", *([script] if script else ["-m", m or ""]), *script_args]
    role = Role(
        name=run,
        image=image or default_image(TORCH_IMAGE),
        min_replicas=size.min_nodes,
        entrypoint="sh",
        args=["-c", _shell(command, _endpoint(size, rdzv_port))],
        env=_environment(experiment, env, debug=debug),
        num_replicas=size.max_nodes,
        max_retries=max_retries,
        resource=resource(cpu=cpu, gpu=gpu, memMB=memMB, h=h),
        port_map={rdzv_backend: rdzv_port},
        mounts=parse_mounts(mounts or []),
    )
    return AppDef(name=run, roles=[role])


def spmd(
    *args: str,
    script: str | None = None,
    m: str | None = None,
    image: str | None = None,
    name: str = "/",
    h: str = "gpu.small",
    j: str = "1",
    env: dict[str, str] | None = None,
    max_retries: int = 0,
    mounts: list[str] | None = None,
    debug: bool = False,
) -> AppDef:
    """Run one program on several nodes, with one process per GPU.

    Args:
        args: Arguments for the script or module.
        script: The script to run.
        m: The module to run.
        image: The image to run in; it needs PyTorch.
        name: The job's name, as experiment/run; missing parts come from the script or module.
        h: The named resource of each node.
        j: The number of nodes (one process per GPU), or nodesxprocesses.
        env: Environment variables.
        max_retries: How often to restart after a failure.
        mounts: What to mount, as in type=bind,src=/host,dst=/job,readonly.
        debug: Set the environment variables that make PyTorch log more.
    """
    return ddp(
        *args,
        script=script,
        m=m,
        image=image,
        name=name,
        h=h,
        j=j if "x" in j else f"{j}x{_processes_on(h)}",
        env=env,
        max_retries=max_retries,
        mounts=mounts,
        debug=debug,
    )


class _JobSize(NamedTuple):
    min_nodes: int | None
    max_nodes: int
    processes: int

    @property
    def nodes(self) -> str:
        """The value of torchrun's --nnodes."""
        return str(self.max_nodes) if self.min_nodes is None else f"{self.min_nodes}:{self.max_nodes}"


def _job_size(j: str) -> _JobSize:
    match = _JOB_SIZE.fullmatch(j)
    if match:
        size = _JobSize(int(match[1]) if match[1] else None, int(match[2] or 1), int(match[3]))
        if size.processes and size.max_nodes and size.min_nodes in (None, *range(1, size.max_nodes + 1)):
            return size
    raise ComponentError(
        f"-j must be a number of nodes and processes, got {j}",
        why="it is [min:]nodesxprocesses, each at least 1, and min at most nodes",
        fix="write -j 2x4 for 2 nodes with 4 processes each, or -j 1:2x4 to start with one node",
    )


def _processes_on(h: str) -> int:
    gpus = get_named_resources(h).gpu
    if gpus <= 0:
        raise ComponentError(
            f"cannot tell how many processes to run on each {h}",
            why=f"the resource {h} has no GPUs",
            fix="write -j nodesxprocesses, such as -j 2x4, or choose an -h with GPUs",
        )
    return gpus


def _names(name: str, script: str | None, module: str | None) -> tuple[str, str]:
    """Return the experiment and the run; the name may be run, /run, experiment/ or experiment/run."""
    if (script is None) == (module is None):
        given = "both" if script else "neither"
        raise ComponentError(f"a job needs exactly one of --script and -m, got {given}")
    experiment, slash, run = name.rpartition("/")
    from_program = PurePath(script).stem if script else (module or "").rpartition(".")[2]
    return (experiment if slash else "") or DEFAULT_EXPERIMENT, run or from_program


def _environment(experiment: str, env: dict[str, str] | None, *, debug: bool) -> dict[str, str]:
    own = {
        "LOGLEVEL": os.environ.get("LOGLEVEL", "WARNING"),
        "TORCHX_TRACKING_EXPERIMENT_NAME": experiment,
        **(_DEBUG if debug else {}),
    }
    return {**own, **(env or {})}


def _endpoint(size: _JobSize, port: int) -> str:
    """Return the rendezvous endpoint, as a word of a shell command."""
    if size.max_nodes == 1:
        return "localhost:0"  # a single agent takes any free port
    # On AWS Batch replica 0 does not get its own address, so an unset or empty variable means this host.
    return f'"$${{{macros.rank0_env}:=localhost}}:{port}"'


def _shell(command: list[str], endpoint: str) -> str:
    program, *rest = map(_quoted, command)
    return " ".join([program, "--rdzv_endpoint", endpoint, *rest])


def _quoted(word: str) -> str:
    # Macros are replaced later: a macro's value has no character that is special to a shell.
    return word if word == macros.app_id else shlex.quote(word)
