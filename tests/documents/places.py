"""Where rows run that need a service: one place for each backend that has landed, and the fake."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from asyncsched.clock import Clock
from asyncsched.schedulers import Scheduler
from asyncsched.schedulers._common.rate_limit import RateLimits
from asyncsched.schedulers.docker import DockerScheduler
from asyncsched.schedulers.kubernetes import KubernetesScheduler
from asyncsched.schedulers.local import LocalScheduler
from asyncsched.specs.run_options import CfgVal
from asyncsched.testing import FakeScheduler, FakeService
from tests.aws_batch.conftest import QUEUE, quick
from tests.gcp_batch.conftest import quick as on_google
from tests.gcp_double.server import PROJECT
from tests.services.dockerd import BUSYBOX_IMAGE

__all__ = ["PLACES", "Place"]


class Place(NamedTuple):
    """Where a backend's rows run.

    Attributes:
        make: Makes a scheduler of the session ``session``.
        fixtures: What each row needs around it.
        up: A fixture of the whole session that is brought up before.
        service: The mark of tests that need the service.
        image: An image that has a shell.
        cfg: Run options that every submit needs.
        tells_streams: Whether stdout and stderr are told apart.
        replicas: How many replicas a row may have that waits for the end of all. On AWS Batch a job is over with its
            main node, which the others may not outlive.
        roles: How many roles an app may have.
        unknown_id: An id that no app has.
    """

    make: Callable[[], Scheduler[Any, Any]]
    fixtures: tuple[str, ...] = ()
    up: str = ""
    service: str = ""
    image: str = "image"
    cfg: Mapping[str, CfgVal] = {}
    tells_streams: bool = True
    replicas: int = 2
    roles: int = 2
    unknown_id: str = "nosuchapp-x1"


PLACES: Mapping[str, Place] = {
    "fake": Place(lambda: FakeScheduler("session", FakeService(Clock(), start_delay=0.01))),
    "local_cwd": Place(lambda: LocalScheduler("session"), ("home",)),
    "local_docker": Place(
        lambda: DockerScheduler("session"),
        ("clean_daemon",),
        "dockerd",
        "dockerd",
        BUSYBOX_IMAGE,
        {"grace_period": 1.0},  # a shell that is process 1 does not obey TERM
    ),
    "aws_batch": Place(
        lambda: quick("session", limits=RateLimits(scale=100.0)),
        ("quick_server",),
        "",
        "aws",
        "busybox",
        {"queue": QUEUE},
        tells_streams=False,
        replicas=1,
        unknown_id="torchx:nosuchapp-x1",
    ),
    "kubernetes": Place(
        lambda: KubernetesScheduler("session"),
        ("cluster",),
        "",
        "kubernetes-fake",
        "busybox",
        {"queue": "default"},
        unknown_id="default:nosuchapp-x1",
    ),
    "gcp_batch": Place(
        lambda: on_google("session"),
        ("google",),
        "dockerd",
        "dockerd",
        BUSYBOX_IMAGE,
        {"replica_network": False},
        tells_streams=False,
        roles=1,
        unknown_id=f"{PROJECT}:us-central1:nosuchapp-x1",
    ),
}
