"""What the plugin sends is what TorchX's own schedulers send, but for what is listed here with its reason."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes_fake import FakeCluster
from tests.services.torchx_envs import TORCHX, TORCHX_NIGHTLY
from tests.torchx._program import TorchX
from tests.torchx.conftest import NIGHTLY_AND_HEAVY, ROOT

pytestmark = pytest.mark.slow

DIFFERENCES = {
    "local_cwd": {
        r"\.(grace_period|max_log_bytes|on_failure)": "run options that TorchX does not have",
        r"\.(log_dir|role_log_dirs\..*)": "logs are in the state directory, where other processes find them",
        r"\.role_params\..*\.(stdout|stderr|combined)": "the same; one pipe keeps the order of both streams",
        r"\.role_params\..*\.env\.(PET_LOG_DIR|TORCHELASTIC_ERROR_FILE|ASYNCSCHED_RESULT_FILE)": "the same",
        r"\.role_params\..*\.env\.PATH": "told as it will be, the submitter's included",
        r"\.role_params\..*\.env\.PYTHONUNBUFFERED": "told; TorchX sets it when it starts the process",
    },
    "local_docker": {
        r"\.(on_failure|pull|quiet|platform)": "run options that TorchX does not have, or keeps elsewhere",
        r"\.containers\[\d+\]\.(role|replica|stop_timeout|max_retries)": "told beside the labels",
        r"\.containers\[\d+\]\.kwargs\.labels\..*": "labels are called asyncsched",
        r"\.containers\[\d+\]\.kwargs\.network": "so is the network",
        r"\.containers\[\d+\]\.kwargs\.environment\.ASYNCSCHED_RESULT_FILE": "for results of replicas",
        r"\.containers\[\d+\]\.kwargs\.(name|hostname)": "names that are too long are hashed, not cut",
        r"\.containers\[\d+\]\.kwargs\.environment\.TORCHX_RANK0_HOST": "the same",
    },
    "aws_batch": {
        r"\.job_def\.jobDefinitionName": "a definition of the same content is used again",
        r"\.reuse": "the same",
        r"\.job_def\.nodeProperties\.nodeRangeProperties\[\d+\]\.targetNodes": "0 and 0:0 are the same nodes",
        r"\.job_def\.tags\.asyncsched/.*": "further tags; those of TorchX are there as well",
        r"\.job_def\.retryStrategy\.attempts": "max_retries=n gives n restarts, not n - 1",
        r"\..*\.command\[2\]": "${replica_id} of the only replica is 0, not a variable",
    },
    "gcp_batch": {
        r"\.job_def\.labels\..*": "labels are called asyncsched",
        r"\.job_def\.name": "told beside the job",
        r"\.request_id": "one that is sent twice submits once",
        r"\.job_def\.allocationPolicy\.instances\[0\]\.policy\.provisioningModel": "told; it is the default",
        r"\.job_def\.taskGroups\[0\]\.(requireHostsFile|taskCountPerNode|parallelism)": "only where replicas meet",
        r"\.job_def\.taskGroups\[0\]\.taskEnvironments.*": "${replica_id} is the service's own variable",
        r"\.job_def\.taskGroups\[0\]\.taskSpec\.displayName": "shown in the console",
        r"\.job_def\.taskGroups\[0\]\.taskSpec\.container\.options": "the host's network only where replicas meet",
        r"\.job_def\.taskGroups\[0\]\.taskSpec\.script\.text": "opens the firewall only where replicas meet",
        r"\.job_def\.taskGroups\[0\]\.taskSpec\.ignoreExitStatus": "a host without iptables needs none",
        r"\.job_def\.taskGroups\[0\]\.taskSpec\..*\.TORCHX_RANK0_HOST": "${rank0_env} of the only replica",
        r"\.job_def\.taskGroups\[0\]\.taskSpec\.container\.commands\[2\]": "the same",
        r"\.job_def\.taskGroups\[0\]\.taskSpec\.container\.volumes\[0\]": "TorchX sends no mounts",
    },
    "kubernetes": {
        r"\.resource\.metadata\.(annotations|labels)\..*": "how list and describe know the app",
        r"\.resource\.metadata\.namespace": "told; TorchX says it when it sends",
        r"\.resource\.spec(\.tasks\[0\])?\.maxRetry": "max_retries=n gives n restarts, not n - 1, nor 2 for 0",
        r"\.resource\.spec(\.tasks\[0\])?\.minAvailable": "told; it is the default",
        r"\.resource\.spec\.tasks\[0\]\.policies.*": "one policy of both events",
        r"\.resource\.spec\.tasks\[0\]\.(name|replicas)": "a role is one task, where TorchX makes one for each replica",
        r"\.resource\.spec\.tasks\[1\]\..*": "the same",
        r"\.resource\.spec\.tasks\[0\]\.template\.metadata\.labels\..*": "labels are called asyncsched",
        r"\.resource\.spec\.tasks\[0\]\..*\.env\.ASYNCSCHED_RESULT_FILE": "for results of replicas",
        r"\.resource\.spec\.tasks\[0\]\..*\.env\.TORCHX_RANK0_HOST": "a DNS name in every replica",
        r"\.resource\.spec\.tasks\[0\]\.template\.spec\.containers\[0\]\.name": "the container is called main",
        r"\.resource\.spec\.plugins\.svc\[1\]": "no network policy is made, which few users may",
    },
}
"""Where requests differ, by pattern of the path, and why. On Slurm all does: an app is one job, not one per replica."""

_IMAGE = "the image of the replica, told to no program here"
NIGHTLY = {
    "local_cwd": {},
    "local_docker": {r"\.containers\[\d+\]\.kwargs\.environment\.TORCHX_IMAGE": _IMAGE},
    "kubernetes": {r"\.resource\.spec\.tasks\[0\]\..*\.env\.TORCHX_IMAGE": _IMAGE},
}
"""Where, beside these, they differ from those of a nightly, which has fewer schedulers."""

WITH_KUBERNETES = "kubernetes==34.1.0"
CASES = [
    *(
        pytest.param(f"{TORCHX} {WITH_KUBERNETES}", name, differences, id=name)
        for name, differences in DIFFERENCES.items()
    ),
    *(
        pytest.param(
            f"{TORCHX_NIGHTLY} {WITH_KUBERNETES}",
            name,
            DIFFERENCES[name] | more,
            id=f"{name}-nightly",
            marks=pytest.mark.heavy("torchx"),
        )
        for name, more in NIGHTLY.items()
    ),
]


@pytest.fixture
def kubernetes(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment that leads to a cluster, which is asked how pods find each other."""
    with FakeCluster() as cluster:
        yield {"KUBECONFIG": str(cluster.kubeconfig(tmp_path / "kubeconfig"))}


