"""From apps to jobs: no cluster is needed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsched.errors import ConfigError, InvalidRequestError, RunOptionError
from asyncsched.schedulers import read_app_note
from asyncsched.schedulers.slurm import SlurmJob, SlurmOpts, SlurmTask
from asyncsched.schedulers.slurm.names import is_app_id, stem_of
from asyncsched.schedulers.slurm.request import make_request, to_wire
from asyncsched.schedulers.slurm.request_scripts import task_script
from asyncsched.schedulers.validation import check_app
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


def test_roles_of_each_size_are_a_component() -> None:
    """The roles are told in their own order nevertheless."""
    job = make(role("a", num_replicas=3, resource=SIZED), role("b"), role("c", resource=SIZED), comment="a b", qos="x")
    wire = to_wire(job, AppDef("job", [role("a"), role("b"), role("c")]), session="", digest="", created_ns=1)

    assert ["--ntasks=4", "--ntasks=1"] == [component[0] for component in job.components]
    assert [["a", "a", "a", "c"], ["b"]] == [[task.role for task in group] for group in job.tasks]
    assert 1 == wire.argv.count(":")
    assert [2, 2, 2] == [wire.argv.count(each) for each in ("--qos=x", "--job-name=job-x1", "--comment=a b")]
    assert [*"aaabc"] == [each.role for each in wire.record.replicas]
    assert ["task_stem=c-0", "task_stem=b-0"] == [wire.files[f"task.{rank}"].split()[0] for rank in (3, 4)]


def test_more_arguments_stand_before_what_an_app_is_known_by() -> None:
    argv = sent(make(role(), sbatch_args=["--exclusive", "-p", "gpu"]))

    assert argv.index("--exclusive") < argv.index("-p") < argv.index("--job-name=job-x1")
    assert ["-p", "gpu"] == argv[argv.index("-p") :][:2]
    assert "/shared/job-x1/batch.sh" == argv[-1]


@pytest.mark.parametrize(("seconds", "minutes"), [(1.0, "1"), (60.0, "1"), (61.0, "2"), (86400.0, "1440")])
def test_a_timeout_is_rounded_up_to_minutes(seconds: float, minutes: str) -> None:
    assert f"--time={minutes}" in make(role(), timeout=seconds).components[0]


def test_retries_are_of_a_replica_or_of_all() -> None:
    one = role("one", max_retries=2, retry_policy=RetryPolicy.REPLICA)
    job = make(one, role("all", max_retries=3), role("few", max_retries=1))

    assert (3, [2, 0, 0]) == (job.max_retries, [task.max_retries for task in job.tasks[0]])


@pytest.mark.parametrize("program", ["apptainer", "singularity", "enroot"])
def test_an_image_is_needed_where_a_program_runs_it(program: str) -> None:
    assert make(role(image="")).tasks
    with pytest.raises(ConfigError, match="'main' has no image; name the image"):
        make(role(image=""), container=program)


@pytest.mark.parametrize("program", ["apptainer", "singularity"])
def test_a_replica_runs_in_its_image(program: str) -> None:
    mounts = [BindMount("/data", "/in", read_only=True), BindMount("/out", "/out")]
    ((task,),) = make(role(image="/images/a.sif", mounts=mounts), container=program).tasks

    own = "/shared/job-x1:/shared/job-x1"
    binds = ["--bind", "/data:/in:ro", "--bind", "/out:/out", "--bind", own]
    assert [*binds, "/images/a.sif", "prog", "0"] == task.args[2:]
    assert [program, "exec"] == task.args[:2]
    assert "/work dir" == task.cwd


def test_a_replica_starts_in_its_image_or_where_it_was_submitted() -> None:
    assert ["/opt/app", "/work dir"] == [make(role(image=image)).tasks[0][0].cwd for image in ("/opt/app", "name:tag")]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"time": "soon"}, "time must be a limit in Slurm's form, got 'soon'"),
        ({"time": "10", "timeout": 5.0}, "time and timeout are both set"),
        ({"nodes": 0}, "nodes must be at least 1, got 0"),
        ({"partition": "a\nb"}, "partition must be one line of text"),
        ({"comment": " "}, "comment must be one line of text"),
        ({"prolog": "true\nfalse"}, "prolog must be one line of text"),
        ({"modules": ["gcc", ""]}, "modules must be names on one line, got ''"),
        ({"sbatch_args": ["--array=1-4"]}, "sbatch_args must not contain '--array=1-4'"),
        ({"sbatch_args": ["-p", "x", ":"]}, "sbatch_args must not contain ':'"),
        ({"sbatch_args": ["--wrap=true"]}, "sbatch_args must not contain '--wrap=true'"),
        ({"sbatch_args": [""]}, "sbatch_args must not contain ''"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(RunOptionError, match=told):
        make(role(), **options)


def test_a_directory_in_which_slurm_would_find_no_log_is_refused() -> None:
    with pytest.raises(RunOptionError, match="job_dir must not contain a backslash, got "):
        make_request(AppDef("job", [role()]), "job-x1", SlurmOpts(), job_dir="/a\\b", cwd="/")


@pytest.mark.parametrize("option", ["nodes", "ntasks_per_node"])
def test_a_job_of_components_is_not_spread(option: str) -> None:
    with pytest.raises(RunOptionError, match=f"{option} cannot be used for roles of different sizes"):
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
    assert secret not in json.dumps([wire.argv, asdict(wire.record)])


def test_a_request_that_was_made_by_hand_says_what_it_runs() -> None:
    tasks = [SlurmTask(["prog", "$x"], {"A": "1"}, role="w", replica=k) for k in range(2)]
    job = SlurmJob("a", "/d/a", [["--mem=1G", "-n", "2"]], [tasks], options=["--time=5"], prolog="x", requeue=True)
    record = to_wire(job, None, session="s", digest="d", created_ns=1).record

    assert [("w", 0, "w-0"), ("w", 1, "w-1")] == [(each.role, each.k, each.stem) for each in record.replicas]
    roles, _ = read_app_note(record.note)
    assert ["$x"] == roles[0].args
    told = r"role 'w': not all of it was kept.*made by hand: resource, .*made with --mem, -n, --time, prolog, requeue"
    with pytest.raises(ConfigError, match=told):
        check_app(AppDef("a", roles))


@pytest.mark.parametrize("tasks", [[], [[]], [[SlurmTask(["a"], {}), SlurmTask(["b"], {})]]])
def test_a_request_that_cannot_be_sent_is_refused(tasks: list[list[SlurmTask]]) -> None:
    with pytest.raises(InvalidRequestError, match="cannot be sent"):
        sent(SlurmJob("a", "/d/a", [[]], tasks))


def test_what_no_program_can_be_given_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match=r"U\+0000"):
        sent(SlurmJob("a", "/d/a", [[]], [[SlurmTask(["a\0"], {})]]))


def shells_own() -> list[str]:
    """The names in capitals that bash's program holds, also as the ends of others."""
    program = Path(shutil.which("bash") or "/bin/bash").read_bytes()
    words = {found.decode() for found in re.findall(rb"(?<![A-Za-z0-9_])[A-Z_][A-Z0-9_]{,29}(?=\0)", program)}
    return sorted({word[at:] for word in words for at in range(len(word)) if not word[at].isdigit()})


