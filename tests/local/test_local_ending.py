"""How apps end: when they are told to, by themselves, and what is said of it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from asyncsched.errors import ConflictError
from asyncsched.schedulers.local import LocalScheduler
from asyncsched.schedulers.local.supervisor.files import remove_tree
from asyncsched.specs import AppState, Stream, macros
from tests._support import eventually
from tests.local._local import (
    EACH_LOOP,
    FAMILY,
    FAMILY_SIZE,
    LOOKS_AROUND,
    ONE_LOOP,
    Other,
    app,
    ended,
    first,
    lives,
    marked,
    python,
    read,
    read_state,
    shell,
    texts,
    until,
)

pytestmark = ONE_LOOP

_COUNTS = """from signal import *
from time import sleep
signal(SIGTERM, lambda *_: print("asked", flush=True))
print("counting", flush=True)
while True: sleep(0.1)  # a signal just before pause() would be missed"""
COUNTING = (
    """["sh", "-c", "trap '' TERM; exec sleep 1000"]""",
    f"""[sys.executable, "-S", "-c", {_COUNTS!r}]""",
)
"""Makes the one of a family that withstands TERM say so each time."""

STUBBORN = "trap '' TERM; echo ready; while :; do sleep 1000; done"


@pytest.mark.slow
@EACH_LOOP
@LOOKS_AROUND
async def test_a_tree_that_ignores_term_is_gone_after_one_grace_period(scheduler: LocalScheduler, token: str) -> None:
    grace = 3.0
    role = python(FAMILY.replace(*COUNTING), env={"TOKEN": token}, num_replicas=3)
    app_id = await scheduler.submit(app(role), {"grace_period": grace})
    await first(scheduler, app_id, 2 * 3)  # that it is ready, and that it is counting
    await eventually(lambda: 3 * FAMILY_SIZE == len(marked(token)))  # one that becomes a program shows no mark
    began = time.monotonic()

    await scheduler.cancel(app_id)
    found = await ended(scheduler, app_id)
    took = time.monotonic() - began
    asked = [line for line in await read(scheduler, app_id) if line.text == "asked"]

    assert [] == marked(token)
    assert AppState.CANCELLED is found.state
    assert grace <= took
    assert [0, 1, 2] == sorted(line.replica for line in asked), "each is asked once: there is one grace period"
    assert {signal.SIGTERM} == {replica.signal for replica in found.replicas}


@EACH_LOOP
@LOOKS_AROUND
async def test_closing_returns_when_all_is_gone(home: Path, token: str) -> None:
    async with LocalScheduler("session") as scheduler:
        for grace in (0.3, 0.6):
            role = python(FAMILY, env={"TOKEN": token})
            app_id = await scheduler.submit(app(role), {"grace_period": grace})
            await first(scheduler, app_id)
        pids = [read_state(home, app_id)["supervisor"][which] for which in ("pid", "watcher_pid")]
        await scheduler.close()

        assert [] == marked(token)
        assert [False, False] == [lives(pid) for pid in pids]
        assert [] == [*(home / "supervisors").iterdir()]

    async with LocalScheduler("another") as another:
        rows = await another.list()
        assert [AppState.CANCELLED] * 2 == [row.state for row in rows]
        found = await another.describe(app_id)
    assert found is not None
    assert "the scheduler that submitted it was closed" in found.msg


@EACH_LOOP
async def test_killing_does_not_wait_for_the_grace_period(scheduler: LocalScheduler) -> None:
    app_id = await scheduler.submit(app(shell(STUBBORN)), {"grace_period": 1000.0})
    await first(scheduler, app_id)
    await scheduler.cancel(app_id)

    await scheduler.kill(app_id)

    found = await ended(scheduler, app_id)
    assert AppState.CANCELLED is found.state
    assert signal.SIGKILL == found.replicas[0].signal


async def test_a_program_that_obeys_may_still_write_and_choose_its_code(scheduler: LocalScheduler) -> None:
    script = "trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.01; done"
    app_id = await scheduler.submit(app(shell(script)))
    await first(scheduler, app_id)

    await scheduler.cancel(app_id)

    found = await ended(scheduler, app_id)
    assert AppState.CANCELLED is found.state
    assert 7 == found.replicas[0].exit_code
    assert "cancelled; exit code 7" == found.replicas[0].reason
    assert ["ready", "bye"] == await texts(scheduler, app_id, streams=Stream.STDOUT)


CANCELS = """
    async def main():
        async with LocalScheduler("session") as scheduler:
            say("ready")
            hear()
            await scheduler.cancel(sys.argv[1])
            say("asked")
            say((await ended(scheduler, sys.argv[1])).state.name)
    asyncio.run(main())
"""