@pytest.mark.parametrize(("torchx", "scheduler", "differences"), CASES, indirect=["torchx"])
def test_requests_are_those_of_torchx(
    torchx: TorchX, scheduler: str, differences: dict[str, str], kubernetes: dict[str, str]
) -> None:
    torchx.environment |= {
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
    } | kubernetes
    done = torchx.python((ROOT / "tests/torchx/both_requests.py").read_text(), scheduler)
    assert 0 == done.code, done.err
    pairs = json.loads(done.out)
    used, unlisted = set(), {}
    for component, (theirs, ours) in pairs.items():
        for path in {path for path in {*theirs, *ours} if theirs.get(path) != ours.get(path)}:
            listed = [pattern for pattern in differences if re.fullmatch(pattern, path)]
            used.update(listed)
            if not listed:
                unlisted[f"{component}{path}"] = theirs.get(path), ours.get(path)

    assert {} == unlisted
    assert {*differences} == used  # the list says nothing that is not so
    assert [] == [each["error"] for pair in pairs.values() for each in pair if "error" in each]


@pytest.mark.parametrize("torchx", [TORCHX], indirect=True)
def test_the_tags_of_torchx_are_sent(torchx: TorchX) -> None:
    torchx.environment |= {"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
    done = torchx.python((ROOT / "tests/torchx/both_requests.py").read_text(), "aws_batch")
    theirs, ours = json.loads(done.out)["echo"]
    tags = {path: value for path, value in theirs.items() if ".tags." in path}

    assert tags
    assert tags.items() <= ours.items()


@NIGHTLY_AND_HEAVY
@pytest.mark.parametrize("kubeconfig", ["nowhere", "dead"])
def test_a_dry_run_asks_no_cluster(torchx: TorchX, kubeconfig: str) -> None:
    torchx.folder.joinpath("dead").write_text(DEAD)
    dry_run = ["run", "--dryrun", "-s", "kubernetes", "-cfg", "queue=default", "--workspace", ""]
    done = torchx(*dry_run, "jobs.py:job", "--program", "true", KUBECONFIG=str(torchx.folder / kubeconfig))

    assert 0 == done.code, done.err
    assert "batch.volcano.sh/v1alpha1" in done.out


DEAD = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: u, user: {}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
"""


@pytest.mark.parametrize("torchx", [TORCHX], indirect=True)
def test_a_priority_without_a_share_is_left_out(torchx: TorchX) -> None:
    torchx.environment |= {"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
    dry_run = ["run", "--dryrun", "-s", "aws_batch", "--workspace", "", "-cfg"]
    job = ["jobs.py:job", "--program", "true"]
    alone = torchx(*dry_run, "queue=main,priority=3", *job)
    shared = torchx(*dry_run, "queue=main,priority=3,share_id=team", *job)

    assert 0 == alone.code, alone.err
    assert "schedulingPriority" not in alone.out
    assert "ignoring priority" in alone.err
    assert "schedulingPriority: 3" in shared.out, shared.err
