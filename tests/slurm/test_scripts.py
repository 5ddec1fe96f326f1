"""What a job does on the nodes of a real cluster, whatever its submitter's environment and its options are."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from asyncsched.errors import InvalidRequestError
from asyncsched.schedulers.slurm import SlurmScheduler
from asyncsched.specs import AppDef, AppState, FailureCause, Resource, RetryPolicy, Role, macros
from tests._support import eventually
from tests.services.slurm import SlurmCluster
from tests.slurm._apps import PATIENCE, app, ended, run, said, seen, shell

pytestmark = [pytest.mark.service("slurm"), pytest.mark.one_loop]

OF_THE_SUBMITTER = {
    "SBATCH_ARRAY_INX": "0-1",
    "SBATCH_EXPORT": "NONE",
    "SBATCH_GET_USER_ENV": "1",
    "SBATCH_PARTITION": "nowhere",
    "SBATCH_WAIT": "1",
    "SLURM_EXPORT_ENV": "NONE",
    "SLURM_HINT": "multithread",
    "SLURM_NTASKS": "7",
    "SLURM_TASK_PROLOG": "/nowhere",
    "SLURM_TIME_FORMAT": "relative",
    "SRUN_EXPORT_ENV": "NONE",
    "SRUN_TASK_PROLOG": "/nowhere",
    "SQUEUE_FORMAT": "%i",
    "SCONTROL_ALL": "1",
}


async def test_variables_of_the_submitter_for_slurm_do_not_change_a_job(
    scheduler: SlurmScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its other variables reach the replicas, as on every node."""
    for name, value in OF_THE_SUBMITTER.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("OF_THE_SUBMITTER", "is passed on")
    shown = 'echo "$OF_THE_SUBMITTER $SLURM_NTASKS ${SLURM_ARRAY_TASK_ID-alone} ${SLURM_TIME_FORMAT-as usual}"'
    found = await run(scheduler, app(shown, num_replicas=2))

    assert AppState.SUCCEEDED == found.state
    lines = ["is passed on 2 alone as usual"]
    assert {("main", 0): lines, ("main", 1): lines} == await said(scheduler, found.app_id)


OF_BASH = {
    "BASH_ENV": "/nowhere/at/all",
    "BASH_FUNC_cd%%": "() {  false\n}",
    "BASH_FUNC_exec%%": "() {  false\n}",
    "BASH_FUNC_printf%%": "() {  false\n}",
    "BASH_FUNC_srun%%": "() {  false\n}",
    "BASHOPTS": "nocasematch",
    "LC_ALL": "xx_XX.UTF-8",
    "SHELLOPTS": "errexit:nounset:noclobber",
    "code": "kept",
    "again": "kept",
    "word": "kept",
}


