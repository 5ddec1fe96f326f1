"""Apps on a real cluster of four nodes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import socket
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from asyncsched.components.dist import ddp
from asyncsched.errors import InvalidRequestError, PermissionDeniedError, UnavailableError
from asyncsched.schedulers.slurm import SlurmScheduler
from asyncsched.specs import AppDef, AppState, FailureCause, Resource, RetryPolicy, Role, Secret, macros
from asyncsched.specs.result import UnreadableResult
from asyncsched.specs.stream import Stream
from tests._support import eventually
from tests.services.slurm import SlurmCluster
from tests.slurm._apps import PATIENCE, app, ended, run, said, seen, shell

pytestmark = pytest.mark.service("slurm")

MARKER = "very-secret-9f1c"
RANK0 = '"${%s:-none}"'


@pytest.mark.parametrize("replicas", [16, pytest.param(200, marks=pytest.mark.slow)])
async def test_more_replicas_than_nodes_start_and_end(scheduler: SlurmScheduler, replicas: int) -> None:
    found = await run(scheduler, app("echo $SLURMD_NODENAME", num_replicas=replicas), nodes=4)
    told = await said(scheduler, found.app_id)

    assert [AppState.SUCCEEDED] * replicas == [replica.state for replica in found.replicas]
    assert {"n1", "n2", "n3", "n4"} == {replica.hostname for replica in found.replicas}
    assert [[replica.hostname] for replica in found.replicas] == [told["main", k] for k in range(replicas)]


async def test_roles_of_different_sizes_know_their_numbers_and_rank_0(scheduler: SlurmScheduler) -> None:
    script = f"echo ${{role}} ${{replica_id}} $SLURM_CPUS_ON_NODE; eval echo {RANK0 % '${rank0_env}'}".replace(
        "${role}", "$ROLE"
    )
    roles = [
        shell(script, "trainer", num_replicas=3, env={"ROLE": "t"}, resource=Resource(2, 0, 64)),
        shell(script, "ps", num_replicas=2, env={"ROLE": "p"}, resource=Resource(1, 0, 32)),
    ]
    found = await run(scheduler, app(*roles))
    told = await said(scheduler, found.app_id)

    assert AppState.SUCCEEDED == found.state
    assert {("trainer", 0), ("trainer", 1), ("trainer", 2), ("ps", 0), ("ps", 1)} == {*told}
    assert all(lines[0].startswith(f"{role[0]} {k} ") for (role, k), lines in told.items())
    assert {"127.0.0.1"} == {lines[1] for lines in told.values()}


async def test_variables_and_arguments_arrive_as_they_were_written(scheduler: SlurmScheduler) -> None:
    env = {
        "COMMAS": "1,2 x=y",
        "LINES": "one\ntwo 'q' \"$HOME\" `id` \\n",
        "task_stem": "not ours",
        "task_code": "7",
        "IFS": "x",
        "A.B": "dotted",
        "UID": "4711",
        "RANDOM": "not at all",
        "SECONDS": "none",
        "BASH_ENV": "/nowhere",
        "_": "ours",
        "PATH": "/nowhere",
    }
    program = "import os, sys, json; print(json.dumps([sys.argv[1:], {k: os.environ.get(k) for k in %r}]))" % [*env]
    args = ["-c", program, "a b", "$HOME", "", "'", "\n", "snow ☃", "--x=*"]
    found = await run(scheduler, AppDef("job", [Role("main", "", entrypoint=sys.executable, args=args, env=env)]))
    ((line,),) = (await said(scheduler, found.app_id)).values()

    assert [args[2:], env] == json.loads(line)


async def test_a_program_with_an_equals_sign_in_its_name_gets_its_variables(
    scheduler: SlurmScheduler, tmp_path: Path
) -> None:
    program = tmp_path / "a=b"
    program.symlink_to("/usr/bin/env")
    role = Role("main", "", entrypoint=str(program), args=["-u", "HOME"], env={"A.B": "dotted"})
    found = await run(scheduler, AppDef("job", [role]))
    (told,) = (await said(scheduler, found.app_id)).values()

    assert "A.B=dotted" in told
    assert not any(line.startswith((f"{program}", "HOME=")) for line in told)


async def test_a_replica_is_started_again_by_itself(scheduler: SlurmScheduler) -> None:
    script = "echo try; test -e $ASYNCSCHED_RESULT_FILE || { echo 1 >$ASYNCSCHED_RESULT_FILE; exit 3; }"
    again = shell(script, "again", max_retries=2, retry_policy=RetryPolicy.REPLICA)
    found = await run(scheduler, app(again, shell("echo once", "other")))

    assert AppState.SUCCEEDED == found.state
    assert [("again", 1), ("other", 0)] == [(replica.role, replica.num_restarts) for replica in found.replicas]
    assert {("again", 0): ["try", "try"], ("other", 0): ["once"]} == await said(scheduler, found.app_id)
    assert {("again", 0): ["try"]} == await said(scheduler, found.app_id, attempts=1)


async def test_a_result_that_is_no_plain_file_is_told(scheduler: SlurmScheduler) -> None:
    scripts = {
        "link": "ln -s /etc/hostname $ASYNCSCHED_RESULT_FILE",
        "pipe": "mkfifo $ASYNCSCHED_RESULT_FILE",
        "directory": "mkdir $ASYNCSCHED_RESULT_FILE",
        "none": "true",
    }
    found = await run(scheduler, app(*(shell(script, name) for name, script in scripts.items())))
    results = await scheduler.results(found.app_id) or {}

    assert {("link", 0), ("pipe", 0), ("directory", 0)} == {*results}
    assert all(isinstance(result, UnreadableResult) for result in results.values())


async def test_all_replicas_are_started_again_together(scheduler: SlurmScheduler) -> None:
    script = "echo try; test -e $ASYNCSCHED_RESULT_FILE || { echo 1 >$ASYNCSCHED_RESULT_FILE; exit 3; }"
    waits = "test -e $ASYNCSCHED_RESULT_FILE || { echo 1 >$ASYNCSCHED_RESULT_FILE; exec sleep 3600; }"
    found = await run(scheduler, app(shell(script, "fails", max_retries=1), shell(waits, "waits")))

    assert AppState.SUCCEEDED == found.state
    assert [1, 1] == [replica.num_restarts for replica in found.replicas]


async def test_cancel_ends_an_app_that_is_started_again_and_again(scheduler: SlurmScheduler) -> None:
    app_id = await scheduler.submit(app("exit 1", max_retries=1_000_000))
    async with asyncio.timeout(PATIENCE), scheduler.watch([app_id]) as watch:
        async for event in watch:
            if event.current is not None and (event.current.replicas[0].num_restarts or 0) > 1:
                break
    await scheduler.cancel(app_id)

    assert AppState.CANCELLED == (await ended(scheduler, app_id)).state


@pytest.mark.parametrize(
    ("arguments", "reason", "cause"),
    [
        (["--hold"], "JobHeldUser", None),
        (["--begin=now+1hour"], "BeginTime", None),
        (["--nodes=8"], "PartitionNodeLimit", FailureCause.UNSCHEDULABLE),
        (["--nodelist=n4", "--exclusive"], "Resources", None),
    ],
)
async def test_what_an_app_waits_for_is_told(
    scheduler: SlurmScheduler, arguments: list[str], reason: str, cause: FailureCause | None
) -> None:
    if reason == "Resources":
        holder = await scheduler.submit(app("exec sleep 3600"), {"nodelist": "n4"})
        await seen(scheduler, holder, lambda found: found.state is AppState.RUNNING)
    app_id = await scheduler.submit(app("true", num_replicas=8), {"sbatch_args": arguments})
    # Two parts of Slurm look at a job in turns, and the first says less.
    found = await seen(scheduler, app_id, lambda found: found.msg == reason)
    await scheduler.cancel(app_id)

    assert (AppState.PENDING, cause) == (found.state, found.cause)
    assert AppState.CANCELLED == (await ended(scheduler, app_id)).state


async def test_a_job_that_gives_way_to_another_is_told(scheduler: SlurmScheduler) -> None:
    whole: dict[str, Any] = {"nodelist": "n4", "sbatch_args": ["--exclusive"]}
    given_up = await scheduler.submit(app("exec sleep 3600"), {**whole, "partition": "low"})
    await seen(scheduler, given_up, lambda found: found.replicas[0].state is AppState.RUNNING)
    other = await scheduler.submit(app("true"), whole)
    found = await ended(scheduler, given_up)

    assert (AppState.FAILED, FailureCause.PREEMPTED) == (found.state, found.cause)
    assert [FailureCause.PREEMPTED] == [replica.cause for replica in found.replicas]
    assert AppState.SUCCEEDED == (await ended(scheduler, other)).state


async def test_a_job_that_the_partition_does_not_start_again_has_failed(scheduler: SlurmScheduler) -> None:
    whole: dict[str, Any] = {"nodelist": "n4", "sbatch_args": ["--exclusive"]}
    given_up = await scheduler.submit(app("exec sleep 3600"), {**whole, "partition": "low", "requeue": True})
    await seen(scheduler, given_up, lambda found: found.replicas[0].state is AppState.RUNNING)
    other = await scheduler.submit(app("true"), whole)
    found = await ended(scheduler, given_up)

    assert (AppState.FAILED, FailureCause.PREEMPTED) == (found.state, found.cause)
    assert AppState.SUCCEEDED == (await ended(scheduler, other)).state


async def test_what_an_app_removes_of_its_own_events_changes_nothing(scheduler: SlurmScheduler) -> None:
    removed = ("job", "*", "*.ev")
    apps = [app(f"cd $(dirname $ASYNCSCHED_RESULT_FILE)/events; rm {each}; exit {k}") for k, each in enumerate(removed)]
    found = await asyncio.gather(*(run(scheduler, each) for each in apps))

    assert [AppState.SUCCEEDED, AppState.FAILED, AppState.FAILED] == [each.state for each in found]


@pytest.mark.parametrize("what", ["", "app.json"])
async def test_an_app_that_removes_its_own_directory_can_be_ended_and_removed(
    scheduler: SlurmScheduler, slurm_conf: SlurmCluster, home: Path, what: str
) -> None:
    app_id = await scheduler.submit(app(f"rm -rf $(dirname $ASYNCSCHED_RESULT_FILE)/{what}; exec sleep 3600"))
    await eventually(lambda: not (home / "jobs" / app_id / what).exists(), within=PATIENCE)
    found = await scheduler.describe(app_id)
    assert found is not None
    await scheduler.cancel(app_id)
    await eventually(partial(has_ended, slurm_conf, found.native_id or ""), within=PATIENCE)
    await scheduler.delete(app_id)

    assert AppState.RUNNING == found.state
    assert [] == [*(home / "jobs").iterdir()] == [*(home / "apps").iterdir()]


async def test_a_role_is_started_again_as_often_as_it_says_itself(scheduler: SlurmScheduler) -> None:
    """One that may not be does not have the others started again, and does not end them."""
    once = shell("exit 9", "once")
    twice = shell("exit 8", "twice", max_retries=1, retry_policy=RetryPolicy.REPLICA)
    good = shell("sleep 1; echo done", "good", max_retries=3)
    found = await run(scheduler, app(once, twice, good))

    assert AppState.FAILED == found.state
    assert [("once", 9, 0), ("twice", 8, 1), ("good", 0, 0)] == [
        (each.role, each.exit_code, each.num_restarts) for each in found.replicas
    ]
    assert {("good", 0): ["done"]} == await said(scheduler, found.app_id)


async def test_a_role_whose_retries_are_used_up_is_started_again_with_the_others(scheduler: SlurmScheduler) -> None:
    fails = shell("exit 8", "fails", max_retries=1, retry_policy=RetryPolicy.REPLICA)
    again = "sleep 1; test -e $ASYNCSCHED_RESULT_FILE || { echo 1 >$ASYNCSCHED_RESULT_FILE; exit 3; }"
    found = await run(scheduler, app(fails, shell(again, "again", max_retries=1)))

    assert AppState.FAILED == found.state
    assert [("fails", 8, 2), ("again", 0, 1)] == [
        (each.role, each.exit_code, each.num_restarts) for each in found.replicas
    ]


async def test_policies_that_slurm_does_not_know_are_told(scheduler: SlurmScheduler) -> None:
    for policy in RetryPolicy:
        info = await scheduler.submit_dryrun(app("true", num_replicas=2, max_retries=1, retry_policy=policy))
        told = [each.field for each in info.ignored]

        assert (["retry_policy"] if policy in (RetryPolicy.ROLE, RetryPolicy.HOT_SPARE) else []) == told


async def test_an_image_that_is_no_directory_is_told(scheduler: SlurmScheduler, tmp_path: Path) -> None:
    found = await run(scheduler, AppDef("job", [Role("main", f"{tmp_path}/none", entrypoint="true")]))

    assert (AppState.FAILED, FailureCause.CONFIG) == (found.state, found.cause)
    assert "main/0: exit code 1: the directory to start in is missing on its node" == found.msg


async def test_a_job_that_an_operator_ends_is_cancelled(scheduler: SlurmScheduler, slurm_conf: SlurmCluster) -> None:
    app_id = await scheduler.submit(app("exec sleep 3600"))
    running = await seen(scheduler, app_id, lambda found: found.replicas[0].state is AppState.RUNNING)
    await asyncio.to_thread(slurm_conf.run, "scancel", running.native_id)
    found = await ended(scheduler, app_id)

    assert (AppState.CANCELLED, FailureCause.CANCELLED) == (found.state, found.replicas[0].cause)


async def test_each_replica_sees_gpus_of_its_own(scheduler: SlurmScheduler) -> None:
    gpus = shell("echo $CUDA_VISIBLE_DEVICES", num_replicas=3, resource=Resource(1, 2, 64))
    found = await run(scheduler, app(gpus), sbatch_args=["--nodes=2"])
    told = await said(scheduler, found.app_id)
    seen_by: dict[str, list[str]] = {}
    for replica in found.replicas:
        (line,) = told["main", replica.id]
        seen_by.setdefault(replica.hostname, []).extend(line.split(","))

    # Two replicas share a node of four: nobody sees what another one has.
    assert {2, 4} == {len(numbers) for numbers in seen_by.values()}
    assert all(len({*numbers}) == len(numbers) and {*numbers} <= {*"0123"} for numbers in seen_by.values())


async def test_the_cluster_says_at_dry_run_what_it_would_not_take(scheduler: SlurmScheduler) -> None:
    wide, narrow = app("true", num_replicas=8), app("true", num_replicas=2)

    with pytest.raises(InvalidRequestError, match="Requested node configuration is not available"):
        await scheduler.submit_dryrun(wide, {"nodes": 8, "check": True})
    await scheduler.submit_dryrun(narrow, {"nodes": 2, "check": True})
    assert [] == await scheduler.list()


@pytest.mark.parametrize(("nodes", "roles", "told"), [(3, 1, 1), (3, 2, 2), (2, 1, 0), (None, 1, 0)])
async def test_more_nodes_than_replicas_are_told(
    scheduler: SlurmScheduler, nodes: int | None, roles: int, told: int
) -> None:
    """Slurm uses one node per replica at most."""
    named = [shell("true", name, num_replicas=2 // roles) for name in "ab"[:roles]]
    info = await scheduler.submit_dryrun(AppDef("job", named), {"nodes": nodes})

    assert told == len(info.ignored)
    assert all(("nodes", "2 replicas run on at most 2 nodes, not 3") == (each.field, each.why) for each in info.ignored)


def has_ended(cluster: SlurmCluster, number: str) -> bool:
    return not cluster.run("squeue", "-h", "--me", "-j", number, check=False)


@pytest.mark.one_loop
async def test_a_job_whose_submit_seemed_to_fail_does_not_run_beside_the_next(
    scheduler: SlurmScheduler, slurm_conf: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaf = tmp_path / "deaf"
    deaf.mkdir()
    for name, does in (("sbatch", f'{shutil.which("sbatch")} "$@" >&2'), ("scancel", "true")):
        (deaf / name).write_text(f"#!/bin/sh\n{does}\necho Unable to contact slurm controller >&2; exit 1\n")
        (deaf / name).chmod(0o755)
    info = await scheduler.submit_dryrun(app(f"echo x >>{tmp_path}/runs"), {"sbatch_args": ["--hold"]})
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"{deaf}:{os.environ['PATH']}")
        with pytest.raises(UnavailableError):
            await scheduler.schedule(info)
    await scheduler.schedule(info)
    numbers = await asyncio.to_thread(slurm_conf.run, "squeue", "-h", "--me", "-n", info.app_id, "-o", "%A")
    for number in sorted(numbers.split(), key=int):  # the one that was heard comes first
        await asyncio.to_thread(slurm_conf.run, "scontrol", "release", number)
        await eventually(partial(has_ended, slurm_conf, number), within=PATIENCE)
    found = await ended(scheduler, info.app_id)

    assert 2 == len(numbers.split())
    assert (AppState.SUCCEEDED, "x\n") == (found.state, (tmp_path / "runs").read_text())


async def test_an_unknown_partition_leaves_nothing(scheduler: SlurmScheduler, home: Path) -> None:
    with pytest.raises(InvalidRequestError, match="Invalid partition"):
        await scheduler.submit(app("true"), {"partition": "nowhere"})

    assert [] == [*(home / "jobs").iterdir()] == [*(home / "apps").iterdir()]


ENDED = "the prolog has ended the script of the job, so no replica was started"


@pytest.mark.one_loop
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"modules": ["no-such module"]}, "module load 'no-such module' ended with 127, so no replica was started"),
        ({"prolog": "cat /no/such/file"}, "the prolog ended with 1, so no replica was started"),
        ({"prolog": "false"}, "the prolog ended with 1, so no replica was started"),
        *(
            ({"prolog": f"echo 'it does not fit' >&2; {line}"}, f"{ENDED}: it does not fit")
            for line in ("exit 3", "exit 0", "[ -d /nope ] || exit 3", "exec true", "exec false", "kill -9 $$")
        ),
    ],
)
async def test_what_a_job_does_before_its_replicas_start_may_fail(
    scheduler: SlurmScheduler, options: dict[str, Any], told: str
) -> None:
    found = await run(scheduler, app("true", num_replicas=2), **options)

    assert AppState.FAILED == found.state
    assert told in found.msg
    assert [(AppState.FAILED, None)] * 2 == [(replica.state, replica.started_at) for replica in found.replicas]
    assert FailureCause.CONFIG == found.cause


@pytest.mark.one_loop
async def test_a_job_whose_script_no_node_can_start_says_so(
    scheduler: SlurmScheduler, slurm_conf: SlurmCluster, home: Path
) -> None:
    app_id = await scheduler.submit(app("true"), {"sbatch_args": ["--hold"]})
    waits = await scheduler.describe(app_id)
    assert waits is not None
    (home / "jobs" / app_id / "batch.log").mkdir()  # its node cannot open this
    await asyncio.to_thread(slurm_conf.run, "scontrol", "release", waits.native_id or "")
    found = await ended(scheduler, app_id)

    assert (AppState.FAILED, FailureCause.CONFIG) == (found.state, found.cause)
    assert "JobLaunchFailure" in found.msg
    assert "its node could not start its script: check whether the nodes share its directory" in found.msg


TAKES_MEMORY = "import time; taken = bytearray(b'x') * (200 << 20); print(len(taken), flush=True); time.sleep(3600)"


@pytest.mark.one_loop
@pytest.mark.parametrize("own_slurm", [{"ends_over_memory": True}], indirect=True, ids=[""])
async def test_an_app_that_takes_more_memory_than_it_has_says_so(
    own_slurm: SlurmCluster, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(own_slurm.conf))
    role = Role("main", "", entrypoint=sys.executable, args=["-c", TAKES_MEMORY], resource=Resource(1, 0, 50))
    async with SlurmScheduler("session") as scheduler:
        found = await run(scheduler, app(role))

    assert (AppState.FAILED, FailureCause.OOM) == (found.state, found.cause)
    assert "Exceeded job memory limit" in found.msg
    assert [(AppState.FAILED, FailureCause.OOM)] == [(replica.state, replica.cause) for replica in found.replicas]


async def test_an_app_is_found_from_another_directory(
    scheduler: SlurmScheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app_id = await scheduler.submit(app("pwd; exit 4"), {"job_dir": "elsewhere"})
    await ended(scheduler, app_id)
    monkeypatch.chdir("/")
    async with SlurmScheduler("other") as other:
        found = await other.describe(app_id)
        told = await said(other, app_id)
        assert (tmp_path / "elsewhere" / app_id).is_dir()
        await other.delete(app_id)

    assert found is not None
    assert (AppState.FAILED, 4, "session") == (found.state, found.replicas[0].exit_code, found.session)
    assert {("main", 0): [str(tmp_path)]} == told
    assert not (tmp_path / "elsewhere" / app_id).exists()


async def test_secrets_stand_in_a_file_of_the_user_alone(
    scheduler: SlurmScheduler, slurm_conf: SlurmCluster, home: Path
) -> None:
    env = {"API_TOKEN": MARKER, "PLAIN": Secret(MARKER)}
    secret = app("echo $PLAIN | wc -c; exec sleep 3600", env=env)
    app_id = await scheduler.submit(secret)
    async with asyncio.timeout(PATIENCE):
        async for line in scheduler.log_iter(app_id, should_tail=True):
            assert f"{len(MARKER) + 1}" == line.text
            break
    told = slurm_conf.run("scontrol", "show", "job", "--details") + slurm_conf.run("squeue", "-a", "-O", "ALL:300")
    found = await scheduler.describe(app_id)
    assert found is not None
    assert found.native_id is not None
    script = slurm_conf.run("scontrol", "write", "batch_script", found.native_id, "-")
    holding = [
        path.name for path in (home / "jobs" / app_id).rglob("*") if path.is_file() and MARKER in path.read_text()
    ]
    await scheduler.cancel(app_id)

    assert MARKER not in told + script
    assert app_id in told
    assert ["task.0"] == holding
    assert 0o700 == (home / "jobs" / app_id).stat().st_mode & 0o777
    assert 0o600 == (home / "jobs" / app_id / "task.0").stat().st_mode & 0o777


async def test_streams_of_each_attempt_are_told_apart(scheduler: SlurmScheduler) -> None:
    script = "echo out; echo err >&2; exit 1"
    found = await run(scheduler, app(script, max_retries=1))
    lines = [
        (line.text, line.stream, line.attempt) async for line in scheduler.log_iter(found.app_id, should_tail=True)
    ]

    expected = {(text, stream, k) for k in (0, 1) for text, stream in (("out", Stream.STDOUT), ("err", Stream.STDERR))}
    assert Counter(expected) == Counter(lines)


async def test_times_that_were_not_written_cannot_be_asked_for(scheduler: SlurmScheduler) -> None:
    found = await run(scheduler, app("echo x"))

    with pytest.raises(ValueError, match="submit it with the run option timestamps"):
        await said(scheduler, found.app_id, since=found.created_at)


async def test_many_apps_are_described_by_one_command(scheduler: SlurmScheduler) -> None:
    app_ids = await asyncio.gather(*(scheduler.submit(app("true")) for _ in range(8)))
    await asyncio.gather(*(ended(scheduler, app_id) for app_id in app_ids))
    before = scheduler.commands_started
    found = await scheduler.describe_many(app_ids)

    assert 1 == scheduler.commands_started - before
    assert [AppState.SUCCEEDED] * 8 == [each.state for each in found.values() if each is not None]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can submit for another user")
async def test_jobs_of_other_users_are_not_seen(scheduler: SlurmScheduler, slurm_conf: SlurmCluster) -> None:
    app_id = await scheduler.submit(app("true"), {"sbatch_args": ["--hold"]})
    strange = "\x1b[2J|\x1f" + app_id
    hold = ["sbatch", "--hold", "--uid=nobody", "--gid=nogroup", f"--comment={strange}", "--chdir=/", "--wrap=true"]
    for name in (app_id, strange, f"x\n{app_id}"):
        await asyncio.to_thread(slurm_conf.run, *hold, f"--job-name={name}")
    found = await scheduler.describe(app_id)
    rows = await scheduler.list()
    await scheduler.cancel(app_id)

    assert found is not None
    assert (AppState.PENDING, "JobHeldUser") == (found.state, found.msg)
    assert [app_id] == [row.app_id for row in rows]
    assert AppState.CANCELLED == (await ended(scheduler, app_id)).state
    theirs = await asyncio.to_thread(slurm_conf.run, "squeue", "-h", "-a", "-u", "nobody", "-t", "PD", "-o", "%A")
    assert 3 == len(theirs.split())


async def test_no_name_of_a_job_is_taken_for_what_the_cluster_tells(
    scheduler: SlurmScheduler, slurm_conf: SlurmCluster
) -> None:
    async def add(number: int) -> int:
        """Submit a job whose name and comment say, as rows of squeue's, that another one has ended."""
        row = (f"{number}", "N/A", "COMPLETED", "0", "0", "1700000000", "None", info.app_id, "")
        forged = "".join(f"\n{mark.join(row)}" for mark in ("\x1f", "|"))
        others = ["sbatch", "--parsable", "--hold", f"--job-name=x{forged}\nx", f"--comment=x{forged}\nx"]
        told = await asyncio.to_thread(slurm_conf.run, *others, "--chdir=/", "--output=/dev/null", "--wrap=true")
        return int(told)

    info = await scheduler.submit_dryrun(app("true"), {"sbatch_args": ["--hold"]})
    number = await add(await add(0) + 2) + 1
    await scheduler.schedule(info)
    await add(number)
    found = await scheduler.describe(info.app_id)
    await scheduler.cancel(info.app_id)

    assert found is not None
    assert (f"{number}", AppState.PENDING, "JobHeldUser") == (found.native_id, found.state, found.msg)


