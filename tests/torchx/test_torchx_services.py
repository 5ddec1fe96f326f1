"""TorchX's command line on Docker, AWS Batch, Google Cloud Batch and Kubernetes: the tests' daemon and doubles."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.aws_emulator.cloud import Cloud
from tests.aws_emulator.server import Server
from tests.gcp_double.server import PROJECT, Double
from tests.kubernetes_fake import FakeCluster
from tests.services.dockerd import BUSYBOX_IMAGE
from tests.services.kubernetes.images import BUSYBOX
from tests.services.kubernetes.tenant import Tenant
from tests.services.slurm import SlurmCluster
from tests.services.torchx_envs import TORCHX, TORCHX_NIGHTLY
from tests.torchx._program import TorchX
from tests.torchx.conftest import NIGHTLY_AND_HEAVY, on_aws

LINES = 101


@dataclass(frozen=True, slots=True)
class Place:
    """A service, as TorchX's command line is told of it.

    Attributes:
        scheduler: Its name.
        torchx: The command line, which finds the service.
        options: Its run options.
        counting: The arguments of a component that writes `LINES` lines in each of two replicas.
        hanging: The arguments of one that writes a line and runs on.
    """

    scheduler: str
    torchx: TorchX
    options: str
    counting: list[str]
    hanging: list[str]

    def run(self, component: list[str], *more: str) -> list[str]:
        return ["run", "-s", self.scheduler, "-cfg", self.options, "--workspace", "", *more, "jobs.py:job", *component]


SHELL = {
    "counting": [
        "--program",
        f"i=0; while [ $$i -lt {LINES} ]; do echo line $$i; i=$$((i+1)); done",
        "--replicas",
        "2",
    ],
    "hanging": ["--program", "echo ready; exec sleep 3600"],
}


@pytest.fixture
def local_docker(torchx: TorchX, request: pytest.FixtureRequest) -> Place:
    torchx.environment["DOCKER_HOST"] = request.getfixturevalue("docker_host")
    image = ["--image", BUSYBOX_IMAGE]
    return Place("local_docker", torchx, "grace_period=1", SHELL["counting"] + image, SHELL["hanging"] + image)


@pytest.fixture
def aws_batch(torchx: TorchX) -> Iterator[Place]:
    cloud = Cloud()
    # The end of the main node is the end of the others, which are not to be stopped before they have counted.
    cloud.pace.stop_children, cloud.pace.waits_for_children = 600.0, True
    with Server(cloud) as server:
        torchx.environment |= on_aws(server)
        yield Place("aws_batch", torchx, "queue=default", SHELL["counting"], SHELL["hanging"])
    assert [] == cloud.traffic.problems


@pytest.fixture
def gcp_batch(torchx: TorchX, tmp_path: Path) -> Iterator[Place]:
    with Double() as double:
        key = tmp_path / "key.json"
        key.write_text(json.dumps(double.tokens.key_file(double.url)))
        torchx.environment |= {
            "GOOGLE_APPLICATION_CREDENTIALS": str(key),
            "GOOGLE_CLOUD_PROJECT": PROJECT,
            "CLOUDSDK_CONFIG": str(tmp_path / "gcloud"),
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_BATCH": double.url,
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING": double.url,
        }
        counting = json.dumps([["say", f"line {i}"] for i in range(LINES)])
        hanging = json.dumps([["say", "ready"], ["wait"]])
        played = ["--entrypoint", "play", "--first", "", "--program"]
        more = ["--replicas", "2"]
        yield Place("gcp_batch", torchx, "location=us-central1", [*played, counting, *more], [*played, hanging])
    assert [] == double.problems


@pytest.fixture
def kubernetes(torchx: TorchX, tmp_path: Path) -> Iterator[Place]:
    with FakeCluster() as cluster:
        torchx.environment["KUBECONFIG"] = str(cluster.kubeconfig(tmp_path / "kubeconfig"))
        yield Place("kubernetes", torchx, "queue=default", SHELL["counting"], SHELL["hanging"])
        assert [] == cluster.faults()


@pytest.fixture
def slurm_cluster(torchx: TorchX, slurm: SlurmCluster) -> Iterator[Place]:
    torchx.environment |= slurm.environ
    yield Place("slurm", torchx, "time=10", SHELL["counting"], SHELL["hanging"])
    slurm.clean()


@pytest.fixture
def kubernetes_cluster(torchx: TorchX, tenant: Tenant) -> Iterator[Place]:
    torchx.environment["KUBECONFIG"] = str(tenant.user)
    image = ["--image", BUSYBOX]
    options = f"queue=default,namespace={tenant.namespace}"
    yield Place("kubernetes", torchx, options, SHELL["counting"] + image, SHELL["hanging"] + image)
    tenant.clean()


@pytest.fixture
def place(request: pytest.FixtureRequest, torchx: TorchX) -> Place:
    made: Place = request.getfixturevalue(request.param)
    return made


def start(place: Place) -> str:
    """Have an app run on in the background, and return its handle: TorchX waits for those of local schedulers."""
    command = place.run(place.hanging)
    if not place.scheduler.startswith("local"):
        return place.torchx(*command).handle
    running = place.torchx.start(*command)
    assert running.stdout is not None
    for line in running.stdout:
        if line.startswith(f"{place.scheduler}://"):
            threading.Thread(target=running.communicate, daemon=True).start()
            return line.strip()
    pytest.fail("it has not been submitted")


def missing(lines: list[str], shown: list[str]) -> list[str]:
    """Return the lines that are not among those that are shown, each as often as it is not."""
    return [*(Counter(lines) - Counter(shown)).elements()]


PLACES = {
    "local_docker": "dockerd",
    "aws_batch": "aws",
    "gcp_batch": "gcp",
    "kubernetes": "kubernetes-fake",
    "slurm_cluster": "slurm",
    "kubernetes_cluster": "cluster",
}
HEAVY = pytest.mark.heavy("torchx")
EVERYWHERE = [
    pytest.param(
        torchx,
        place,
        marks=[
            pytest.mark.service(service),
            *([HEAVY] if torchx == TORCHX or service in ("slurm", "cluster") else []),
        ],
        id=f"{place}-{torchx}",
    )
    for torchx in (TORCHX_NIGHTLY, TORCHX)
    for place, service in PLACES.items()
]


@pytest.mark.slow
@pytest.mark.parametrize(("torchx", "place"), EVERYWHERE, indirect=True)
def test_an_app_is_run_followed_listed_cancelled_and_deleted(place: Place) -> None:
    torchx = place.torchx
    written = sorted(f"main/{k} line {i}" for k in range(2) for i in range(LINES))
    run = torchx(*place.run(place.counting, "--wait", "--log"))
    assert (0, [], []) == (run.code, missing(written, run.lines), missing(run.lines, written)), run.err
    assert written == torchx("log", run.handle).lines

    handle = start(place)
    following = torchx.start("log", "-t", handle)
    assert following.stdout is not None
    while "main/0 ready" not in (line := following.stdout.readline()):
        assert line, "the log has ended"
    listed = torchx("list", "-s", place.scheduler)
    assert {run.handle, handle} <= set(listed.out.split()), listed.err
    assert "RUNNING" in torchx("status", handle).out
    assert "'name': 'main'" in torchx("describe", handle).out

    cancelled = torchx("cancel", handle)
    assert 0 == cancelled.code, cancelled.err
    rest, _ = following.communicate(timeout=240)
    assert 0 == following.returncode, rest
    assert "CANCELLED" in torchx("status", handle).out
    if not torchx.is_old:
        deleted = torchx("delete", run.handle)
        assert 0 == deleted.code, deleted.err
        assert run.handle not in torchx("list", "-s", place.scheduler).out.split()


@pytest.mark.slow
@pytest.mark.service("dockerd")
@NIGHTLY_AND_HEAVY
def test_a_workspace_is_laid_over_the_image(local_docker: Place, tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    workspace.joinpath("hello.txt").write_text("hello from the workspace\n")
    torchx = local_docker.torchx
    line = ["run", "-s", "local_docker", "--workspace", f"file://{workspace}", "jobs.py:job"]
    run = torchx(*line, "--program", "cat hello.txt", "--image", BUSYBOX_IMAGE)

    assert (0, ["main/0 hello from the workspace"]) == (run.code, run.lines), run.err
