"""What runs longer than it may is ended by its supervisor, and has failed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from asyncsched.errors import RunOptionError
from asyncsched.schedulers.local import LocalScheduler
from asyncsched.specs import AppState, FailureCause
from tests.local._local import ONE_LOOP, Other, app, ended, first, python, shell, texts, until

pytestmark = ONE_LOOP

TIMEOUT = 3.0
"""What replicas need to be ready is a small part of it, also on a machine that has much else to do."""

STAYS = "trap '' TERM; echo ready; while true; do sleep 0.05; done"


@pytest.mark.parametrize("detach", [False, True])
async def test_only_those_that_run_longer_have_failed(scheduler: LocalScheduler, detach: bool) -> None:
    roles = [shell("sleep 1000", name="long"), shell("true", name="short"), shell("exit 3", name="bad")]
    app_id = await scheduler.submit(app(*roles), {"timeout": TIMEOUT, "detach": detach})
    found = await ended(scheduler, app_id)
    long, short, bad = found.replicas

    assert (AppState.FAILED, FailureCause.TIMEOUT) == (found.state, found.cause)
    assert (AppState.FAILED, FailureCause.TIMEOUT, 15) == (long.state, long.cause, long.signal)
    assert "ran longer than its timeout of 3 s" == long.reason
    assert "long/0: ran longer than its timeout of 3 s" == found.msg
    assert [(AppState.SUCCEEDED, None), (AppState.FAILED, FailureCause.EXIT)] == [
        (each.state, each.cause) for each in (short, bad)
    ]


async def test_a_good_code_after_its_time_does_not_count(scheduler: LocalScheduler) -> None:
    code = """
        import signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: (print("asked"), sys.exit(0)))
        while True:
            time.sleep(0.1)  # a signal just before signal.pause() would be missed
    """
    app_id = await scheduler.submit(app(python(code)), {"timeout": TIMEOUT})
    found = await ended(scheduler, app_id)

    assert (AppState.FAILED, FailureCause.TIMEOUT, 0) == (found.state, found.cause, found.replicas[0].exit_code)
    assert ["asked"] == await texts(scheduler, app_id)


async def test_one_that_does_not_obey_is_killed_after_the_grace_period(scheduler: LocalScheduler) -> None:
    app_id = await scheduler.submit(app(shell(STAYS)), {"timeout": TIMEOUT, "grace_period": 0.2})
    found = await ended(scheduler, app_id)

    assert (FailureCause.TIMEOUT, 9) == (found.cause, found.replicas[0].signal)


async def test_cancelled_in_its_grace_period_it_is_cancelled(scheduler: LocalScheduler) -> None:
    app_id = await scheduler.submit(app(shell(STAYS)), {"timeout": TIMEOUT, "grace_period": 600})
    await first(scheduler, app_id)
    await until(scheduler, app_id, lambda found: "main/0: ran longer" in found.msg)
    await scheduler.cancel(app_id)
    await scheduler.kill(app_id)
    found = await ended(scheduler, app_id)

    assert (AppState.CANCELLED, FailureCause.CANCELLED) == (found.state, found.cause)
    assert "cancelled; killed by SIGKILL" == found.replicas[0].reason


async def test_one_that_ends_in_time_is_not_touched(scheduler: LocalScheduler, home: Path) -> None:
    app_id = await scheduler.submit(app(shell("sleep 0.1")), {"timeout": 1e9})

    assert (AppState.SUCCEEDED, None) == ((found := await ended(scheduler, app_id)).state, found.cause)


@pytest.mark.parametrize("seconds", [0, -1, 1.1e9, float("inf"), float("nan")])
async def test_its_bounds_are_checked(scheduler: LocalScheduler, seconds: float) -> None:
    with pytest.raises(RunOptionError, match=re.escape(f"got {seconds!r}")):
        await scheduler.submit_dryrun(app(shell("true")), {"timeout": seconds})


async def test_it_holds_where_the_submitter_hangs(scheduler: LocalScheduler) -> None:
    hangs = """
        async def main():
            async with LocalScheduler("other") as scheduler:
                say(await scheduler.submit(app(shell("sleep 1000")), {"timeout": 1}))
                os.kill(os.getpid(), signal.SIGSTOP)
        asyncio.run(main())
    """
    with Other(hangs) as other:
        found = await ended(scheduler, await other.heard())

    assert (AppState.FAILED, FailureCause.TIMEOUT) == (found.state, found.cause)