async def test_a_directory_of_somebody_else_is_not_read(scheduler: SlurmScheduler, home: Path, tmp_path: Path) -> None:
    found = await run(scheduler, app("true"))
    link = home / "apps" / found.app_id
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(link.readlink(), elsewhere)
    elsewhere.chmod(0o777)
    link.unlink()
    link.symlink_to(elsewhere)

    with pytest.raises(PermissionDeniedError, match=f"^{elsewhere} cannot be used(.|\n)*it has mode 0777, which"):
        await scheduler.describe(found.app_id)
    assert [] == await scheduler.list()
    if os.geteuid() == 0:
        elsewhere.chmod(0o700)
        os.chown(elsewhere, 65534, 65534)
        with pytest.raises(PermissionDeniedError, match=r"it belongs to .*65534"):
            await scheduler.describe(found.app_id)


async def test_what_the_cluster_has_forgotten_is_still_known(
    own_slurm: SlurmCluster, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(own_slurm.conf))
    async with SlurmScheduler("session") as scheduler:
        good, bad = await run(scheduler, app("echo x")), await run(scheduler, app("exit 3"))
        stopped = await scheduler.submit(app("exec sleep 3600"))
        async with asyncio.timeout(PATIENCE), scheduler.watch([stopped]) as watch:
            async for event in watch:
                if event.state is AppState.RUNNING:
                    await scheduler.cancel(stopped)
        before = [await run(scheduler, app("true"), prolog=line) for line in ("exec true", "false")]
        own_slurm.kill_controller()
        own_slurm.start_controller(forgetful=True)
        found = await scheduler.describe_many([good.app_id, bad.app_id, stopped])
        for each in before:
            now = await scheduler.describe(each.app_id)
            assert now is not None
            assert (FailureCause.CONFIG, each.msg) == (now.cause, now.msg)
        # It counts from 1 again: the numbers of these jobs are those of others now.
        await run(scheduler, app("exit 5"))
        again = await scheduler.describe_many([good.app_id, bad.app_id, stopped])

        assert {("main", 0): ["x"]} == await said(scheduler, good.app_id)
    ends = [AppState.SUCCEEDED, AppState.FAILED, AppState.CANCELLED]
    assert ends == [each.state for each in found.values() if each] == [each.state for each in again.values() if each]
    assert [3] == [each.replicas[0].exit_code for each in again.values() if each and each.state is AppState.FAILED]
    assert [good.finished_at, bad.finished_at] == [each.finished_at for each in found.values() if each][:2]


