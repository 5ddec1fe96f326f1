"""``local_docker``: an app's replicas as containers on a Docker daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asyncsched import _lazy

if TYPE_CHECKING:
    from asyncsched.schedulers.docker.options import DockerOpts as DockerOpts
    from asyncsched.schedulers.docker.request import DockerContainer as DockerContainer
    from asyncsched.schedulers.docker.request import DockerJob as DockerJob
    from asyncsched.schedulers.docker.scheduler import DockerScheduler as DockerScheduler
    from asyncsched.schedulers.docker.scheduler import create_scheduler as create_scheduler

__all__ = ["DockerContainer", "DockerJob", "DockerOpts", "DockerScheduler", "create_scheduler"]

_HOMES = {
    "DockerContainer": "asyncsched.schedulers.docker.request",
    "DockerJob": "asyncsched.schedulers.docker.request",
    "DockerOpts": "asyncsched.schedulers.docker.options",
    "DockerScheduler": "asyncsched.schedulers.docker.scheduler",
    "create_scheduler": "asyncsched.schedulers.docker.scheduler",
}

__getattr__ = _lazy.lazily(__name__, _HOMES)
__dir__ = _lazy.names_in(__name__, _HOMES)
