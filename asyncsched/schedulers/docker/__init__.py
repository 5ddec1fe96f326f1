"""``local_docker``: an app's replicas as containers on a Docker daemon."""

from __future__ import annotations

from asyncsched.schedulers.docker.options import DockerOpts
from asyncsched.schedulers.docker.request import DockerContainer, DockerJob
from asyncsched.schedulers.docker.scheduler import DockerScheduler, create_scheduler

__all__ = ["DockerContainer", "DockerJob", "DockerOpts", "DockerScheduler", "create_scheduler"]
