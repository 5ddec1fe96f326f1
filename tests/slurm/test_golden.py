"""What the cluster is asked for, as a whole: a change of it is a change for everybody, and is to be seen here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from asyncsched.schedulers.slurm import SlurmOpts
from asyncsched.schedulers.slurm.request import make_request, to_wire
from asyncsched.specs import AppDef, BindMount, Resource, RetryPolicy, Role

GOLDEN = Path(__file__).parent / "golden"

TRAINER = Role(
    "trainer", "", entrypoint="train", args=["--rank", "${replica_id}", "a b", "it's"], num_replicas=2, max_retries=1
)
GPUS = Resource(4, 2, 1000)
EVERY_OPTION: dict[str, Any] = {
    "partition": "gpu",
    "account": "lab",
    "qos": "high",
    "time": "1-12",
    "constraint": "a100&ib",
    "nodelist": "n[1-2]",
    "exclude": "n4",
    "nodes": 2,
    "ntasks_per_node": 1,
    "comment": "a comment, with a comma",
    "mail_user": "me@example.org",
    "mail_type": "END,FAIL",
    "reservation": "course",
    "gres": "gpu:2",
    "requeue": True,
    "sbatch_args": ["--exclusive", "--nice=10"],
    "modules": ["cuda/12", "python 3"],
    "prolog": 'echo "on $HOSTNAME"',
    "timestamps": True,
    "pending_timeout": 60.0,
}
REQUESTS: dict[str, tuple[list[Role], dict[str, Any]]] = {
    "plain": ([TRAINER], {}),
    "components": (
        [
            Role("gpu", "", entrypoint="train", num_replicas=6, resource=GPUS, max_retries=2),
            Role("ps", "", entrypoint="serve", num_replicas=3, retry_policy=RetryPolicy.REPLICA, max_retries=5),
        ],
        {"partition": "gpu", "timeout": 90.0},
    ),
    "every_option": ([TRAINER], EVERY_OPTION),
    "apptainer": (
        [Role("main", "/images/a.sif", entrypoint="python", mounts=[BindMount("/data", "/in", read_only=True)])],
        {"container": "apptainer"},
    ),
    "singularity": (
        [Role("main", "docker://alpine", entrypoint="sh", args=["-c", "true"])],
        {"container": "singularity"},
    ),
    "enroot": (
        [Role("main", "/images/a.sqsh", entrypoint="python", mounts=[BindMount("/data", "/in")], env={"A": "1"})],
        {"container": "enroot"},
    ),
}


def text_of(roles: list[Role], options: dict[str, Any], *, in_workspace: bool = False) -> str:
    app = AppDef("job", roles)
    job = make_request(
        app, "job-x1", SlurmOpts(**options), job_dir="/shared", cwd="/home/me", in_workspace=in_workspace
    )
    wire = to_wire(job, app, session="s", digest="d", created_ns=1)
    parts = ["\n".join(wire.argv), *(f"--- {name}\n{text}" for name, text in wire.files.items() if name != "run.sh")]
    return "\n".join(parts)


def check(name: str, text: str) -> None:
    path = GOLDEN / f"{name}.txt"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        pytest.fail(f"{path} was not there; it is now: read it")

    assert path.read_text() == text


@pytest.mark.parametrize("name", REQUESTS)
def test_what_is_asked_for_is_what_it_was(name: str) -> None:
    check(name, text_of(*REQUESTS[name]))


def test_what_is_asked_for_with_a_workspace_is_what_it_was() -> None:
    check("workspace", text_of(*REQUESTS["apptainer"], in_workspace=True))