@EACH_LOOP
async def test_two_processes_that_cancel_at_once(scheduler: LocalScheduler) -> None:
    app_id = await scheduler.submit(app(shell("echo ready; sleep 1000", num_replicas=3)))
    await first(scheduler, app_id, 3)
    with Other(CANCELS, app_id) as one, Other(CANCELS, app_id) as two:
        assert ["ready", "ready"] == await asyncio.gather(one.heard(), two.heard())
        one.say()
        two.say()
        await scheduler.cancel(app_id)

        assert ["asked", "asked"] == await asyncio.gather(one.heard(), two.heard())
        assert ["CANCELLED", "CANCELLED"] == await asyncio.gather(one.heard(), two.heard())
    assert AppState.CANCELLED is (await ended(scheduler, app_id)).state


@EACH_LOOP
async def test_what_a_replica_leaves_behind_ends_with_it(scheduler: LocalScheduler, token: str) -> None:
    code = FAMILY[: FAMILY.index("    while")] + "\n    print('last', flush=True); os._exit(4)"
    app_id = await scheduler.submit(app(python(code, env={"TOKEN": token})))

    found = await ended(scheduler, app_id)

    assert AppState.FAILED is found.state
    assert 4 == found.replicas[0].exit_code
    assert ["ready", "last"] == await texts(scheduler, app_id)
    assert await asyncio.to_thread(marked, token) == []


async def test_reading_the_status_ends_nothing(scheduler: LocalScheduler, home: Path) -> None:
    app_id = await scheduler.submit(app(shell("echo ready; (trap '' HUP; sleep 1000) & wait", num_replicas=2)))
    await first(scheduler, app_id, 2)
    pids = [replica["pid"] for replica in read_state(home, app_id)["replicas"]]

    async with LocalScheduler("another") as another:
        for _ in range(20):
            for each in (scheduler, another):
                found = await each.describe(app_id)
                assert found is not None
                assert AppState.RUNNING is found.state
                await each.list()

    assert [True, True] == [lives(pid) for pid in pids]


async def test_each_replica_has_its_own_code_or_signal(scheduler: LocalScheduler) -> None:
    roles = [
        shell("exit 0", name="good"),
        shell("exit 3", name="three"),
        shell("kill -9 $$", name="killed"),
        shell("kill -SEGV $$", name="crashed"),
        shell("exit 255", name="most"),
    ]
    found = await ended(scheduler, await scheduler.submit(app(*roles)))

    told = {each.role: (each.exit_code, each.signal, each.reason) for each in found.replicas}
    assert {
        "good": (0, None, ""),
        "three": (3, None, "exit code 3"),
        "killed": (-9, 9, "killed by SIGKILL"),
        "crashed": (-11, 11, "killed by SIGSEGV"),
        "most": (255, None, "exit code 255"),
    } == told
    assert AppState.FAILED is found.state
    assert "three/0: exit code 3" == found.msg


@pytest.mark.parametrize("code", [0, 3])
async def test_a_failure_stops_the_others_where_that_is_asked_for(scheduler: LocalScheduler, code: int) -> None:
    roles = [shell("echo ready; exec sleep 1000", name="waits", num_replicas=2), shell(f"exit {code}", name="ends")]
    app_id = await scheduler.submit(app(*roles), {"on_failure": "stop"})

    if code == 0:
        await until(scheduler, app_id, lambda found: found.replicas[-1].state is AppState.SUCCEEDED)
        await scheduler.cancel(app_id)
    found = await ended(scheduler, app_id)

    if code:
        assert AppState.FAILED is found.state
        assert ["stopped because ends/0 failed; killed by SIGTERM"] * 2 == [r.reason for r in found.replicas[:2]]
        assert {AppState.CANCELLED} == {replica.state for replica in found.replicas[:2]}
        assert "ends/0: exit code 3" == found.msg
    else:
        assert AppState.CANCELLED is found.state


