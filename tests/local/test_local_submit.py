"""All replicas of an app start, or none does; what cannot be started is an error that says why."""

from __future__ import annotations

import asyncio
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest

from asyncsched import sync
from asyncsched.errors import ConfigError, ConflictError, InvalidRequestError, UsageError
from asyncsched.schedulers.local import LocalScheduler, PopenRequest, ReplicaParam
from asyncsched.specs import AppDef, AppDryRunInfo, AppState, Role
from tests._cancelling import How, cancelled_at_each_await
from tests._support import eventually
from tests.local._local import (
    EACH_LOOP,
    LOOKS_AROUND,
    ONE_LOOP,
    Other,
    app,
    app_directory,
    ended,
    first,
    marked,
    python,
    read,
    shell,
    texts,
)

pytestmark = ONE_LOOP


def _ids(home: Path) -> list[str]:
    """Return what is on the disk of all apps."""
    apps = home / "apps"
    return sorted(each.name for each in apps.iterdir()) if apps.exists() else []


async def _leaves_no_trace(scheduler: LocalScheduler, home: Path, definition: AppDef, why: str) -> None:
    info = await scheduler.submit_dryrun(definition)

    with pytest.raises(InvalidRequestError, match=why):
        await scheduler.schedule(info)

    assert await scheduler.describe(info.app_id) is None
    assert [] == await scheduler.list()
    assert [] == _ids(home)


