"""TorchX builds the image of a workspace, and the plugin pushes it to where the nodes pull it from."""

from __future__ import annotations

import base64
import http.client
import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.aws_emulator.cloud import Cloud
from tests.aws_emulator.containers import Containers
from tests.aws_emulator.server import Server
from tests.kubernetes_fake import FakeCluster
from tests.services.dockerd import BUSYBOX_IMAGE, Dockerd
from tests.services.registry import PASSWORD, USER, Registry
from tests.torchx._program import TorchX
from tests.torchx.conftest import NIGHTLY_AND_HEAVY, on_aws

pytestmark = [pytest.mark.slow, pytest.mark.service("dockerd", "registry")]

JOB = ("jobs.py:job", "--program", "cat hello.txt", "--image", BUSYBOX_IMAGE)


@pytest.fixture
def with_docker(torchx: TorchX, docker_host: str, logged_in: Path) -> TorchX:
    """TorchX's command line where Docker is, with the registry's login."""
    torchx.environment |= {"DOCKER_HOST": docker_host, "DOCKER_CONFIG": str(logged_in)}
    return torchx


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    folder.joinpath("hello.txt").write_text(f"hello {secrets.token_hex()}\n")
    return folder


@pytest.fixture
def repository(registry: Registry) -> str:
    return f"{registry.address}/team/{secrets.token_hex(4)}"


@pytest.fixture
def aws(dockerd: Dockerd) -> Iterator[Server]:
    """An emulator whose nodes are containers."""
    containers = Containers(dockerd.host)
    cloud = Cloud(run_node=containers)
    with Server(cloud) as server:
        yield server
    containers.close()
    assert [] == cloud.traffic.problems


def tags(repository: str) -> list[str]:
    """Return the tags that the registry has for a repository."""
    host, _, name = repository.partition("/")
    login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    connection = http.client.HTTPConnection(host, timeout=60)
    try:
        connection.request("GET", f"/v2/{name}/tags/list", headers={"Authorization": f"Basic {login}"})
        found = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    return list(found.get("tags") or ())


@NIGHTLY_AND_HEAVY
def test_nodes_of_aws_run_from_the_image_that_was_pushed(
    with_docker: TorchX, aws: Server, workspace: Path, repository: str
) -> None:
    with_docker.environment |= on_aws(aws)
    options = f"queue=default,image_repo={repository}"
    line = ["run", "-s", "aws_batch", "-cfg", options, "--workspace", f"file://{workspace}", "--wait", "--log", *JOB]
    run = with_docker(*line)

    assert (0, [f"main/0 {workspace.joinpath('hello.txt').read_text().strip()}"]) == (run.code, run.lines), run.err
    (job,) = aws.cloud.jobs
    assert [job.nodes[0].container["image"]] == [f"{repository}:{tag}" for tag in tags(repository)]


@NIGHTLY_AND_HEAVY
def test_pods_name_the_image_that_was_pushed(
    with_docker: TorchX, workspace: Path, repository: str, tmp_path: Path
) -> None:
    with FakeCluster() as cluster:
        with_docker.environment["KUBECONFIG"] = str(cluster.kubeconfig(tmp_path / "kubeconfig"))
        options = f"queue=default,image_repo={repository}"
        run = with_docker("run", "-s", "kubernetes", "-cfg", options, "--workspace", f"file://{workspace}", *JOB)
        assert 0 == run.code, run.err
        (job,) = cluster.run(lambda: cluster.store.list("vcjobs"))

    (container,) = job["spec"]["tasks"][0]["template"]["spec"]["containers"]
    assert [container["image"]] == [f"{repository}:{tag}" for tag in tags(repository)]


@NIGHTLY_AND_HEAVY
@pytest.mark.parametrize(("scheduler", "options"), [("aws_batch", "queue=default"), ("kubernetes", "queue=default")])
def test_without_a_repository_nothing_is_sent(
    with_docker: TorchX, aws: Server, workspace: Path, scheduler: str, options: str
) -> None:
    with_docker.environment |= on_aws(aws)
    run = with_docker("run", "-s", scheduler, "-cfg", options, "--workspace", f"file://{workspace}", *JOB)

    assert 0 != run.code
    assert "image_repo" in run.err
    assert [] == aws.cloud.jobs
