"""TorchX on asyncsched: the schedulers that the distribution ``asyncsched-torchx`` registers with TorchX.

Nothing here is registered by installing asyncsched alone, and importing this imports neither TorchX nor a backend.
"""

from __future__ import annotations

import importlib
import logging
import os
from typing import Any

__all__ = ["KEEP", "NAMES", "Factory"]

KEEP = "ASYNCSCHED_TORCHX_KEEP"
"""Environment variable: the names, with commas between them, that stay TorchX's own schedulers."""

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
"""All names that are registered, in TorchX's order: the first is its default scheduler.

TorchX up to 0.7.0 drops its own schedulers as soon as anybody registers one, so those that asyncsched does not have are
registered, too, and passed through.
"""

_log = logging.getLogger("asyncsched.torchx")


class Factory:
    """Makes the scheduler of one name, as TorchX calls it: ``factory(session_name, **parameters)``.

    Args:
        name: The scheduler's name in TorchX.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, session_name: str, **parameters: Any) -> Any:
        """Return a TorchX scheduler: one that runs on asyncsched, or TorchX's own."""
        if self.name not in OURS or self.name in _kept():
            return _make_theirs(self.name, session_name, parameters)
        from asyncsched.torchx.making import make  # TorchX and asyncio come with it

        return make(self.name, session_name, parameters)

    def __repr__(self) -> str:
        return f"<factory of {self.name}>"


def _kept() -> set[str]:
    names = {name.strip() for name in os.environ.get(KEEP, "").split(",")} - {""}
    if unknown := sorted(names.difference(NAMES)):
        _log.warning("%s names %s, which are not schedulers: use %s", KEEP, ", ".join(unknown), ", ".join(OURS))
    return names


def _make_theirs(name: str, session_name: str, parameters: dict[str, Any]) -> Any:
    """Make TorchX's own scheduler of this name.

    Raises:
        ModuleNotFoundError: This release of TorchX does not have it, or what it needs is not installed; TorchX's
            ``runopts`` and ``configure`` pass over that.
    """
    from torchx.schedulers import DEFAULT_SCHEDULER_MODULES

    module = DEFAULT_SCHEDULER_MODULES.get(name)
    if module is None:
        kept = f"; take it out of {KEEP} to run it on asyncsched" if name in OURS else ""
        raise ModuleNotFoundError(f"this release of TorchX has no scheduler {name}{kept}")
    try:
        create = importlib.import_module(module).create_scheduler
    except NameError as error:  # in 0.7 the module for ray has one where ray is missing
        told = f"TorchX's own scheduler {name} cannot be imported: {type(error).__name__}: {error}"
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
