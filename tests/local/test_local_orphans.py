"""Nothing outlives the process that has submitted an app, however that or the supervisor ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asyncsched.schedulers import DescribeAppResponse
from asyncsched.schedulers.local import LocalScheduler
from asyncsched.specs import AppState
from tests._support import eventually, eventually_blocking, held_up
from tests.local._local import FAMILY_SIZE, LOOKS_AROUND, Other, app, ended, first, marked, python, read_state

pytestmark = LOOKS_AROUND

OWNER = """
    token, ending, child = sys.argv[1:]

    async def main():
        scheduler = LocalScheduler("session")
        role = python(FAMILY, *filter(None, [ending]), num_replicas=3, env={"TOKEN": token})
        app_id = await scheduler.submit(app(role), {"grace_period": 600.0 if ending else 0.5})
        await first(scheduler, app_id, 3)
        if child:
            import multiprocessing
            process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(1000,))
            process.start()
            say(process.pid)
        say(app_id)
        await asyncio.Event().wait()

    asyncio.run(main())
"""
"""Submits three families, tells the app's id and waits.

Its arguments are the mark of its app's processes, ``obedient`` if none of them ignores TERM (they have ten minutes
then, and else half a second), and ``child`` if it is to have a living multiprocessing child.
"""


def _owner(token: str, *, obedient: bool = False, child: bool = False) -> Other:
    return Other(OWNER, token, "obedient" if obedient else "", "child" if child else "")


async def _described(app_id: str) -> DescribeAppResponse:
    async with LocalScheduler("another") as another:
        return await ended(another, app_id)


async def test_nothing_is_left_when_the_owner_is_killed(home: Path, token: str) -> None:
    with _owner(token) as owner:
        app_id = await owner.heard()
        # One that is just becoming another program shows no mark for a moment.
        await eventually(lambda: 3 * FAMILY_SIZE == len([pid for pid in marked(token) if pid != owner.pid]))
        owner.send(signal.SIGKILL)

        found = await _described(app_id)

        assert {owner.pid} >= {*marked(token)}
    assert AppState.CANCELLED is found.state
    assert "the process that submitted it ended" in found.msg
    assert {AppState.CANCELLED} == {replica.state for replica in found.replicas}


async def test_nothing_is_left_when_a_child_of_the_killed_owner_lives_on(home: Path, token: str) -> None:
    with _owner(token, child=True) as owner:
        child = int(await owner.heard())
        app_id = await owner.heard()
        owner.send(signal.SIGKILL)
        try:
            found = await _described(app_id)

            assert AppState.CANCELLED is found.state
            assert {owner.pid, child} >= {*marked(token)}
            os.kill(child, 0)
        finally:
            os.kill(child, signal.SIGKILL)


async def test_those_that_obey_have_no_need_to_be_killed(home: Path, token: str) -> None:
    with _owner(token, obedient=True) as owner:
        app_id = await owner.heard()
        owner.send(signal.SIGKILL)

        # The grace period is ten minutes: within it only TERM is sent.
        await eventually(lambda: {owner.pid} >= {*marked(token)})

    found = await _described(app_id)
    assert {signal.SIGTERM} == {replica.signal for replica in found.replicas}


@pytest.mark.parametrize(
    ("victim", "state", "why"),
    [
        ("pid", AppState.FAILED, "its supervisor was killed, so its end was not recorded"),
        ("watcher_pid", AppState.CANCELLED, "stopped because its supervisor was killed"),
    ],
)
async def test_nothing_is_left_when_the_supervisor_is_killed(
    home: Path, token: str, victim: str, state: AppState, why: str
) -> None:
    with _owner(token) as owner:
        app_id = await owner.heard()
        os.kill(read_state(home, app_id)["supervisor"][victim], signal.SIGKILL)

        found = await _described(app_id)

        assert await eventually(lambda: {owner.pid} >= {*marked(token)})
        assert owner.process.poll() is None
    assert state is found.state
    assert [True] * 3 == [why in replica.reason for replica in found.replicas]


async def test_the_owner_ends_what_is_left_when_both_halves_of_the_supervisor_are_killed(
    home: Path, token: str
) -> None:
    with _owner(token) as owner:
        app_id = await owner.heard()
        supervisor = read_state(home, app_id)["supervisor"]
        with held_up(supervisor["watcher_pid"]):  # so that it cannot sweep before it is killed
            os.kill(supervisor["pid"], signal.SIGKILL)
            os.kill(supervisor["watcher_pid"], signal.SIGKILL)

        assert await eventually(lambda: {owner.pid} >= {*marked(token)})
        assert AppState.FAILED is (await _described(app_id)).state


async def test_the_owner_itself_sees_that_its_supervisor_was_killed(scheduler: LocalScheduler, home: Path) -> None:
    app_id = await scheduler.submit(app(python("import signal; print(1, flush=True); signal.pause()")))
    await first(scheduler, app_id)
    lines = scheduler.log_iter(app_id, should_tail=True)
    assert "1\n" == await anext(lines)
    os.kill(read_state(home, app_id)["supervisor"]["pid"], signal.SIGKILL)

    assert AppState.FAILED is (await ended(scheduler, app_id)).state
    assert [] == [line async for line in lines]

    # The next submit gets another supervisor.
    again = await scheduler.submit(app(python("print(2)")))
    assert AppState.SUCCEEDED is (await ended(scheduler, again)).state


ENDS: dict[str, tuple[str, Callable[[Other], Any]]] = {
    "return": ("return", lambda owner: None),
    "exception": ("raise SystemError('on purpose')", lambda owner: None),
    "exit": ("os._exit(3)", lambda owner: None),
    # An interrupt just before the loop waits is seen when it wakes.
    "SIGINT": ("while True: await asyncio.sleep(0.1)", lambda owner: owner.send(signal.SIGINT)),
    "SIGTERM": ("await asyncio.Event().wait()", lambda owner: owner.send(signal.SIGTERM)),
    "SIGHUP": ("await asyncio.Event().wait()", lambda owner: owner.send(signal.SIGHUP)),
}


@pytest.mark.parametrize("how", ENDS)
def test_nothing_is_left_however_the_owner_ends(home: Path, token: str, how: str) -> None:
    step, act = ENDS[how]
    code = f"""
        sys.stderr = open(os.devnull, "w")
        async def main():
            scheduler = LocalScheduler("session")
            role = python(FAMILY, "obedient", env={{"TOKEN": sys.argv[1]}})
            app_id = await scheduler.submit(app(role), {{"grace_period": 600.0}})
            await first(scheduler, app_id)
            say("ready")
            {step}
        asyncio.run(main())
    """
    with Other(code, token) as owner:
        owner.hear()
        act(owner)
        owner.wait()

        eventually_blocking(lambda: not marked(token))


def test_nothing_is_left_when_a_thread_of_the_owner_submits(home: Path, token: str) -> None:
    code = """
        async def main():
            async with LocalScheduler("session") as scheduler:
                app_id = await scheduler.submit(app(python(FAMILY, "obedient", env={"TOKEN": sys.argv[1]})))
                await first(scheduler, app_id)
                say(sorted(str(signal.getsignal(number)) for number in signal.valid_signals()) == before)
                await asyncio.Event().wait()

        before = sorted(str(signal.getsignal(number)) for number in signal.valid_signals())
        thread = threading.Thread(target=lambda: asyncio.run(main()))
        thread.start()
        thread.join()
    """
    with Other(code, token) as owner:
        assert "True" == owner.hear()
        owner.send(signal.SIGKILL)
        owner.wait()

        eventually_blocking(lambda: not marked(token))


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_the_applications_own_signal_handler_runs_and_its_apps_end(home: Path, token: str, loop: str) -> None:
    code = """
        async def main():
            asked = asyncio.Event()
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
            async with LocalScheduler("session") as scheduler:
                app_id = await scheduler.submit(app(python(FAMILY, "obedient", env={"TOKEN": sys.argv[1]})))
                await first(scheduler, app_id)
                say("ready")
                await asked.wait()
                say("asked to end")
                say((await scheduler.describe(app_id)).state.name)
            say("closed")
        __import__(sys.argv[2]).run(main())
    """
    with Other(code, token, loop) as owner:
        assert "ready" == owner.hear()
        owner.send(signal.SIGTERM)

        assert "asked to end" == owner.hear()
        assert "RUNNING" == owner.hear()
        assert "closed" == owner.hear()
        assert {owner.pid} >= {*marked(token)}
        assert 0 == owner.wait()