async def test_an_app_that_a_failure_stops_can_still_be_cancelled(
    scheduler: LocalScheduler, home: Path, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    fails = shell(f"until [ -e {go} ]; do sleep 0.01; done; exit 3", name="fails")
    roles = [shell(STUBBORN.replace("echo ready", f"touch {go}"), name="stubborn"), fails]
    app_id = await scheduler.submit(app(*roles), {"on_failure": "stop", "grace_period": 1000.0})
    await eventually(lambda: read_state(home, app_id)["ended_by"] == "stop")

    await scheduler.cancel(app_id)
    await scheduler.kill(app_id)

    async with LocalScheduler("another") as another:
        assert AppState.CANCELLED is (await ended(another, app_id)).state


async def test_without_that_the_others_run_on(scheduler: LocalScheduler) -> None:
    app_id = await scheduler.submit(app(shell("exec sleep 1000", name="waits"), shell("exit 3", name="ends")))

    found = await until(scheduler, app_id, lambda found: found.replicas[-1].state is AppState.FAILED)

    assert AppState.RUNNING is found.state
    await scheduler.kill(app_id)


# Error files


def _writes(text: str) -> str:
    return f"printf %s '{text}' > $TORCHELASTIC_ERROR_FILE; exit 1"


def _error(message: str, timestamp: object) -> str:
    return json.dumps({"message": {"message": message, "extraInfo": {"timestamp": timestamp}}})


async def test_the_earliest_error_file_is_the_apps(scheduler: LocalScheduler) -> None:
    errors = [_error("never", "nan"), _error("second", 1002), _error("first", 1001.5), _error("third", "1003")]
    roles = [shell(_writes(error), name=f"r{number}") for number, error in enumerate(errors)]

    found = await ended(scheduler, await scheduler.submit(app(*roles)))

    assert "first" == json.loads(found.structured_error_msg)["message"]["message"]
    assert errors == [replica.structured_error_msg for replica in found.replicas]


@pytest.mark.parametrize("text", ["no JSON {", "[1]", "7", "null", '{"message": 3}', _error("no time", None)])
async def test_an_error_file_of_any_form_is_told_as_it_is(scheduler: LocalScheduler, text: str) -> None:
    found = await ended(scheduler, await scheduler.submit(app(shell(_writes(text)))))

    assert text == found.structured_error_msg == found.replicas[0].structured_error_msg
    assert AppState.FAILED is found.state


@pytest.mark.parametrize("place", ["/own-{id}.json", "own-{id}.json"])
async def test_a_role_may_say_where_its_error_files_are(
    scheduler: LocalScheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    name = (str(tmp_path) if place.startswith("/") else "") + place.format(id=macros.replica_id)
    role = shell("echo $TORCHELASTIC_ERROR_FILE > $TORCHELASTIC_ERROR_FILE; exit 1", num_replicas=2)
    role.env["TORCHELASTIC_ERROR_FILE"] = name

    found = await ended(scheduler, await scheduler.submit(app(role)))

    assert [name.replace(macros.replica_id, f"{k}") + "\n" for k in range(2)] == [
        replica.structured_error_msg for replica in found.replicas
    ]


async def test_bytes_and_links_in_place_of_an_error_file(scheduler: LocalScheduler, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("not yours")
    roles = [
        shell(r"printf '\377\0x' > $TORCHELASTIC_ERROR_FILE; exit 1", name="bytes"),
        shell(f"ln -s {secret} $TORCHELASTIC_ERROR_FILE; exit 1", name="link"),
        shell("mkfifo $TORCHELASTIC_ERROR_FILE; exit 1", name="pipe"),
    ]

    found = await ended(scheduler, await scheduler.submit(app(*roles)))

    assert ["\ufffd\0x", "<NONE>", "<NONE>"] == [replica.structured_error_msg for replica in found.replicas]


def test_several_who_remove_one_directory_return_when_it_is_gone(tmp_path: Path) -> None:
    at = os.open(tmp_path, os.O_RDONLY)
    barrier = threading.Barrier(4)

    def remove() -> bool:
        barrier.wait()
        remove_tree("tree", at=at)
        return not (tmp_path / "tree").exists()

    for k in range(100):
        (tmp_path / f"tree/role/{k}").mkdir(parents=True)
        for name in ("index", "stdout.log", "stderr.log"):
            (tmp_path / f"tree/role/{k}/{name}").touch()
    with ThreadPoolExecutor(4) as pool:
        removing = [pool.submit(remove) for _ in range(4)]
    os.close(at)

    assert [True] * 4 == [each.result() for each in removing]


def test_who_removes_a_directory_may_find_a_new_one_of_its_name(tmp_path: Path) -> None:
    at = os.open(tmp_path, os.O_RDONLY)

    def remove() -> None:
        for _ in range(3000):
            remove_tree("tree", at=at)

    with ThreadPoolExecutor(3) as pool:
        removing = [pool.submit(remove) for _ in range(3)]
        while not all(each.done() for each in removing):
            with suppress(FileExistsError, FileNotFoundError):
                (tmp_path / "tree").mkdir()
                (tmp_path / "tree/state.json").touch()
    os.close(at)

    assert [None] * 3 == [each.exception() for each in removing]


async def test_a_running_app_cannot_be_deleted(scheduler: LocalScheduler) -> None:
    app_id = await scheduler.submit(app(shell("exec sleep 1000")))

    with pytest.raises(ConflictError, match="cancel it first"):
        await scheduler.delete(app_id)

    await scheduler.kill(app_id)
    await ended(scheduler, app_id)
    await scheduler.delete(app_id)
    assert await scheduler.describe(app_id) is None
