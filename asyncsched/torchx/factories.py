"""TorchX on asyncsched: the schedulers that the distribution ``asyncsched-torchx`` registers with TorchX.

Installing asyncsched alone registers nothing. Importing this module imports neither TorchX nor a backend.
"""

from __future__ import annotations

import importlib
import logging
import os
from typing import Any

__all__ = ["KEEP", "NAMES", "Factory"]

KEEP = "ASYNCSCHED_TORCHX_KEEP"
"""Environment variable: a comma-separated list of names that stay TorchX's own schedulers."""

OURS = ("local_docker", "local_cwd", "slurm", "kubernetes", "aws_batch", "gcp_batch")
"""The names that run on asyncsched."""

NAMES = (
    "local_docker",
    "local_cwd",
    "slurm",
    "kubernetes",
    "kubernetes_mcad",
    "aws_batch",
    "aws_sagemaker",
    "gcp_batch",
    "ray",
    "lsf",
)
"""All registered names, in TorchX's order: the first is its default scheduler.

TorchX up to 0.7.0 drops its own schedulers as soon as any plugin registers one, so those that asyncsched does not have
are registered too, and passed through.
"""

_log = logging.getLogger("asyncsched.torchx")


class Factory:
    """Creates the scheduler of one name, as TorchX calls it: ``factory(session_name, **parameters)``.

    Args:
        name: The scheduler's name in TorchX.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, session_name: str, **parameters: Any) -> Any:
        """Return a TorchX scheduler: one that runs on asyncsched, or TorchX's own."""
        if self.name not in OURS or self.name in _kept():
            return _make_theirs(self.name, session_name, parameters)
        from asyncsched.torchx.making import make  # imports TorchX and asyncio

        return make(self.name, session_name, parameters)

    def __repr__(self) -> str:
        return f"<factory of {self.name}>"


def _kept() -> set[str]:
    names = {name.strip() for name in os.environ.get(KEEP, "").split(",")} - {""}
    if unknown := sorted(names.difference(NAMES)):
        _log.warning("%s names %s, which are not schedulers: use %s", KEEP, ", ".join(unknown), ", ".join(OURS))
    return names


def _make_theirs(name: str, session_name: str, parameters: dict[str, Any]) -> Any:
    """Create TorchX's own scheduler of this name.

    Raises:
        ModuleNotFoundError: This release of TorchX does not have it, or a package that it needs is not installed;
            TorchX's ``runopts`` and ``configure`` skip such schedulers.
    """
    from torchx.schedulers import DEFAULT_SCHEDULER_MODULES

    module = DEFAULT_SCHEDULER_MODULES.get(name)
    if module is None:
        kept = f"; remove it from {KEEP} to run it on asyncsched" if name in OURS else ""
        raise ModuleNotFoundError(f"this release of TorchX has no scheduler {name}{kept}")
    try:
        create = importlib.import_module(module).create_scheduler
    except NameError as error:  # 0.7's module for ray raises one if ray is not installed
        told = f"cannot import TorchX's own scheduler {name}: {type(error).__name__}: {error}"
        raise ModuleNotFoundError(told) from error
    return create(session_name, **parameters)


local_docker = Factory("local_docker")
local_cwd = Factory("local_cwd")
slurm = Factory("slurm")
kubernetes = Factory("kubernetes")
kubernetes_mcad = Factory("kubernetes_mcad")
aws_batch = Factory("aws_batch")
aws_sagemaker = Factory("aws_sagemaker")
gcp_batch = Factory("gcp_batch")
ray = Factory("ray")
lsf = Factory("lsf")
