"""What the commands say of apps that no cluster has: which one was asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli._cli import Cli
from tests.kubernetes_fake import FakeCluster

pytestmark = [pytest.mark.service("kubernetes-fake"), pytest.mark.one_loop]


@pytest.mark.parametrize("verb", ["status", "describe", "wait", "cancel", "delete", "log"])
def test_an_unknown_app_is_told_with_the_cluster_and_the_namespace_that_were_asked(
    verb: str, fake: FakeCluster, tmp_path: Path
) -> None:
    cli = Cli(tmp_path, {"KUBECONFIG": str(fake.kubeconfig(tmp_path / "kubeconfig"))})
    done = cli(verb, "kubernetes://session/default:nosuch-x1")

    assert 4 == done.code, done.out + done.err
    assert f"no app default:nosuch-x1 on kubernetes in {fake.url} (context fake)" in done.err