@pytest.mark.slow
@pytest.mark.parametrize("own_slurm", [{"min_job_age": 2}], indirect=True, ids=[""])
async def test_the_clusters_last_word_outlives_its_memory_without_accounts(
    own_slurm: SlurmCluster, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has described an app has written down what only the cluster knows of its end."""
    monkeypatch.setenv("SLURM_CONF", str(own_slurm.conf))
    whole: dict[str, Any] = {"nodelist": "n4", "sbatch_args": ["--exclusive"]}
    async with SlurmScheduler("session") as scheduler:
        stopped = await scheduler.submit(app("exec sleep 3600"))
        running = await seen(scheduler, stopped, lambda found: found.replicas[0].state is AppState.RUNNING)
        held = await scheduler.submit(app("true"), {"sbatch_args": ["--hold"]})
        waits = await scheduler.describe(held)
        assert waits is not None
        fails = await scheduler.submit(app("exit 3"), {"sbatch_args": ["--hold"]})
        first = await scheduler.describe(fails)
        assert first is not None
        depends = [f"--dependency=afterok:{first.native_id}", "--kill-on-invalid-dep=yes"]
        never = await scheduler.submit(app("true"), {"sbatch_args": depends})
        gives_way = await scheduler.submit(app("exec sleep 3600"), {**whole, "partition": "low"})
        await seen(scheduler, gives_way, lambda found: found.replicas[0].state is AppState.RUNNING)
        await scheduler.submit(app("true"), whole)
        await asyncio.to_thread(own_slurm.run, "scancel", running.native_id or "", waits.native_id or "")
        await asyncio.to_thread(own_slurm.run, "scontrol", "release", first.native_id or "")
        before = [await ended(scheduler, app_id) for app_id in (stopped, held, never, gives_way)]
    await eventually(lambda: not own_slurm.run("squeue", "-h", "-t", "all"), within=PATIENCE)
    async with SlurmScheduler("other") as other:
        found = await other.describe_many([each.app_id for each in before])

    ends = [(AppState.CANCELLED, FailureCause.CANCELLED)] * 3 + [(AppState.FAILED, FailureCause.PREEMPTED)]
    assert ends == [(each.state, each.cause) for each in before]
    assert ends == [(each.state, each.cause) for each in found.values() if each]
    assert [each.msg for each in before] == [each.msg for each in found.values() if each]
    assert "cancelled: DependencyNeverSatisfied" == before[2].msg


async def test_a_controller_that_does_not_answer_is_told_in_time(
    own_slurm: SlurmCluster, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(own_slurm.conf))
    async with SlurmScheduler("session") as patient:
        found = await run(patient, app("true"))
    async with SlurmScheduler("session", request_timeout=1.0) as scheduler:
        own_slurm.kill_controller()

        with pytest.raises(UnavailableError, match=r"squeue"):
            await scheduler.describe(found.app_id)
        with pytest.raises(UnavailableError, match=r"sbatch"):
            await scheduler.submit(app("true"))


async def test_an_end_that_the_controller_has_not_written_down_stays_told(
    own_slurm: SlurmCluster, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the job for one that runs, for minutes, and its node for lost."""
    monkeypatch.setenv("SLURM_CONF", str(own_slurm.conf))
    gate = home.parent / "gate"
    waits = f"until [ -e {gate} ]; do sleep 0.1; done; echo last"
    async with SlurmScheduler("session", request_timeout=4.0) as scheduler:
        app_ids = [await scheduler.submit(app(f"{waits}; exit {code}")) for code in (0, 3)]
        for app_id in app_ids:
            await seen(scheduler, app_id, lambda found: found.replicas[0].state is AppState.RUNNING)
        await asyncio.to_thread(own_slurm.save_state)
        tails = [asyncio.create_task(said(scheduler, app_id, should_tail=True)) for app_id in app_ids]
        saved = (own_slurm.directory / "ctld/job_state").read_bytes()
        await asyncio.to_thread(gate.touch)
        before = [await ended(scheduler, app_id) for app_id in app_ids]
        lines = [await tail for tail in tails]
        await asyncio.to_thread(own_slurm.kill_controller)
        (own_slurm.directory / "ctld/job_state").write_bytes(saved)
        await asyncio.to_thread(own_slurm.start_controller)
        told = await asyncio.to_thread(own_slurm.run, "squeue", "-h", "-t", "all", "-o", "%T")
        again = [await scheduler.describe(app_id) for app_id in app_ids]

    assert [{("main", 0): ["last"]}] * 2 == lines
    assert ["RUNNING", "RUNNING"] == told.split()
    assert [(AppState.SUCCEEDED, 0), (AppState.FAILED, 3)] == [
        (each.state, each.replicas[0].exit_code) for each in before
    ]
    assert [(each.state, each.finished_at) for each in before] == [
        (each.state, each.finished_at) for each in again if each
    ]


@pytest.mark.slow
async def test_watches_and_tails_go_on_when_the_controller_is_back(
    own_slurm: SlurmCluster, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(own_slurm.conf))
    gate = home.parent / "gate"
    script = (
        "i=0; while [ $i -lt 60 ]; do echo $i; i=$((i + 1)); sleep 0.05\n"
        f"[ $i != 30 ] || until [ -e {gate} ]; do sleep 0.1; done; done"
    )
    async with SlurmScheduler("patient") as patient:
        app_ids = await asyncio.gather(*(patient.submit(app(script)) for _ in range(20)))
    async with SlurmScheduler("session", request_timeout=2.0) as scheduler:
        tails = [asyncio.create_task(said(scheduler, app_id, should_tail=True)) for app_id in app_ids]
        ends = [asyncio.create_task(ended(scheduler, app_id)) for app_id in app_ids]
        async with asyncio.timeout(PATIENCE), scheduler.watch(app_ids) as watch:
            running: set[str] = set()
            async for event in watch:
                running |= {event.app_id} if event.state is AppState.RUNNING else set()
                if len(running) == len(app_ids):
                    break
        await asyncio.to_thread(own_slurm.save_state)
        await asyncio.to_thread(own_slurm.kill_controller)
        with pytest.raises(UnavailableError):
            await scheduler.describe(app_ids[0])
        await asyncio.to_thread(own_slurm.start_controller)
        await asyncio.to_thread(gate.touch)
        lines, states = await asyncio.gather(*tails), await asyncio.gather(*ends)

    assert [{("main", 0): [str(number) for number in range(60)]}] * 20 == lines
    assert [AppState.SUCCEEDED] * 20 == [found.state for found in states]


TORCHRUN = """\
#!/usr/bin/env python3
import os, socket, sys, time
(place,) = [sys.argv[k + 1] for k, each in enumerate(sys.argv) if each == "--rdzv_endpoint"]
host, port = place.rsplit(":", 1)
if os.environ["SLURM_PROCID"] == "0":
    with socket.create_server((host, int(port))) as server:
        print(server.accept()[0].recv(9).decode())
else:
    while True:
        try:
            socket.create_connection((host, int(port))).sendall(b"hello")
            break
        except OSError:
            time.sleep(0.05)
    print("sent to", host)
"""


def free_port() -> int:
    """A port below those that the kernel gives to connections: no attempt to connect to it can take it."""
    for port in range(20_000 + os.getpid() % 10_000, 32_000):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no port is free")


async def test_ddp_runs_over_two_nodes(scheduler: SlurmScheduler, tmp_path: Path) -> None:
    """The component ``dist.ddp`` with a stand-in for torchrun: its agents meet where they are told to."""
    (tmp_path / "torchrun").write_text(TORCHRUN)
    (tmp_path / "torchrun").chmod(0o755)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    training = ddp("--epochs", "1", script="train.py", j="2x1", image="", env=path, rdzv_port=free_port())
    found = await run(scheduler, training, nodes=2, ntasks_per_node=1)

    assert {("train", 0): ["hello"], ("train", 1): ["sent to 127.0.0.1"]} == await said(scheduler, found.app_id)
    assert 2 == len({replica.hostname for replica in found.replicas})


async def test_one_replica_knows_rank_0_too(scheduler: SlurmScheduler) -> None:
    found = await run(scheduler, app(f"eval echo {RANK0 % macros.rank0_env}"))

    assert {("main", 0): ["127.0.0.1"]} == await said(scheduler, found.app_id)


@pytest.mark.parametrize(
    ("own_slurm", "requeue"), [({}, False), ({"cred_expire": 10}, True)], indirect=["own_slurm"], ids=["once", "again"]
)
async def test_a_node_that_fails_ends_an_app_or_starts_it_again(
    own_slurm: SlurmCluster, home: Path, monkeypatch: pytest.MonkeyPatch, *, requeue: bool
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(own_slurm.conf))
    script = "echo try; test -e $ASYNCSCHED_RESULT_FILE || { echo 1 >$ASYNCSCHED_RESULT_FILE; exec sleep 3600; }"
    async with SlurmScheduler("session") as scheduler:
        app_id = await scheduler.submit(app(script), {"requeue": requeue})
        async with asyncio.timeout(PATIENCE):
            async for _ in scheduler.log_iter(app_id, should_tail=True):
                break
        found = await scheduler.describe(app_id)
        assert found is not None
        node = found.replicas[0].hostname
        await asyncio.to_thread(own_slurm.run, "scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")
        found = await ended(scheduler, app_id)
        lines = [(line.text, line.attempt) async for line in scheduler.log_iter(app_id)]
        # It is idle again by itself if it has answered meanwhile.
        resume = partial(own_slurm.run, "scontrol", "update", f"NodeName={node}", "State=RESUME", check=False)
        await asyncio.to_thread(resume)

    if requeue:
        assert (AppState.SUCCEEDED, 1, [("try", 0), ("try", 1)]) == (found.state, found.num_restarts, lines)
    else:
        assert (AppState.FAILED, FailureCause.NODE, [("try", 0)]) == (found.state, found.cause, lines)


@pytest.mark.one_loop
@pytest.mark.parametrize("own_slurm", [{"prolog": '[ "$SLURMD_NODENAME" != n2 ] || exit 3'}], indirect=True, ids=[""])
async def test_one_node_of_two_that_cannot_prepare_for_an_app_fails_it(
    own_slurm: SlurmCluster, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(own_slurm.conf))
    async with SlurmScheduler("session") as scheduler:
        found = await run(scheduler, app("true", num_replicas=2), nodelist="n[1-2]", nodes=2, ntasks_per_node=1)

    assert (AppState.FAILED, FailureCause.NODE) == (found.state, found.cause)
    assert "a node could not prepare for it: " in found.msg
    assert "Job prolog failed" in found.msg


@pytest.mark.skipif(os.geteuid() != 0, reason="a node that root does not run writes nothing when its prolog fails")
@pytest.mark.one_loop
@pytest.mark.parametrize("own_slurm", [{"prolog": "exit 3"}], indirect=True, ids=[""])
async def test_a_node_that_cannot_prepare_for_an_app_fails_it(
    own_slurm: SlurmCluster, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(own_slurm.conf))
    async with SlurmScheduler("session") as scheduler:
        found = await run(scheduler, app("true"), nodelist="n2")
        cancelled = await scheduler.submit(app("true"), {"sbatch_args": ["--hold"]})
        waits = await scheduler.describe(cancelled)
        assert waits is not None
        await asyncio.to_thread(own_slurm.run, "scancel", waits.native_id or "")
        stopped = await ended(scheduler, cancelled)
        # What has been said of an app stays so when its node is well again, and when its job is forgotten.
        await asyncio.to_thread(own_slurm.run, "scontrol", "update", "NodeName=n2", "State=RESUME")
        resumed = await scheduler.describe(found.app_id)
        own_slurm.kill_controller()
        own_slurm.start_controller(forgetful=True)
        again = await scheduler.describe(found.app_id)

    told = "main/0: a node could not prepare for it: Error running slurm prolog: 3"
    for each in (found, resumed, again):
        assert each is not None
        assert (AppState.FAILED, FailureCause.NODE, told) == (each.state, each.cause, each.msg)
        assert [(AppState.FAILED, FailureCause.NODE)] == [(replica.state, replica.cause) for replica in each.replicas]
    assert AppState.CANCELLED == stopped.state
