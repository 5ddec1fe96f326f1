"""``slurm``: an app's replicas as the tasks of one job on a Slurm cluster, with the cluster's own commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asyncsched import _lazy

if TYPE_CHECKING:
    from asyncsched.schedulers.slurm.options import SlurmOpts as SlurmOpts
    from asyncsched.schedulers.slurm.request import SlurmJob as SlurmJob
    from asyncsched.schedulers.slurm.request import SlurmTask as SlurmTask
    from asyncsched.schedulers.slurm.scheduler import SlurmScheduler as SlurmScheduler
    from asyncsched.schedulers.slurm.scheduler import create_scheduler as create_scheduler

__all__ = ["SlurmJob", "SlurmOpts", "SlurmScheduler", "SlurmTask", "create_scheduler"]

_HOMES = {
    "SlurmJob": "asyncsched.schedulers.slurm.request",
    "SlurmOpts": "asyncsched.schedulers.slurm.options",
    "SlurmScheduler": "asyncsched.schedulers.slurm.scheduler",
    "SlurmTask": "asyncsched.schedulers.slurm.request",
    "create_scheduler": "asyncsched.schedulers.slurm.scheduler",
}

__getattr__ = _lazy.lazily(__name__, _HOMES)
__dir__ = _lazy.names_in(__name__, _HOMES)
