"""Deleting, pruning and submitting one key at once: never two copies of an app, never one that runs without a record.

One of two processes is stopped at each of its steps on the disk in turn, while the other one does what it wants.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from asyncsched.errors import ConflictError
from asyncsched.schedulers.local import LocalScheduler
from asyncsched.schedulers.local.supervisor.host import stat_fields
from asyncsched.specs import AppDef, AppState
from tests._support import WITHIN, eventually, go_on
from tests.local._local import (
    LOOKS_AROUND,
    ONE_LOOP,
    Other,
    app,
    app_directory,
    ended,
    marked,
    python,
    shell,
)

pytestmark = [ONE_LOOP, LOOKS_AROUND, pytest.mark.slow]

STOPS = """
import os, signal

TOUCHES = {"open", "os.listdir", "os.mkdir", "os.remove", "os.rename", "os.rmdir"}
left = -1
counted = os.getpid()
stopped_in = ""

def on_event(event, args):
    global left
    if left >= 0 and event in TOUCHES and os.getpid() == counted:
        left -= 1
        if left < 0:
            if stopped_in:
                with open(stopped_in, "w") as file:
                    file.write(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGSTOP)
"""
"""Stops its process before the step on the disk after `left` others."""

REMOVES = f"""
from datetime import timedelta

{STOPS}
from datetime import timedelta

async def main():
    global left
    async with LocalScheduler("another") as another:
        while True:
            what, app_id, count = (await asyncio.to_thread(hear)).split()
            left = int(count)
            try:
                await (another.delete(app_id) if what == "delete" else another.prune(timedelta(0)))
                found = "done"
            except AsyncSchedError as error:
                found = type(error).__name__
            left = -1
            say(found)

sys.addaudithook(on_event)
asyncio.run(main())
"""


async def stopped_or(find_pid: Callable[[], int], done: asyncio.Future[str]) -> bool:
    """Wait until a process has been stopped, or something is done; tell whether it has been stopped."""

    def is_stopped() -> bool:
        pid = find_pid()
        return pid > 0 and (stat_fields(pid) or " ")[0] == "T"

    async def look() -> str:
        return "done" if done.done() else "stopped" if await asyncio.to_thread(is_stopped) else ""

    return await eventually(look, within=3 * WITHIN) == "stopped"


async def check_one_copy(home: Path, app_id: str, definition: AppDef, token: str) -> None:
    """Check that one copy runs, that everybody finds it, and that it is not started again."""
    async with LocalScheduler("session") as third:
        found = await third.describe(app_id)
        assert found is not None, "a running app without its record"
        assert AppState.RUNNING is found.state
        assert app_id == await third.submit(definition, {"grace_period": 0.1}, key="same")
        assert [app_id] == [row.app_id for row in await third.list()]
    await eventually(lambda: marked(token))  # a replica runs a moment before it is the program
    assert 1 == len(marked(token))


@pytest.mark.parametrize("what", ["delete", "prune"])
async def test_what_is_removed_is_what_was_judged(scheduler: LocalScheduler, home: Path, what: str) -> None:
    token = secrets.token_hex(8)
    definition = app(python(f"import signal; signal.pause()  # {token}"))

    async def submit() -> str:
        return await scheduler.submit(definition, {"grace_period": 0.1}, key="same")

    async def end(app_id: str) -> None:
        await scheduler.kill(app_id)
        await ended(scheduler, app_id)

    with Other(REMOVES) as other:
        for step in range(1000):
            app_id = await submit()
            await end(app_id)
            other.say(f"{what} {app_id} {step}")
            heard = asyncio.ensure_future(other.heard())
            was_stopped = await stopped_or(lambda: other.pid, heard)
            if was_stopped:
                await scheduler.delete(app_id)
                assert app_id == await submit()
                other.send(signal.SIGCONT)
            assert await heard in ("done", ConflictError.__name__)
            if not was_stopped:
                assert step > 5
                break
            await check_one_copy(home, app_id, definition, token)
            await end(app_id)
            await scheduler.delete(app_id)

    assert not app_directory(home, app_id).exists()
    assert [] == [*(home / "apps").iterdir()]


STARTS_SLOWLY = f"""
{STOPS}
import runpy, sys
armed, renames = False, 0
home, step, stopped_in = os.environ["STOP"].split(":")