@EACH_LOOP
async def test_no_code_of_the_first_role_has_run_when_the_second_cannot_start(
    scheduler: LocalScheduler, home: Path, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    good = shell('touch "$0"', str(ran), name="good", num_replicas=3)
    good.args[2:] = [str(ran)]
    bad = Role("bad", "", entrypoint="/no/such/program")

    await _leaves_no_trace(scheduler, home, app(good, bad), "bad/0 .*/no/such/program")

    assert not ran.exists()


@pytest.mark.parametrize(
    ("content", "mode", "why"),
    [
        (None, 0, "No such file"),
        (b"#!/bin/sh\n", 0o644, "is not executable"),
        (b"#!/no/interpreter\n", 0o755, "interpreter '/no/interpreter' does not exist"),
        (b"", 0o755, "is neither a binary nor a script"),
        (b"just text\n", 0o755, "is neither a binary nor a script"),
    ],
)
async def test_a_program_that_cannot_be_executed_is_named(
    scheduler: LocalScheduler, home: Path, tmp_path: Path, content: bytes | None, mode: int, why: str
) -> None:
    program = tmp_path / "my program"
    if content is not None:
        program.write_bytes(content)
        program.chmod(mode)

    await _leaves_no_trace(scheduler, home, app(Role("main", "", entrypoint=str(program))), f"{program}.*{why}")


async def test_a_program_that_is_not_in_the_path_is_named(scheduler: LocalScheduler, home: Path) -> None:
    await _leaves_no_trace(scheduler, home, app(Role("main", "", entrypoint="no-such-thing")), "no-such-thing.*PATH")


@pytest.mark.parametrize("where", ["args", "env", "entrypoint"])
async def test_a_nul_cannot_be_passed_on_and_its_value_is_not_told(
    scheduler: LocalScheduler, home: Path, where: str
) -> None:
    role = shell("true")
    if where == "args":
        role.args.append("secret\0value")
    elif where == "env":
        role.env["VALUE"] = "secret\0value"
    else:
        role.entrypoint = "secret\0value"
    info = await scheduler.submit_dryrun(app(role))

    with pytest.raises(InvalidRequestError, match="NUL") as caught:
        await scheduler.schedule(info)

    assert "secret" not in str(caught.value)
    assert [] == _ids(home)


async def test_arguments_of_any_bytes_arrive_as_they_were(scheduler: LocalScheduler) -> None:
    code = "import os, sys; print([os.fsencode(word) for word in sys.argv[1:]])"
    words = [os.fsdecode(b"\xff\xfe"), "€", "two\nlines", "", "-", "$HOME", "'\""]
    app_id = await scheduler.submit(app(python(code, *words)))

    expected = [b"\xff\xfe", "€".encode(), b"two\nlines", b"", b"-", b"$HOME", b"'\""]
    assert [repr(expected)] == await texts(scheduler, app_id)


NAMES = [
    "a/b",
    "../../x",
    ".",
    "..",
    ".hidden",
    "a b",
    "a%2Fb",
    "ünïcode 🚀",
    "x" * 5000,
    "line\nbreak",
    "nul\0nul",
    "state.json",
]


async def test_any_name_of_a_role_is_a_name(scheduler: LocalScheduler, home: Path) -> None:
    roles = [shell(f"echo {number}", name=name) for number, name in enumerate(NAMES)]
    app_id = await scheduler.submit(app(*roles))

    found = await ended(scheduler, app_id)

    assert AppState.SUCCEEDED is found.state
    assert NAMES == [replica.role for replica in found.replicas]
    for number, name in enumerate(NAMES):
        assert [str(number)] == await texts(scheduler, app_id, role_name=name)
    assert ["apps", "supervisors"] == sorted(each.name for each in home.iterdir())
    assert len(NAMES) == len([each for each in app_directory(home, app_id).iterdir() if each.is_dir()])


async def test_any_name_of_an_app_and_of_a_session_is_a_name(home: Path, tmp_path: Path) -> None:
    async with LocalScheduler("..") as scheduler:
        for name in ["../../etc", "a/b", "ünï", "x" * 300, "", "."]:
            app_id = await scheduler.submit(app(shell("echo hi"), name=name), {"log_dir": str(tmp_path / "logs")})

            assert AppState.SUCCEEDED is (await ended(scheduler, app_id)).state
            assert [app_id] == [row.app_id for row in await scheduler.list(limit=1)]

    assert ["%2E."] == [each.name for each in (tmp_path / "logs").iterdir()]
    assert ["home", "logs"] == sorted(each.name for each in tmp_path.iterdir())


async def test_a_session_that_makes_no_handle_is_refused_before_anything_runs() -> None:
    with pytest.raises(ValueError, match="a/b"):
        LocalScheduler("a/b")


@pytest.mark.parametrize("app_id", ["../escaped", "a/b", "..", ".", "", "x" * 300, "a\0b"])
async def test_an_edited_id_leads_nowhere_else(scheduler: LocalScheduler, home: Path, app_id: str) -> None:
    info = await scheduler.submit_dryrun(app(shell("touch ran")))
    info.app_id = info.request.app_id = app_id

    with pytest.raises(InvalidRequestError):
        await scheduler.schedule(info)

    assert [] == _ids(home)
    assert not (home / "escaped").exists()


@pytest.mark.parametrize("app_id", ["../apps", "..", ".", "", "/etc", "a/../b", "x" * 300, "a\0b", "\ud800", "nobody"])
async def test_an_id_that_is_none_is_an_unknown_app(scheduler: LocalScheduler, home: Path, app_id: str) -> None:
    await scheduler.submit(app(shell("true")))

    assert await scheduler.describe(app_id) is None
    await scheduler.cancel(app_id)
    await scheduler.delete(app_id)
    with pytest.raises(LookupError):
        await read(scheduler, app_id)
    assert ["apps", "supervisors"] == sorted(each.name for each in home.iterdir())
    assert 1 == len(_ids(home))


# Where it is started


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of the test."""
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


async def test_an_app_that_is_too_long_for_its_supervisor_disturbs_no_other(scheduler: LocalScheduler) -> None:
    other = await scheduler.submit(app(shell("exec sleep 1000")))
    info = await scheduler.submit_dryrun(app(shell("true", "x" * 100_000)))
    info.request.role_params["main"] *= 700

    with pytest.raises(InvalidRequestError, match=r"too long.*at most 64 MiB are accepted"):
        await scheduler.schedule(info)

    found = await scheduler.describe(other)
    assert found is not None
    assert AppState.RUNNING is found.state


async def test_a_working_directory_that_is_gone_before_the_dry_run(scheduler: LocalScheduler, place: Path) -> None:
    place.rmdir()

    with pytest.raises(ConfigError, match="working directory no longer exists"):
        await scheduler.submit_dryrun(app(shell("true")))


async def test_a_working_directory_that_goes_after_the_dry_run(
    scheduler: LocalScheduler, place: Path, home: Path
) -> None:
    info = await scheduler.submit_dryrun(app(shell("true")))
    place.rmdir()

    with pytest.raises(InvalidRequestError, match=f"main/0 .*{place}.*cannot enter the working directory"):
        await scheduler.schedule(info)

    assert [] == _ids(home)


async def test_a_working_directory_that_goes_while_the_app_runs(scheduler: LocalScheduler, place: Path) -> None:
    app_id = await scheduler.submit(app(shell("echo one; until [ -e ../go ]; do sleep 0.01; done; echo two")))
    await first(scheduler, app_id)
    (place.parent / "go").touch()
    shutil.rmtree(place)

    found = await scheduler.describe(app_id)

    assert found is not None
    await ended(scheduler, app_id)
    assert "one" == (await texts(scheduler, app_id))[0]


# Nothing, or one


async def test_a_dry_run_makes_nothing(scheduler: LocalScheduler, home: Path, tmp_path: Path) -> None:
    await scheduler.submit_dryrun(app(shell("true")), {"log_dir": str(tmp_path / "logs"), "detach": True})

    assert [] == [*tmp_path.iterdir()]


HOWS = ["once", pytest.param("again and again", marks=pytest.mark.slow)]


@EACH_LOOP
@LOOKS_AROUND
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("detach", [False, True])
async def test_a_submit_that_is_cancelled_at_any_await_leaves_nothing(
    scheduler: LocalScheduler, home: Path, how: How, detach: bool
) -> None:
    token = f"mark-{uuid4().hex}"
    definition = app(shell("sleep 1000", token, num_replicas=2))
    cancelled = 0

    async for outcome in cancelled_at_each_await(
        lambda: scheduler.submit(definition, {"detach": detach, "grace_period": 0.5}), how=how
    ):
        if outcome.cancelled:
            cancelled += 1
            assert [] == await scheduler.list()
            assert [] == _ids(home)
            await eventually(lambda: not marked(token))
        else:
            await scheduler.kill(outcome.result)
            await ended(scheduler, outcome.result)
            await scheduler.delete(outcome.result)

    assert cancelled > 5
    for row in await scheduler.list():
        await scheduler.kill(row.app_id)


SUBMITS = """
    async def main():
        async with LocalScheduler("shared") as scheduler:
            say("ready")
            hear()
            ran = sys.argv[1]
            app_id = await scheduler.submit(app(shell('echo x >> "$1"; sleep 1000', ran)), key="one")
            say(app_id)
            hear()
    asyncio.run(main())
"""


@EACH_LOOP
async def test_two_processes_that_submit_one_key_at_once_get_one_app(home: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    with Other(SUBMITS, str(ran)) as one, Other(SUBMITS, str(ran)) as two:
        assert ["ready", "ready"] == await asyncio.gather(one.heard(), two.heard())
        one.say()
        two.say()

        first_id, second_id = await asyncio.gather(one.heard(), two.heard())

        assert first_id == second_id
        async with LocalScheduler("shared") as third:
            assert [first_id] == [row.app_id for row in await third.list()]
            same = app(shell('echo x >> "$1"; sleep 1000', str(ran)))
            assert first_id == await third.submit(same, key="one")
            with pytest.raises(ConflictError, match=first_id):
                await third.submit(app(shell("echo another")), key="one")
        await eventually(lambda: ran.exists() and ran.read_text())  # a shell makes a file before it writes to it
    assert "x\n" == ran.read_text()


# Made by hand


def by_hand(app_id: str, directory: Path, **more: Any) -> PopenRequest:
    """Return a request as the documents show it, for two processes that say who they are."""
    places = [str(directory / "logs/main" / str(k)) for k in range(2)]
    params = [
        ReplicaParam(
            ["sh", "-c", "echo $0 $WHO; pwd", str(k)],
            {"WHO": "me", "PATH": "/bin:/usr/bin"},
            cwd=str(directory),
        )
        for k in range(2)
    ]
    return PopenRequest(app_id, str(directory / "logs"), {"main": params}, {"main": places}, **more)


@pytest.mark.parametrize("scheduled", [1, 2])
async def test_a_request_that_is_put_together_by_hand_is_launched_once(
    scheduler: LocalScheduler, tmp_path: Path, scheduled: int
) -> None:
    for _ in range(scheduled):
        assert "by-hand" == await scheduler.schedule(AppDryRunInfo(by_hand("by-hand", tmp_path), repr))
    found = await ended(scheduler, "by-hand")

    assert AppState.SUCCEEDED is found.state
    assert sorted(["0 me", "1 me", *[str(tmp_path)] * 2]) == sorted(await texts(scheduler, "by-hand"))
    assert f"1 me\n{tmp_path}\n" == (tmp_path / "logs/main/1/stdout.log").read_text()
    assert ["by-hand"] == [row.app_id for row in await scheduler.list()]
    assert [("main", 2)] == [(role.name, role.num_replicas) for role in found.roles]
    with pytest.raises(ConflictError):
        await scheduler.schedule(AppDryRunInfo(by_hand("by-hand", tmp_path, grace_period=1.0), repr))


async def test_a_request_of_a_dry_run_that_is_made_by_hand_is_told_without_what_is_ours(
    scheduler: LocalScheduler,
) -> None:
    role = Role("main", "", entrypoint="env", env={"PATH": "/bin:/usr/bin", "WHO": "me", "PET_LOG_DIR": "/mine"})
    for env in (role.env, {"WHO": "me"}):
        made = await scheduler.submit_dryrun(AppDef("job", [replace(role, env=env, num_replicas=2)]))
        app_id = await scheduler.schedule(AppDryRunInfo(made.request, repr))
        found = await ended(scheduler, app_id)
        again = await scheduler.submit_dryrun(AppDef("job", found.roles))

        assert {**env, "PATH": found.roles[0].env["PATH"]} == found.roles[0].env
        assert made.request.role_params["main"][0].env["PATH"] == again.request.role_params["main"][0].env["PATH"]
        assert app_id not in repr(again.request)


async def test_a_request_by_hand_whose_replicas_are_not_alike_is_not_told_by_its_first(
    scheduler: LocalScheduler, tmp_path: Path
) -> None:
    await scheduler.schedule(AppDryRunInfo(by_hand("by-hand", tmp_path), repr))
    found = await ended(scheduler, "by-hand")

    with pytest.raises(ConfigError, match=r"role 'main': not all of it was kept.*its replicas are not alike"):
        await scheduler.submit(AppDef("job", found.roles))


@pytest.mark.parametrize(
    ("more", "cwd", "named"),
    [
        ({}, None, ""),
        ({}, "/usr", "its replicas start in /usr"),
        ({"inherit": ["HOME"]}, None, "option copy_env"),
        ({"inherit": []}, "/", "its replicas start in /, and they inherit only"),
        ({"env": {"PATH": "/bin:/usr/bin"}}, None, "their PATH does not end with that of the submitter"),
        ({"env": {"TORCHX_RANK0_HOST": "other"}}, None, "their TORCHX_RANK0_HOST is not what a submit would set"),
        ({"env": {"TORCHX_RANK0_HOST": "localhost"}}, None, ""),
        ({"env": {"ASYNCSCHED_RESULT_FILE": "/x"}}, None, "their ASYNCSCHED_RESULT_FILE is not what a submit would"),
        ({"env": {"A\udc80": "x"}}, None, "U+DC80 is a lone surrogate"),
        ({"timeout": 60.0}, None, "its run options timeout,"),
        ({"detach": True, "on_failure": "stop"}, "/usr", "its run options detach and on_failure,"),
    ],
)
async def test_what_no_role_holds_of_a_request_by_hand_is_named(
    scheduler: LocalScheduler, tmp_path: Path, more: dict[str, Any], cwd: str | None, named: str
) -> None:
    more = {**more}
    env = more.pop("env", {})
    request = by_hand("by-hand", tmp_path, **more)
    for param in request.role_params["main"]:
        param.args, param.cwd = ["sh", "-c", "pwd; env | grep PATH="], cwd or str(Path.cwd())
        param.env = {"WHO": "me", "PATH": f"{os.environ['PATH']}:{Path.cwd()}", **env}
    await scheduler.schedule(AppDryRunInfo(request, repr))
    found = await ended(scheduler, "by-hand")

    if not named:
        again = await scheduler.submit(AppDef("job", found.roles))
        await ended(scheduler, again)
        assert await texts(scheduler, "by-hand") == await texts(scheduler, again)
        return
    with pytest.raises(ConfigError, match=r"made by hand|not kept") as caught:
        await scheduler.submit(AppDef("job", found.roles))
    assert named in (caught.value.why or "")


async def test_a_request_that_names_no_app_or_is_another_backends_is_refused(
    scheduler: LocalScheduler, tmp_path: Path
) -> None:
    for app_id in ("", "a/b"):
        with pytest.raises(UsageError, match="must not be empty or contain a slash"):
            await scheduler.schedule(AppDryRunInfo(by_hand(app_id, tmp_path), repr))
    with pytest.raises(UsageError, match="local_cwd needs a PopenRequest, but this request is a dict"):
        await scheduler.schedule(AppDryRunInfo(cast("Any", {"app_id": "x"}), repr))
    assert [] == [*await scheduler.list()]


def test_what_is_put_together_by_hand_is_launched_for_code_that_cannot_await(home: Path, tmp_path: Path) -> None:
    with sync.create_scheduler("local_cwd", "session") as scheduler:
        app_id = scheduler.schedule(AppDryRunInfo(by_hand("by-hand", tmp_path), repr))
        lines = [str(line).strip() for line in scheduler.log_iter(app_id, should_tail=True)]

    assert ["0 me", str(tmp_path)] == lines  # those of replica 0, as the documents have it