@pytest.mark.parametrize("options", [{}, {"timestamps": True}, {"prolog": "true"}], ids=["", "timestamps", "prolog"])
async def test_what_bash_obeys_reaches_the_replicas_and_changes_no_script(
    scheduler: SlurmScheduler, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    for name, value in OF_BASH.items():
        monkeypatch.setenv(name, value)
    program = "import json, os, sys; print(json.dumps({**os.environ})); sys.exit(3)"
    again: dict[str, Any] = {"max_retries": 1, "retry_policy": RetryPolicy.REPLICA, "num_replicas": 2}
    found = await run(
        scheduler,
        AppDef("job", [Role("main", "", entrypoint=sys.executable, args=["-c", program], **again)]),
        **options,
    )
    lines = [(line.replica, line.attempt, json.loads(line.text)) async for line in scheduler.log_iter(found.app_id)]

    assert [(3, 1)] * 2 == [(each.exit_code, each.num_restarts) for each in found.replicas]
    assert [(0, 0), (0, 1), (1, 0), (1, 1)] == sorted(line[:2] for line in lines)
    for *_, env in lines:
        assert OF_BASH == {name: env.get(name) for name in OF_BASH}
        assert not [name for name in env if name.startswith("ASYNCSCHED_") and "OPTS" in name]


async def test_functions_of_the_submitter_are_there_for_a_prolog(
    scheduler: SlurmScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So are modules on most clusters."""
    monkeypatch.setenv("BASH_FUNC_module%%", '() { export LOADED="$LOADED $2"; }')
    found = await run(scheduler, app("echo $LOADED"), modules=["one", "two"], prolog="module load three")

    assert {("main", 0): ["one two three"]} == await said(scheduler, found.app_id)


async def test_what_is_not_exported_is_the_submitters_alone(
    scheduler: SlurmScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_SUBMITTER", "is not passed on")
    shown = f'echo "${{OF_THE_SUBMITTER-none}} $OF_THE_ROLE ${{{macros.rank0_env}}}"'
    apps = app(shown, env={"OF_THE_ROLE": "a,b"}, num_replicas=2)
    both = await asyncio.gather(
        *(run(scheduler, apps, sbatch_args=[f"--export={names}"]) for names in ("NONE", "NOTHING_ELSE"))
    )

    for found in both:
        assert AppState.SUCCEEDED == found.state
        lines = ["none a,b 127.0.0.1"]
        assert {("main", 0): lines, ("main", 1): lines} == await said(scheduler, found.app_id)


async def test_more_roles_than_nodes_start_where_they_are_of_few_sizes(scheduler: SlurmScheduler) -> None:
    """Slurm gives components nodes of their own: roles of one size share a component."""
    roles = [
        shell(f"echo {name} ${{replica_id}}", name, num_replicas=2, resource=Resource(1 + k % 2, 0, 32))
        for k, name in enumerate("abcde")
    ]
    found = await run(scheduler, app(*roles))

    assert AppState.SUCCEEDED == found.state
    assert [*"abcde"] == [role.role for role in found.roles_statuses]
    told = await said(scheduler, found.app_id)
    assert {(name, k): [f"{name} {k}"] for name in "abcde" for k in (0, 1)} == told


async def test_components_that_wait_for_nodes_say_so(scheduler: SlurmScheduler) -> None:
    roles = [shell("true", name, resource=Resource(1 + k, 0, 32)) for k, name in enumerate("abcde")]
    app_id = await scheduler.submit(app(*roles))
    found = await seen(scheduler, app_id, lambda found: found.msg.startswith("Resources"))
    await scheduler.cancel(app_id)

    assert "Resources: its 5 components each need their own nodes, all at once" == found.msg
    assert AppState.PENDING == found.state
    assert AppState.CANCELLED == (await ended(scheduler, app_id)).state


async def test_a_child_that_holds_its_output_does_not_hold_up_a_replica(
    scheduler: SlurmScheduler, tmp_path: Path
) -> None:
    """Nor its next attempt; what it has said itself is in its log by its end, but for bytes that are 0."""
    gate = tmp_path / "gate"
    script = (
        f"for _ in $(seq 3000); do test -e {gate} && break; sleep 0.1; done & printf 'a\\0b\\nlast'; echo told >&2\n"
        "test -e $ASYNCSCHED_RESULT_FILE || { echo 1 >$ASYNCSCHED_RESULT_FILE; exit 3; }"
    )
    role = shell(script, max_retries=1, retry_policy=RetryPolicy.REPLICA)
    app_id = await scheduler.submit(app(role, shell("exec sleep 3600", "other")), {"timestamps": True})
    over = await seen(scheduler, app_id, lambda found: found.replicas[0].state is AppState.SUCCEEDED)
    lines = await said(scheduler, app_id, role_name="main", k=0)
    gate.touch()  # it would outlive its job where Slurm does not use cgroups
    await scheduler.cancel(app_id)

    assert (1, AppState.RUNNING) == (over.replicas[0].num_restarts, over.state)
    assert Counter({"ab": 2, "last": 2, "told": 2}) == Counter(lines["main", 0])
    assert AppState.CANCELLED == (await ended(scheduler, app_id)).state


async def test_a_child_that_is_left_behind_does_not_hold_up_the_job(
    scheduler: SlurmScheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where lines get their time, too; and bash's own limit on reading cuts none off."""
    monkeypatch.setenv("TMOUT", "1")
    gate, begun = tmp_path / "gate", tmp_path / "begun"
    script = (
        f"for _ in $(seq 3000); do test -e {gate} && break; touch {begun}; sleep 0.1; done &\n"
        f"echo one; until test -e {begun}; do sleep 0.1; done; sleep 2; echo two"
    )
    app_id = await scheduler.submit(app(script), {"timestamps": True})
    try:
        found = await ended(scheduler, app_id)
    finally:
        gate.touch()

    assert AppState.SUCCEEDED == found.state
    assert {("main", 0): ["one", "two"]} == await said(scheduler, app_id)


@pytest.mark.parametrize(
    "prolog", ["cd /tmp", "set -eu", "export FOO=1 # why", "umask 0; cat <<end", "trap false EXIT"]
)
async def test_a_prolog_changes_nothing_but_what_replicas_see(scheduler: SlurmScheduler, prolog: str) -> None:
    script = "echo try; test -e $ASYNCSCHED_RESULT_FILE || { echo 1 >$ASYNCSCHED_RESULT_FILE; exit 3; }"
    found = await run(scheduler, app(script, max_retries=1), prolog=prolog)

    assert (AppState.SUCCEEDED, 1) == (found.state, found.replicas[0].num_restarts)
    assert {("main", 0): ["try", "try"]} == await said(scheduler, found.app_id)


async def test_a_prolog_that_ends_the_job_has_failed(scheduler: SlurmScheduler) -> None:
    found = await run(scheduler, app("true"), prolog="exit 0")

    assert (AppState.FAILED, FailureCause.CONFIG) == (found.state, found.cause)
    assert "the prolog has ended the script of the job, so no replica was started" in found.msg


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a directory that belongs to another user")
@pytest.mark.parametrize("started", [False, True])
async def test_nothing_is_run_that_another_user_has_put_in_the_place_of_an_app(
    scheduler: SlurmScheduler, slurm_conf: SlurmCluster, home: Path, tmp_path: Path, *, started: bool
) -> None:
    """Before the job starts, or before its tasks do."""
    ran, gate = tmp_path / "ran", tmp_path / "gate"
    waits = {"prolog": f"touch {gate}; until test ! -e {gate}; do sleep 0.1; done"}
    app_id = await scheduler.submit(app("true"), {"sbatch_args": ["--hold"], **(waits if started else {})})
    waiting = await scheduler.describe(app_id)
    assert waiting is not None
    directory = home / "jobs" / app_id
    release = partial(slurm_conf.run, "scontrol", "release", waiting.native_id or "")
    if started:
        await asyncio.to_thread(release)
        await eventually(gate.exists, within=PATIENCE)
    forged = directory.rename(home / "jobs/old")
    shutil.copytree(forged, directory)
    for path in (directory, *directory.rglob("*")):
        os.chown(path, 65534, 65534)
        path.chmod(0o777)
    (directory / "run.sh").write_text(f"id >{ran}\n")
    if not started:
        await asyncio.to_thread(release)
    else:
        gate.unlink()
    await eventually(partial(has_ended, slurm_conf, waiting.native_id or ""), within=PATIENCE)

    assert not ran.exists()
    assert "belongs to another user on this node, so no replica was started" in "".join(
        path.read_text() for path in (home / "jobs").glob("*/batch.log")
    )


def has_ended(cluster: SlurmCluster, number: str) -> bool:
    return not cluster.run("squeue", "-h", "--me", "-j", number, check=False)


async def test_a_directory_of_apps_may_have_a_strange_name(scheduler: SlurmScheduler, tmp_path: Path) -> None:
    for name in ("c%j", "d e'f", "-g,h:i"):
        found = await run(scheduler, app("echo hi"), job_dir=f"{tmp_path}/{name}")

        assert (name, AppState.SUCCEEDED) == (name, found.state)
        assert {("main", 0): ["hi"]} == await said(scheduler, found.app_id)


async def test_the_cluster_knows_of_an_app_that_has_removed_its_own_events(scheduler: SlurmScheduler) -> None:
    removes = "rm -rf $(dirname $ASYNCSCHED_RESULT_FILE)/events"
    failed, gone = await asyncio.gather(
        *(scheduler.submit(app(f"{removes}; test -d $(dirname $ASYNCSCHED_RESULT_FILE)/{name}")) for name in ("", "x"))
    )
    async with asyncio.timeout(PATIENCE):
        found = [await ended(scheduler, app_id) for app_id in (failed, gone)]

    assert [AppState.SUCCEEDED, AppState.FAILED] == [each.state for each in found]
    assert all(each.native_id for each in found)


async def test_the_option_that_sbatch_does_not_know_is_named(scheduler: SlurmScheduler) -> None:
    with pytest.raises(InvalidRequestError, match="unrecognized option '--bogus'"):
        await scheduler.submit_dryrun(app("true"), {"sbatch_args": ["--bogus"], "check": True})
