"""Every call of a runner, cancelled at each of its suspension points in turn, by asyncio and by anyio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from asyncsched.runner import Runner
from asyncsched.specs import AppHandle, AppState
from asyncsched.testing import FakeScheduler
from tests._cancelling import How, cancelled_at_each_await
from tests._support import eventually
from tests.runner.rig import Rig, app

HOW = pytest.mark.parametrize("how", ["once", "again and again"])
SCHEDULER = pytest.mark.parametrize("scheduler", ["push", "polled"])

Call = Callable[[Runner, AppHandle], Coroutine[Any, Any, Any]]
LOOKS: dict[str, Call] = {
    "status": lambda runner, handle: runner.status(handle),
    "describe": lambda runner, handle: runner.describe(handle),
    "list": lambda runner, handle: runner.list(),
    "wait": lambda runner, handle: runner.wait(handle, timeout=0.01),
    "wait_all": lambda runner, handle: runner.wait_all([handle], timeout=0.01),
    "scheduler_run_opts": lambda runner, handle: runner.scheduler_run_opts("fresh"),
}


@HOW
@SCHEDULER
@pytest.mark.parametrize("name", LOOKS)
async def test_looking_leaves_nothing_and_the_app_alone(rig: Rig, scheduler: str, name: str, how: How) -> None:
    handle = await rig.run(scheduler)
    fresh = {"fresh": lambda session_name, **kwargs: FakeScheduler(session_name)}
    async with Runner("me", {**rig.schedulers, **fresh}) as runner:

        async def attempt() -> None:
            try:
                await LOOKS[name](runner, handle)
            except TimeoutError:
                assert name.startswith("wait")

        async for outcome in cancelled_at_each_await(attempt, how=how):
            assert outcome.cancelled or outcome.result is None
            assert 0 == runner.statistics().watches
            # A feed may still be on its way out; nobody waits for it any more.
            await eventually(lambda: not rig.push.connections)
    status = await rig.runner.status(handle)

    assert status is not None
    assert AppState.RUNNING is status.state


@HOW
@SCHEDULER
async def test_a_run_leaves_the_app_or_nothing(rig: Rig, scheduler: str, how: How) -> None:
    service = rig.schedulers[scheduler].service
    async for outcome in cancelled_at_each_await(lambda: rig.runner.run(app(), scheduler), how=how):
        if outcome.cancelled:
            assert {} == service.apps
        else:
            assert [outcome.result.app_id] == [*service.apps]
        service.apps.clear()


@HOW
async def test_a_run_with_a_key_goes_on_where_it_was_cancelled(rig: Rig, how: How) -> None:
    seen: set[str] = set()
    async for _ in cancelled_at_each_await(lambda: rig.runner.run(app(), "push", key="order-42"), how=how):
        handle = await rig.runner.run(app(), "push", key="order-42")
        seen.add(handle)

        assert [handle.app_id] == [*rig.push.apps]
        rig.push.apps.clear()
    assert 1 == len(seen)


@HOW
async def test_cancel_may_have_taken_effect_and_can_be_repeated(rig: Rig, how: How) -> None:
    running = [await rig.run("push")]
    async for _ in cancelled_at_each_await(lambda: rig.runner.cancel(running[-1]), how=how):
        await rig.runner.cancel(running[-1])
        status = await rig.runner.status(running[-1])

        assert status is not None
        assert AppState.CANCELLED is status.state
        running.append(await rig.run("push"))


@HOW
@SCHEDULER
async def test_delete_may_have_taken_effect_and_can_be_repeated(rig: Rig, scheduler: str, how: How) -> None:
    async def ended() -> AppHandle:
        handle = await rig.run(scheduler)
        rig.exit(handle)
        return handle

    over = [await ended()]
    async for _ in cancelled_at_each_await(lambda: rig.runner.delete(over[-1]), how=how):
        await rig.runner.delete(over[-1])

        assert {} == rig.schedulers[scheduler].service.apps
        over.append(await ended())


@HOW
@SCHEDULER
async def test_a_dryrun_leaves_nothing(rig: Rig, scheduler: str, how: How) -> None:
    fresh: dict[str, Any] = {
        "fresh": lambda session_name, **kwargs: FakeScheduler(session_name, rig.schedulers[scheduler].service)
    }
    async with Runner("me", fresh) as runner:
        async for outcome in cancelled_at_each_await(lambda: runner.dryrun(app(), "fresh"), how=how):
            assert outcome.cancelled
            assert {} == rig.schedulers[scheduler].service.apps
        info = await runner.dryrun(app(), "fresh")
        handle = await runner.schedule(info)

        assert [handle.app_id] == [*rig.schedulers[scheduler].service.apps]


@HOW
@SCHEDULER
async def test_a_dry_run_that_is_scheduled_leaves_the_app_or_nothing_and_can_be_scheduled_again(
    rig: Rig, scheduler: str, how: How
) -> None:
    apps = rig.schedulers[scheduler].service.apps
    infos = [await rig.runner.dryrun(app(), scheduler)]
    async for outcome in cancelled_at_each_await(lambda: rig.runner.schedule(infos[-1]), how=how):
        assert ([] if outcome.cancelled else [infos[-1].app_id]) == [*apps]
        handle = await rig.runner.schedule(infos[-1])

        assert infos[-1].app_id == handle.app_id
        assert [handle.app_id] == [*apps]
        apps.clear()
        infos.append(await rig.runner.dryrun(app(), scheduler))


@HOW
@SCHEDULER
@pytest.mark.parametrize(("code", "end"), [(0, AppState.SUCCEEDED), (1, AppState.FAILED)])
async def test_a_cancelled_step_of_a_watch_loses_nothing(
    rig: Rig, scheduler: str, how: How, code: int, end: AppState
) -> None:
    handle = await rig.run(scheduler)
    events = rig.runner.watch([handle])
    got = [(await anext(events)).state]

    async def step() -> None:
        pending = asyncio.get_running_loop().call_later(0.01, rig.exit, handle, code)
        try:
            got.append((await anext(events)).state)
        finally:
            pending.cancel()

    async for _ in cancelled_at_each_await(step, how=how):
        if len(got) > 1:
            break
    got += [event.state async for event in events]

    assert [AppState.RUNNING, end] == got


@HOW
async def test_a_cancelled_step_of_a_log_loses_nothing(rig: Rig, how: How) -> None:
    handles = [await rig.run(scheduler) for scheduler in ("push", "polled")]
    lines = rig.runner.log_lines(handles, should_tail=True)
    said: list[str] = []
    got: list[str] = []

    async def step() -> None:
        for handle in handles:
            said.append(f"{handle.scheduler} {len(said)}")
            rig.say(handle, said[-1])
        got.append((await anext(lines)).text)

    async for _ in cancelled_at_each_await(step, how=how):
        pass
    for handle in handles:
        rig.exit(handle)
    got += [line.text async for line in lines]

    assert sorted(said) == sorted(got)


@HOW
async def test_a_cancelled_close_closes_everything_all_the_same(how: How) -> None:
    made: list[FakeScheduler] = []

    def factory(session_name: str, **kwargs: object) -> FakeScheduler:
        made.append(FakeScheduler(session_name))
        made[-1].service.start_delay = None
        return made[-1]

    async def opened() -> Runner:
        runner = Runner("me", {"fake": factory})
        handle = await runner.run(app(), "fake")
        made[-1].service.start(handle.app_id)
        lines, events = runner.log_lines(handle, should_tail=True), runner.watch([handle])
        made[-1].service.say(handle.app_id, "x\n")
        await anext(lines)
        await anext(events)
        kept.append((lines, events))
        return runner

    kept: list[Any] = []
    runners = [await opened() for _ in range(40)]
    closing = iter(runners)
    tried = 0

    def is_unconnected(which: int) -> bool:
        return 0 == made[which].service.connections

    async for _ in cancelled_at_each_await(lambda: next(closing).close(), how=how):
        assert "closed" in repr(made[tried])
        assert [True, True] == [stream.closed for stream in kept[tried]]
        await eventually(partial(is_unconnected, tried))
        tried += 1
    for runner in runners:
        await runner.close()
    assert tried
