"""From apps to jobs: no cluster is needed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched.errors import ConfigError, InvalidRequestError, RunOptionError
from asyncsched.schedulers import read_app_note
from asyncsched.schedulers.prepare import check_app
from asyncsched.schedulers.slurm import SlurmJob, SlurmOpts, SlurmTask
from asyncsched.schedulers.slurm.names import is_app_id, stem_of
from asyncsched.schedulers.slurm.request import make_request, to_wire
from asyncsched.schedulers.slurm.request_scripts import task_script
from asyncsched.specs import AppDef, BindMount, Resource, RetryPolicy, Role, Secret

SIZED = Resource(3, 2, 1000)
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


def make(*roles: Role, **options: Any) -> SlurmJob:
    return make_request(AppDef("job", [*roles]), "job-x1", SlurmOpts(**options), job_dir="/shared", cwd="/work dir")


def role(name: str = "main", **more: Any) -> Role:
    return Role(name, more.pop("image", ""), entrypoint="prog", args=["${replica_id}"], **more)


def sent(job: SlurmJob) -> list[str]:
    return [*to_wire(job, None, session="s", digest="d", created_ns=1).argv]


def test_roles_of_one_size_are_one_plain_job() -> None:
    job = make(role("a", num_replicas=3, resource=SIZED), role("b", num_replicas=2, resource=SIZED), nodes=2)

    assert [
        ["--ntasks=5", "--cpus-per-task=3", "--mem-per-cpu=334", "--gpus-per-task=2", "--nodes=2"]
    ] == job.components
    assert [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)] == [(task.role, task.replica) for task in job.tasks[0]]
    assert ":" not in sent(job)


def test_roles_of_different_sizes_are_a_component_each() -> None:
    job = make(role("a", num_replicas=3, resource=SIZED), role("b"), role("c"), partition="gpu", comment="a b")
    argv = sent(job)

    assert ["--ntasks=3", "--ntasks=1", "--ntasks=1"] == [component[0] for component in job.components]
    assert 2 == argv.count(":")
    assert [3, 3, 3] == [argv.count(each) for each in ("--partition=gpu", "--job-name=job-x1", "--comment=a b")]
    assert "srun" in to_wire(job, None, session="", digest="", created_ns=1).files["batch.sh"]


def test_what_an_app_is_known_by_cannot_be_overruled() -> None:
    argv = sent(make(role(), sbatch_args=["--job-name=another", "--chdir=/", "--exclusive"]))

    assert "--exclusive" in argv
    assert argv.index("--job-name=another") < argv.index("--job-name=job-x1")
    assert argv.index("--chdir=/") < argv.index("--chdir=/shared/job-x1")
    assert "/shared/job-x1/batch.sh" == argv[-1]


@pytest.mark.parametrize(("seconds", "minutes"), [(1.0, "1"), (60.0, "1"), (61.0, "2"), (86400.0, "1440")])
def test_a_timeout_is_rounded_up_to_minutes(seconds: float, minutes: str) -> None:
    assert f"--time={minutes}" in make(role(), timeout=seconds).components[0]


def test_retries_are_of_a_replica_or_of_all() -> None:
    one = role("one", max_retries=2, retry_policy=RetryPolicy.REPLICA)
    job = make(one, role("all", max_retries=3), role("few", max_retries=1))

    assert (3, [2, 0, 0]) == (job.max_retries, [task.max_retries for task in job.tasks[0]])


@pytest.mark.parametrize("program", ["apptainer", "singularity"])
def test_a_replica_runs_in_its_image(program: str) -> None:
    mounts = [BindMount("/data", "/in", read_only=True), BindMount("/out", "/out")]
    ((task,),) = make(role(image="/images/a.sif", mounts=mounts), container=program).tasks

    assert ["--bind", "/data:/in:ro", "--bind", "/out:/out", "/images/a.sif", "prog", "0"] == task.args[2:]
    assert [program, "exec"] == task.args[:2]
    assert "/work dir" == task.cwd


def test_a_replica_starts_in_its_image_or_where_it_was_submitted() -> None:
    assert ["/opt/app", "/work dir"] == [make(role(image=image)).tasks[0][0].cwd for image in ("/opt/app", "name:tag")]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"time": "soon"}, "time must be a limit that Slurm reads, got 'soon'"),
        ({"time": "10", "timeout": 5.0}, "time and timeout both limit the app"),
        ({"nodes": 0}, "nodes must be at least 1, got 0"),
        ({"partition": "a\nb"}, "partition must be text on one line"),
        ({"comment": " "}, "comment must be text on one line"),
        ({"prolog": "true\nfalse"}, "prolog must be text on one line"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(RunOptionError, match=told):
        make(role(), **options)


@pytest.mark.parametrize("option", ["nodes", "ntasks_per_node"])
def test_a_job_of_components_is_not_spread(option: str) -> None:
    with pytest.raises(RunOptionError, match=f"{option} is for an app whose roles are of one size"):
        make(role("a", resource=SIZED), role("b"), **{option: 2})


@pytest.mark.parametrize("time", ["90", "1:30:00", "2-12", "2-12:30", "30:00", "UNLIMITED"])
def test_limits_as_slurm_writes_them_are_taken(time: str) -> None:
    assert f"--time={time}" in make(role(), time=time).components[0]


def test_no_secret_is_in_what_the_cluster_is_told() -> None:
    secret = "very-secret"
    wire = to_wire(
        make(role(env={"API_TOKEN": secret, "B": Secret(secret)})), None, session="", digest="", created_ns=1
    )
    holding = [name for name, text in wire.files.items() if secret in text]

    assert ["task.0"] == holding
    assert secret not in json.dumps([wire.argv, wire.record])


def test_a_request_that_was_made_by_hand_says_what_it_runs() -> None:
    tasks = [SlurmTask(["prog", "$x"], {"A": "1"}, role="w", replica=k) for k in range(2)]
    record = to_wire(SlurmJob("a", "/d/a", [[]], [tasks]), None, session="s", digest="d", created_ns=1).record

    assert [("w", 0, "w-0"), ("w", 1, "w-1")] == [
        (each["role"], each["k"], each["stem"]) for each in record["replicas"]
    ]
    assert ["$x"] == record["note"]["roles"][0]["args"]
    with pytest.raises(ConfigError, match=r"role 'w': not all of it was kept.*made by hand: resource, mounts"):
        check_app(AppDef("a", read_app_note(record["note"])[0]))


@pytest.mark.parametrize("tasks", [[], [[]], [[SlurmTask(["a"], {}), SlurmTask(["b"], {})]]])
def test_a_request_that_cannot_be_sent_is_refused(tasks: list[list[SlurmTask]]) -> None:
    with pytest.raises(InvalidRequestError, match="cannot be sent"):
        sent(SlurmJob("a", "/d/a", [[]], tasks))


def test_what_no_program_can_be_given_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match=r"U\+0000"):
        sent(SlurmJob("a", "/d/a", [[]], [[SlurmTask(["a\0"], {})]]))


@given(
    st.lists(TEXT, max_size=4), st.dictionaries(st.from_regex(r"[A-Za-z_]\w{0,8}", fullmatch=True), TEXT, max_size=3)
)
def test_a_shell_gives_a_program_what_was_written(args: list[str], env: dict[str, str]) -> None:
    env = {f"X_{name}": value for name, value in env.items() if name.isascii()}
    names = "".join(f' "${name}"' for name in env)
    show = ["sh", "-c", f"printf '%s\\0' \"$@\"{names}", "show", *args]
    script = task_script(show, env, stem="s", retries=0, stamps=False, cwd="/")
    done = subprocess.run(["bash", "-c", f"{script}\ntask_run"], capture_output=True, check=True)

    assert [*args, *env.values()] == (done.stdout.decode().split("\0")[:-1] if args or env else [])


@given(TEXT, st.integers(0, 10**6))
def test_any_role_has_files_below_its_directory(name: str, replica: int) -> None:
    stem = stem_of(name, replica)

    assert Path(stem).name == stem
    assert not stem.startswith(".")
    assert len(stem.encode()) < 200
    assert stem != stem_of(name + "x", replica)


@pytest.mark.parametrize("text", ["", ".", "..", "a/b", "-x", "a b", "a\n", "é", "a" * 129])
def test_what_names_no_directory_is_no_id(text: str) -> None:
    assert not is_app_id(text)