def from_the_start_of_an_app(event, args):
    global armed, counted, left, renames
    if not armed and event == "os.mkdir" and "same-" in str(args[0]):
        armed, left, counted = True, int(step), os.getpid()  # and none of the replicas that it forks
    on_event(event, args)
    renames += armed and event == "os.rename" and os.getpid() == counted
    if renames == 3:  # of the record, the directory, and the record that says that it has started
        left = -1

sys.addaudithook(from_the_start_of_an_app)
sys.argv = sys.argv[3:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""

SUBMITS = """
async def main():
    definition = app(python(bytes.fromhex(sys.argv[2]).decode()))
    sys.executable = sys.argv[1]  # starts the supervisor so that it stops
    async with LocalScheduler("session") as one:
        try:
            say(await one.submit(definition, {"grace_period": 0.1}, key="same"))
        except AsyncSchedError as error:
            say(f"{type(error).__name__}: {error}")
        hear()

asyncio.run(main())
"""


async def test_who_is_slow_to_start_an_app_starts_no_second_copy(
    scheduler: LocalScheduler, home: Path, tmp_path: Path
) -> None:
    token = secrets.token_hex(8)
    code = f"import signal; signal.pause()  # {token}"
    definition = app(python(code))
    (tmp_path / "stops.py").write_text(STARTS_SLOWLY)
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nexec {sys.executable} {tmp_path}/stops.py "$@"\n')
    wrapper.chmod(0o755)
    for step in range(1000):
        stopped = tmp_path / f"stopped-{step}"
        env = {"STOP": f"{home}:{step}:{stopped}"}
        with let_go_at_the_end(stopped), Other(SUBMITS, str(wrapper), code.encode().hex(), env=env) as other:
            heard = asyncio.ensure_future(other.heard())
            was_stopped = await stopped_or(partial(_number, stopped), heard)
            mine = None
            if was_stopped:
                mine = asyncio.create_task(scheduler.submit(definition, {"grace_period": 0.1}, key="same"))
                if not await asyncio.to_thread(_has_started, home):
                    await scheduler.prune(timedelta(0))
                    for row in await scheduler.list():
                        with pytest.raises(ConflictError):
                            await scheduler.delete(row.app_id)
                os.kill(_number(stopped), signal.SIGCONT)
            app_id = await heard
            assert app_id.startswith("same-"), app_id
            if mine is not None:
                assert app_id == await mine
            await check_one_copy(home, app_id, definition, token)
            await scheduler.kill(app_id)
            await ended(scheduler, app_id)
            await scheduler.delete(app_id)
            other.say()
            other.wait()
        if not was_stopped:
            assert step > 3
            break


@contextmanager
def let_go_at_the_end(number: Path) -> Iterator[None]:
    """Let the process go on whose number a file tells by then: a test that fails must not leave it stopped."""
    try:
        yield
    finally:
        if pid := _number(number):
            go_on(pid)


def _has_started(home: Path) -> bool:
    """Tell whether an app has been let go, as its record says."""
    return any(json.loads(file.read_bytes())["started_ns"] for file in home.glob("apps/same-*/state.json"))


def _number(file: Path) -> int:
    return int(file.read_text() or 0) if file.exists() else 0


async def test_what_a_removal_has_left_is_removed_by_the_next_submit(scheduler: LocalScheduler, home: Path) -> None:
    definition = app(shell("echo here"))
    app_id = await scheduler.submit(definition, key="same")
    await ended(scheduler, app_id)
    (app_directory(home, app_id) / "state.json").unlink()  # who removed it was killed then

    assert app_id == await scheduler.submit(definition, key="same")
    assert AppState.SUCCEEDED is (await ended(scheduler, app_id)).state
