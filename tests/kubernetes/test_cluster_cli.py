"""The documents' commands, typed as they stand there, on a real cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli._cli import Cli
from tests.kubernetes._cluster_apps import KINDS
from tests.services.kubernetes.images import BUSYBOX
from tests.services.kubernetes.tenant import Tenant

pytestmark = [pytest.mark.service("cluster"), pytest.mark.slow]


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_is_run_told_and_read(kind: str, tenant: Tenant, tmp_path: Path) -> None:
    cli = Cli(tmp_path, {"KUBECONFIG": str(tenant.user)})
    cfg = f"namespace={tenant.namespace},queue=default,kind=volcano" if kind == "volcano" else "kind=job"
    if kind == "job":
        cfg += f",namespace={tenant.namespace}"
    command = ["run", "--scheduler", "kubernetes", "--scheduler_args", cfg, "utils.echo"]
    done = cli(*command, "--image", BUSYBOX, "--msg", "hello", "--num_replicas", "2")
    handle = done.lines[0]

    assert 0 == done.code, done.out + done.err
    assert handle.startswith("kubernetes://")
    assert f"/{tenant.namespace}:echo-" in handle
    waited = cli("wait", handle)
    assert 0 == waited.code, waited.out + waited.err
    assert "SUCCEEDED" in cli("status", handle).out
    assert ["echo/0 hello", "echo/1 hello"] == sorted(cli("log", handle).lines)
    assert handle.rpartition("/")[2] in cli("list", "--scheduler", "kubernetes").out
    tenant.clean()
