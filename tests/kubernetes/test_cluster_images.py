"""Pods of a real cluster pull the image of a workspace from a real registry, with the Secret that they are given."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from asyncsched.errors import RunOptionError
from asyncsched.schedulers.kubernetes import KubernetesScheduler
from asyncsched.specs import AppState
from asyncsched.testing.contract import ContractRig
from asyncsched.testing.contract.workspaces import WorkspaceContract
from tests.kubernetes._cluster_apps import KINDS, app, ended, options
from tests.services.dockerd import BUSYBOX_IMAGE
from tests.services.kubernetes.cluster import Cluster
from tests.services.kubernetes.tenant import Tenant
from tests.services.registry import PASSWORD, USER, Registry

pytestmark = [
    pytest.mark.service("cluster"),
    pytest.mark.heavy("kubernetes"),
    pytest.mark.one_loop,
    pytest.mark.usefixtures("docker_host", "logged_in", "registry_inside"),
]

WITHIN = 120.0
SECRET = "registry-login"


@pytest.fixture
def registry_inside(own_cluster: Cluster, registry: Registry) -> Iterator[None]:
    """The registry at the same address in the cluster's own network, on the same files."""
    program = shutil.which("docker-registry")
    assert program is not None
    own_cluster.run("registry", [program, *registry.command[1:]])
    yield
    own_cluster.stop("registry")


@pytest.fixture
async def scheduler(tenant: Tenant) -> AsyncIterator[KubernetesScheduler]:
    async with KubernetesScheduler("mine", kubeconfig=str(tenant.user), namespaces=[tenant.namespace]) as made:
        yield made
    await asyncio.to_thread(tenant.clean)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "file").write_text(f"{secrets.token_hex()}\n")
    return root


def make_secret(tenant: Tenant, registry: Registry) -> None:
    auth = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    config = base64.b64encode(json.dumps({"auths": {registry.address: {"auth": auth}}}).encode()).decode()
    body = {
        "metadata": {"name": SECRET},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": config},
    }
    if tenant.api.find(tenant.path(f"secrets/{SECRET}")) is None:
        tenant.api.call("POST", tenant.path("secrets"), body)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_pod_pulls_the_workspace_with_the_secret_and_says_why_it_cannot_without(
    kind: str, scheduler: KubernetesScheduler, tenant: Tenant, registry: Registry, workspace: Path
) -> None:
    make_secret(tenant, registry)
    cfg = options(kind, tenant.namespace, image_repo=f"{registry.address}/team/{kind}")
    asked = app("cat file", image=BUSYBOX_IMAGE)

    refused = await scheduler.submit(asked, cfg, str(workspace))
    seen: list[str] = []
    async with asyncio.timeout(WITHIN):
        async with scheduler.watch([refused]) as watch:
            async for event in watch:
                seen.append(event.current.msg if event.current is not None else "")
                if any(word in seen[-1] for word in ("authoriz", "authentication", "basic auth")):
                    break
    await scheduler.cancel(refused)

    info = await scheduler.submit_dryrun(asked, {**cfg, "image_secret": SECRET}, str(workspace))
    app_id = await scheduler.schedule(info)
    async with asyncio.timeout(WITHIN):
        lines = [line.text async for line in scheduler.log_iter(app_id, should_tail=True)]
        end = await ended(scheduler, app_id)

    assert "ImagePull" in seen[-1] or "pull" in seen[-1], seen
    assert [(workspace / "file").read_text().strip()] == lines
    assert AppState.SUCCEEDED == end.state
    ((name, (repository, tag)),) = info.request.images_to_push.items()
    assert f"{repository}:{tag}" == name


@pytest.mark.parametrize("kind", KINDS)
class TestWorkspaceContract(WorkspaceContract):
    """What the contract says of workspaces, with images that the nodes pull."""

    @pytest.fixture
    async def rig(self, kind: str, scheduler: KubernetesScheduler, tenant: Tenant, registry: Registry) -> ContractRig:
        make_secret(tenant, registry)
        return ContractRig(
            scheduler,
            another=lambda: KubernetesScheduler("other", kubeconfig=str(tenant.user), namespaces=[tenant.namespace]),
            cfg=options(kind, tenant.namespace, image_repo=f"{registry.address}/contract", image_secret=SECRET),
            image=BUSYBOX_IMAGE,
            patience=WITHIN,
        )


async def test_nowhere_to_push_is_said_at_dry_run(
    scheduler: KubernetesScheduler, tenant: Tenant, workspace: Path
) -> None:
    with pytest.raises(RunOptionError, match="kubernetes needs the run option image_repo"):
        await scheduler.submit_dryrun(app("true"), options("job", tenant.namespace), str(workspace))
