"""Apps on a real cluster of four nodes."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from asyncsched.errors import InvalidRequestError, PermissionDeniedError, UnavailableError
from asyncsched.schedulers.slurm import SlurmScheduler
from asyncsched.specs import AppDef, AppState, FailureCause, Resource, RetryPolicy, Role, Secret, macros
from asyncsched.specs.stream import Stream
from tests.services.slurm import SlurmCluster
from tests.slurm._apps import PATIENCE, app, ended, run, said, shell

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
    }
    program = "import os, sys, json; print(json.dumps([sys.argv[1:], {k: os.environ.get(k) for k in %r}]))" % [*env]
    args = ["-c", program, "a b", "$HOME", "", "'", "\n", "snow ☃", "--x=*"]
    found = await run(scheduler, AppDef("job", [Role("main", "", entrypoint=sys.executable, args=args, env=env)]))
    ((line,),) = (await said(scheduler, found.app_id)).values()

    assert [args[2:], env] == json.loads(line)


async def test_a_replica_is_started_again_by_itself(scheduler: SlurmScheduler) -> None:
    script = "echo try; test -e $ASYNCSCHED_RESULT_FILE || { echo 1 >$ASYNCSCHED_RESULT_FILE; exit 3; }"
    again = shell(script, "again", max_retries=2, retry_policy=RetryPolicy.REPLICA)
    found = await run(scheduler, app(again, shell("echo once", "other")))

    assert AppState.SUCCEEDED == found.state
    assert [("again", 1), ("other", 0)] == [(replica.role, replica.num_restarts) for replica in found.replicas]
    assert {("again", 0): ["try", "try"], ("other", 0): ["once"]} == await said(scheduler, found.app_id)
    assert {("again", 0): ["try"]} == await said(scheduler, found.app_id, attempts=1)


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


async def test_what_an_app_waits_for_is_told(scheduler: SlurmScheduler) -> None:
    app_id = await scheduler.submit(app("true", num_replicas=8), {"nodes": 8})
    reasons = ("PartitionConfig", "PartitionNodeLimit")  # the scheduler that looks last says which
    async with asyncio.timeout(PATIENCE), scheduler.watch([app_id]) as watch:
        async for event in watch:
            if event.current is not None and event.current.msg in reasons:
                break
    found = await scheduler.describe(app_id)
    await scheduler.cancel(app_id)

    assert found is not None
    assert AppState.PENDING == found.state
    assert found.msg in reasons
    assert FailureCause.UNSCHEDULABLE == found.cause
    assert AppState.CANCELLED == (await ended(scheduler, app_id)).state


async def test_the_cluster_says_at_dry_run_what_it_would_not_take(scheduler: SlurmScheduler) -> None:
    wide, narrow = app("true", num_replicas=8), app("true", num_replicas=2)

    with pytest.raises(InvalidRequestError, match="Requested node configuration is not available"):
        await scheduler.submit_dryrun(wide, {"nodes": 8, "check": True})
    await scheduler.submit_dryrun(narrow, {"nodes": 2, "check": True})
    assert [] == await scheduler.list()


async def test_an_unknown_partition_leaves_nothing(scheduler: SlurmScheduler, home: Path) -> None:
    with pytest.raises(InvalidRequestError, match="Invalid partition"):
        await scheduler.submit(app("true"), {"partition": "nowhere"})

    assert [] == [*(home / "jobs").iterdir()] == [*(home / "apps").iterdir()]


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
    holding = [path.name for path in (home / "jobs" / app_id).iterdir() if MARKER in path.read_text()]
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


async def test_many_who_ask_share_one_command(scheduler: SlurmScheduler) -> None:
    app_ids = await asyncio.gather(*(scheduler.submit(app("true")) for _ in range(8)))
    await asyncio.gather(*(ended(scheduler, app_id) for app_id in app_ids))
    before = scheduler.commands_started
    await scheduler.describe_many(app_ids)
    assert 1 == scheduler.commands_started - before

    before = scheduler.commands_started
    found = await asyncio.gather(*(scheduler.describe(app_id) for app_id in app_ids * 40))

    # One for all who come within the time in which they gather; a busy machine needs that several times.
    assert scheduler.commands_started - before <= len(found) / 10
    assert {AppState.SUCCEEDED} == {each.state for each in found if each is not None}


async def test_a_directory_of_somebody_else_is_not_read(scheduler: SlurmScheduler, home: Path, tmp_path: Path) -> None:
    found = await run(scheduler, app("true"))
    link = home / "apps" / found.app_id
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(link.readlink(), elsewhere)
    elsewhere.chmod(0o777)
    link.unlink()
    link.symlink_to(elsewhere)

    with pytest.raises(PermissionDeniedError, match="belongs to another user, is not a directory, or others may write"):
        await scheduler.describe(found.app_id)
    assert [] == await scheduler.list()
    if os.geteuid() == 0:
        elsewhere.chmod(0o700)
        os.chown(elsewhere, 65534, 65534)
        with pytest.raises(PermissionDeniedError):
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
        own_slurm.kill_controller()
        own_slurm.start_controller(forgetful=True)
        found = await scheduler.describe_many([good.app_id, bad.app_id, stopped])
        # It counts from 1 again: the numbers of these jobs are those of others now.
        await run(scheduler, app("exit 5"))
        again = await scheduler.describe_many([good.app_id, bad.app_id, stopped])

        assert {("main", 0): ["x"]} == await said(scheduler, good.app_id)
    ends = [AppState.SUCCEEDED, AppState.FAILED, AppState.CANCELLED]
    assert ends == [each.state for each in found.values() if each] == [each.state for each in again.values() if each]
    assert [3] == [each.replicas[0].exit_code for each in again.values() if each and each.state is AppState.FAILED]
    assert [good.finished_at, bad.finished_at] == [each.finished_at for each in found.values() if each][:2]


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


async def test_a_program_of_torch_finds_its_first_node(scheduler: SlurmScheduler) -> None:
    """What ``dist.ddp`` writes, with a stand-in for torchrun: two nodes that meet at rank 0."""
    meet = (
        "import os, socket, sys\n"
        "host, rank = sys.argv[1], int(os.environ['SLURM_PROCID'])\n"
        "port = 20000 + int(os.environ['SLURM_JOB_ID']) % 20000\n"
        "if rank == 0:\n"
        "    server = socket.create_server((host, port)); peer, _ = server.accept(); print(peer.recv(9).decode())\n"
        "else:\n"
        "    for _ in range(1000):\n"
        "        try: peer = socket.create_connection((host, port)); break\n"
        "        except OSError: __import__('time').sleep(0.05)\n"
        "    peer.sendall(b'hello'); print('sent')\n"
    )
    command = f'exec python3 -c "$PROGRAM" $${{{macros.rank0_env}:=localhost}}'
    role = Role("ddp", "", entrypoint="bash", args=["-c", command], env={"PROGRAM": meet}, num_replicas=2)
    found = await run(scheduler, AppDef("ddp", [role]), nodes=2, ntasks_per_node=1)

    assert {("ddp", 0): ["hello"], ("ddp", 1): ["sent"]} == await said(scheduler, found.app_id)
    assert 2 == len({replica.hostname for replica in found.replicas})


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