SHELLS_OWN = shells_own()


def said_by(argv: Sequence[str], env: dict[str, str]) -> list[str]:
    """What a program that a task's script runs says, and nothing else."""
    script = task_script(argv, env, stem="s", retries=0, rounds=0, stamps=False, cwd="/")
    done = subprocess.run(["bash", "-c", f"{script}\n(task_run)"], capture_output=True, check=True)
    assert b"" == done.stderr
    return done.stdout.decode().split("\0")[:-1]


def given_to_a_program(env: dict[str, str]) -> dict[str, str]:
    return dict(each.split("=", 1) for each in said_by(["/usr/bin/env", "-0"], env))


NAMES = (
    st.sampled_from(SHELLS_OWN) | st.from_regex(r"[A-Za-z_]\w{0,8}", fullmatch=True) | st.text("A.-=b %é", min_size=1)
)


@settings(max_examples=30)
@given(st.lists(TEXT, max_size=4), st.dictionaries(NAMES.filter(lambda name: "=" not in name), TEXT, max_size=3))
def test_a_shell_gives_a_program_what_was_written(args: list[str], env: dict[str, str]) -> None:
    assert args == said_by(["/usr/bin/printf", "%s\\0", *args], {})[: len(args)]

    found = given_to_a_program(env)
    assert env == {name: found.get(name) for name in env}


@pytest.mark.parametrize("value", ["x", "", "7", "a:b"])
def test_no_name_means_something_to_the_shell(value: str) -> None:
    """Each name that bash knows, from its own program."""
    env = dict.fromkeys(SHELLS_OWN, value)
    found = given_to_a_program(env)

    assert env == {name: found.get(name) for name in env}


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
