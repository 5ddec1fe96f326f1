"""What each call of a runner does, over schedulers in memory."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import timedelta
from typing import cast

import pytest

from asyncsched.errors import (
    AuthError,
    ClosedError,
    ComponentError,
    ConfigError,
    ConflictError,
    MalformedHandleError,
    RunOptionError,
    UnknownAppError,
    UnknownSchedulerError,
    WaitTimeoutError,
    WrongLoopError,
)
from asyncsched.runner import Runner, get_runner
from asyncsched.specs import AppDef, AppHandle, AppState, Role
from asyncsched.testing import FakeScheduler, FakeService, VirtualClock
from tests._support import eventually
from tests.runner.rig import Rig, app


async def test_run_gives_a_handle_that_any_runner_understands(rig: Rig) -> None:
    handle = await rig.run("push")

    assert ("push", "me") == (handle.scheduler, handle.session)
    assert handle.app_id in rig.push.apps
    async with Runner("other", rig.schedulers) as other:
        status = await other.status(str(handle))
    assert status is not None
    assert (AppState.RUNNING, handle) == (status.state, status.handle)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (AppDef("job"), "no roles"),
        (AppDef("job", [Role("main", "i")]), "role 'main' has no entrypoint"),
        (AppDef("job", [Role("main", "i", entrypoint="")]), "role 'main' has no entrypoint"),
        (
            AppDef("job", [Role("main", "i", entrypoint="x", num_replicas=0)]),
            "num_replicas of role 'main' must .* got 0",
        ),
        (AppDef(cast("str", 5), [Role("main", "i", entrypoint="x")]), "the name of the app must be a str, got 5"),
        (
            AppDef("job", [Role(cast("str", None), "i", entrypoint="x")]),
            "the name of a role of app 'job' must be a str, got None",
        ),
        (AppDef("job", [Role("", "i", entrypoint="x")]), "a role of app 'job' has no name"),
        (AppDef("job", [Role("main", "i", entrypoint="x", args=cast("list[str]", "-l"))]), "write args=\\['-l'\\]"),
        (
            AppDef("job", [Role("main", "i", entrypoint="x", args=cast("list[str]", [1]))]),
            "args\\[0\\] .* got 1; write '1'",
        ),
        (AppDef("job", [Role("main", "i", entrypoint="x", args=cast("list[str]", 3))]), "write args=\\['3'\\]"),
        (
            AppDef("job", [Role("main", "i", entrypoint=cast("str", ["x"]))]),
            "entrypoint .* must be a str, got \\['x'\\]",
        ),
        (AppDef("job", [Role("main", "i", entrypoint="x", num_replicas=cast("int", "2"))]), "num_replicas .* got '2'"),
        (
            AppDef("job", [Role("main", "i", entrypoint="x", env=cast("dict[str, str]", {"A": 1}))]),
            "env\\['A'\\] .* got a value of type int",
        ),
        (
            AppDef("job", [Role("main", "i", entrypoint="x", env=cast("dict[str, str]", {1: "A"}))]),
            "name in env .* must be a non-empty str without =, got 1",
        ),
        (
            AppDef("job", [Role("main", "i", entrypoint="x", env=cast("dict[str, str]", ["A=1"]))]),
            "env .* must be a dict .* got a list",
        ),
    ],
)
async def test_what_cannot_run_is_refused_before_anything_is_sent(rig: Rig, broken: AppDef, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        await rig.runner.run(broken, "push")

    assert not rig.push.calls


UNWRITABLE = "job\udcff"


@pytest.mark.parametrize(
    ("broken", "what"),
    [
        (AppDef(UNWRITABLE, [Role("main", "i", entrypoint="x")]), r"the name of the app must .* got 'job\\udcff'"),
        (
            AppDef("job", [Role(UNWRITABLE, "i", entrypoint="x")]),
            r"the name of a role of app 'job' must .* got 'job\\udcff'",
        ),
    ],
)
async def test_names_that_cannot_be_written_are_refused(rig: Rig, broken: AppDef, what: str) -> None:
    with pytest.raises(ConfigError, match=what) as caught:
        await rig.runner.run(broken, "push")

    assert "U+DCFF" in caught.value.why
    assert "UTF-8" in caught.value.fix
    assert not rig.push.calls


async def test_a_session_that_cannot_be_written_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"the name of the session must .* got 'job\\udcff'"):
        FakeScheduler(UNWRITABLE)
    with pytest.raises(ConfigError, match=r"the name of the session must .* got 'job\\udcff'"):
        Runner(UNWRITABLE, {"fake": lambda session_name, **_: FakeScheduler(session_name)})


async def test_replicas_are_told_their_apps_handle(rig: Rig) -> None:
    mine = app(env={"A": "1"})
    handle = await rig.runner.run(mine, "push")
    sent = rig.push.apps[handle.app_id].app.roles[0].env

    assert {"A": "1", "ASYNCSCHED_JOB_ID": handle, "TORCHX_JOB_ID": handle} == sent
    assert {"A": "1"} == mine.roles[0].env


async def test_a_key_makes_a_run_idempotent(rig: Rig) -> None:
    first = await rig.runner.run(app(), "push", key="order-42")
    again = await rig.runner.run(app(), "push", key="order-42")

    assert first == again
    assert [first.app_id] == [*rig.push.apps]
    with pytest.raises(ConflictError):
        await rig.runner.run(app(replicas=2), "push", key="order-42")
    with pytest.raises(ConflictError):
        await rig.runner.run(replace(app(), name="another"), "push", key="order-42")
    assert [first.app_id] == [*rig.push.apps]
    assert first != await rig.runner.run(app(), "push", key="order-43")


@pytest.mark.parametrize("key", ["", 42])
async def test_a_key_is_a_text_that_names_something(rig: Rig, key: str) -> None:
    with pytest.raises(ValueError, match="key must be a non-empty string"):
        await rig.runner.run(app(), "push", key=key)

    assert not rig.push.calls


async def test_a_key_is_a_text_that_services_accept(rig: Rig) -> None:
    with pytest.raises(ValueError, match=r"key must be text that UTF-8 can encode, got 'a\\ud800'"):
        await rig.runner.run(app(), "push", key="a\ud800")

    assert not rig.push.calls


async def test_a_dryrun_changes_nothing_and_is_scheduled_once_as_it_was_edited(rig: Rig) -> None:
    info = await rig.runner.dryrun(app(), "push", {"queue": "fast"})

    assert not rig.push.calls
    info.request.app.roles[0].num_replicas = 3
    first = await rig.runner.schedule(info)

    assert first == await rig.runner.schedule(info)
    status = await rig.runner.status(first)
    assert status is not None
    assert 3 == len(status.roles[0].replicas)


async def test_run_options_are_checked_and_told(rig: Rig) -> None:
    with pytest.raises(RunOptionError, match="quue"):
        await rig.runner.run(app(), "push", {"quue": "fast"})

    assert "queue" in repr(await rig.runner.scheduler_run_opts("push"))
    assert ("push", "polled") == tuple(await rig.runner.scheduler_backends())


async def test_describe_gives_the_app_back(rig: Rig) -> None:
    handle = await rig.run("push", replicas=2)
    found = await rig.runner.describe(handle)

    assert found is not None
    assert ("job", "main", 2) == (found.name, found.roles[0].name, found.roles[0].num_replicas)


async def test_what_is_unknown(rig: Rig) -> None:
    handle = "push://me/nosuchapp-x1"

    assert await rig.runner.status(handle) is None
    assert await rig.runner.describe(handle) is None
    assert await rig.runner.wait(handle) is None
    await rig.runner.cancel(handle)
    await rig.runner.delete(handle)
    with pytest.raises(UnknownAppError, match="nosuchapp-x1"):
        await anext(rig.runner.log_lines(handle))


async def test_wrong_names_are_told_at_the_call(rig: Rig) -> None:
    with pytest.raises(MalformedHandleError):
        await rig.runner.status("nonsense")
    with pytest.raises(UnknownSchedulerError, match="did you mean push"):
        await rig.runner.status("pus://me/x")
    with pytest.raises(UnknownSchedulerError):
        rig.runner.watch(["docker://me/x"])
    with pytest.raises(ValueError, match="k must be at least 0"):
        rig.runner.log_lines("push://me/x", k=-1)
    with pytest.raises(ValueError, match="since"):
        rig.runner.log_lines("push://me/x", since=timedelta(hours=1), until=timedelta(hours=2))


@pytest.mark.parametrize("scheduler", ["push", "polled"])
@pytest.mark.parametrize(("code", "state"), [(0, AppState.SUCCEEDED), (3, AppState.FAILED)])
async def test_wait_returns_the_end(rig: Rig, scheduler: str, code: int, state: AppState) -> None:
    handle = await rig.run(scheduler)
    waiting = asyncio.create_task(rig.runner.wait(handle))
    await eventually(lambda: rig.runner.statistics().watches)
    rig.exit(handle, code)
    status = await waiting

    assert status is not None
    assert (state, [code]) == (status.state, [replica.exit_code for replica in status.roles[0].replicas])
    assert 0 == rig.runner.statistics().watches


async def test_wait_gives_up_at_its_timeout_with_the_last_status(rig: Rig) -> None:
    handle = await rig.run("push")
    await rig.runner.status(handle)  # 0.2 s may be too short for an answer
    with pytest.raises(TimeoutError, match=r"did not end within 0\.2 s") as caught:
        await rig.runner.wait(handle, timeout=0.2)

    assert isinstance(caught.value, WaitTimeoutError)
    assert ("it is RUNNING", "it is still running: wait again, or longer") == (caught.value.why, caught.value.fix)
    assert "State: RUNNING" in "".join(caught.value.__notes__)
    status = await rig.runner.status(handle)
    assert status is not None
    assert AppState.RUNNING is status.state


async def test_a_wait_too_short_for_an_answer_returns_the_end_that_is_known(rig: Rig) -> None:
    handle = await rig.run("push")
    rig.exit(handle, 3)
    ended = await rig.runner.wait(handle)
    again = await rig.runner.wait(handle, timeout=0)

    assert ended is not None
    assert again is not None
    assert AppState.FAILED is ended.state is again.state
    assert {handle: AppState.FAILED} == {
        each: status and status.state for each, status in (await rig.runner.wait_all([handle], timeout=0)).items()
    }


async def test_a_wait_too_short_for_an_answer_tells_what_was_seen_before(rig: Rig) -> None:
    handle = await rig.run("push")
    for known in ("State: SUBMITTED", "State: RUNNING"):
        with pytest.raises(TimeoutError) as caught:
            await rig.runner.wait(handle, timeout=0)

        assert known in caught.value.__notes__[0]
        await rig.runner.status(handle)


async def test_an_app_that_goes_away_is_unknown_and_says_why(rig: Rig) -> None:
    handle = await rig.run("push")
    waiting = asyncio.create_task(rig.runner.wait(handle))
    await eventually(lambda: (feed := rig.runner.statistics().schedulers["push"].feed) and feed.changes)
    rig.vanish(handle)
    status = await waiting

    assert status is not None
    assert AppState.UNKNOWN is status.state
    assert "no longer knows it; its last state was RUNNING" in status.msg


async def test_wait_all_over_several_schedulers(rig: Rig) -> None:
    handles = [await rig.run(scheduler) for scheduler in ("push", "polled", "push", "polled")]
    waiting = asyncio.create_task(rig.runner.wait_all([*handles, "push://me/unknown"]))
    for code, handle in enumerate(handles):
        rig.exit(handle, code)
    statuses = await waiting

    assert [*handles, "push://me/unknown"] == [*statuses]
    assert [*statuses.values()][-1] is None
    assert ["SUCCEEDED", "FAILED", "FAILED", "FAILED"] == [str(s.state) for s in statuses.values() if s is not None]


async def test_wait_all_tells_which_were_late(rig: Rig) -> None:
    done, late = await rig.run("push"), await rig.run("polled")
    rig.exit(done)
    clock = rig.runner.clock = VirtualClock()
    waiting = asyncio.create_task(rig.runner.wait_all([done, late], timeout=1))
    await clock.advance(1)
    with pytest.raises(TimeoutError, match=late) as caught:
        await waiting

    assert 1 == len(caught.value.__notes__)


async def test_wait_all_of_nothing_and_of_one_app_twice(rig: Rig) -> None:
    handle = await rig.run("push")
    rig.exit(handle)
    other_session = f"push://other/{handle.app_id}"

    assert {} == await rig.runner.wait_all([])
    statuses = await rig.runner.wait_all([handle, other_session, handle])
    assert [handle, other_session] == [*statuses]
    assert all(status is not None for status in statuses.values())


async def test_as_completed_gives_each_app_once_in_the_order_of_ends(rig: Rig) -> None:
    handles = [await rig.run(scheduler) for scheduler in ("push", "polled", "push")]
    ends = rig.runner.as_completed(handles)
    got: list[AppHandle] = []
    for handle in reversed(handles):
        rig.exit(handle)
        ended, status = await anext(ends)
        got.append(ended)

        assert status is not None
        assert AppState.SUCCEEDED is status.state
    assert handles[::-1] == got
    with pytest.raises(StopAsyncIteration):
        await anext(ends)


async def test_list_asks_all_at_once_and_tells_failures_beside(rig: Rig) -> None:
    handles = [await rig.run(scheduler) for scheduler in ("push", "polled", "push")]
    rig.exit(handles[0])

    rows = await rig.runner.list()
    assert handles[::-1] == [row.app_handle for row in rows]
    assert {} == rows.failures
    assert handles[:1] == [row.app_handle for row in await rig.runner.list(states=[AppState.SUCCEEDED])]
    assert handles[:0:-1] == [row.app_handle for row in await rig.runner.list(limit=2)]

    error = AuthError("who are you")
    rig.polled.fail("list", error)
    rows = await rig.runner.list()
    assert [handles[2], handles[0]] == [row.app_handle for row in rows]
    assert {"polled": error} == rows.failures
    assert "who are you" in repr(rows)

    rig.polled.fail("list", error)
    with pytest.raises(AuthError):
        await rig.runner.list("polled")
    assert [handles[1]] == [row.app_handle for row in await rig.runner.list("polled")]


async def test_cancel_and_delete(rig: Rig) -> None:
    handle = await rig.run("push")
    with pytest.raises(ConflictError):
        await rig.runner.delete(handle)
    await rig.runner.cancel(handle)
    await rig.runner.cancel(handle)
    status = await rig.runner.wait(handle)

    assert status is not None
    assert AppState.CANCELLED is status.state
    await rig.runner.delete(handle)
    assert await rig.runner.status(handle) is None


async def test_logs_of_apps_of_several_schedulers_come_as_one(rig: Rig) -> None:
    handles = [await rig.run(scheduler, replicas=2) for scheduler in ("push", "polled")]
    stream = rig.runner.log_lines(iter(handles), "main", iter([0, 1]), regex="line", should_tail=True)
    for handle in handles:
        rig.say(handle, "a line\nand this")
        rig.exit(handle)
    got = sorted([(line.app_id, line.replica, line.text) async for line in stream])

    assert sorted((handle.app_id, k, "a line") for handle in handles for k in (0, 1)) == got
    assert 0 == rig.runner.statistics().log_streams


async def test_nothing_to_follow_is_over_at_once(rig: Rig) -> None:
    assert [] == [line async for line in rig.runner.log_lines([], should_tail=True)]
    assert [] == [event async for event in rig.runner.watch()]
    assert [] == [ended async for ended in rig.runner.as_completed([])]


async def test_one_app_may_be_given_as_it_is(rig: Rig) -> None:
    handle = await rig.run("push")
    rig.exit(handle)

    assert [handle] == [*await rig.runner.wait_all(handle)]
    assert [handle] == [event.handle async for event in rig.runner.watch(handle)]
    assert [handle] == [ended async for ended, _ in rig.runner.as_completed(handle)]


async def test_a_timeout_does_not_count_unknown_apps_as_late(rig: Rig) -> None:
    late = await rig.run("push")
    clock = rig.runner.clock = VirtualClock()
    waiting = asyncio.create_task(rig.runner.wait_all([late, "push://me/nosuchapp"], timeout=1))
    await clock.advance(1)
    with pytest.raises(TimeoutError, match=late) as caught:
        await waiting

    assert 1 == len(caught.value.__notes__)


async def test_one_unknown_app_among_many_is_told_at_once(rig: Rig) -> None:
    handle = await rig.run("push")
    stream = rig.runner.log_lines([handle, "polled://me/unknown"], should_tail=True)
    with pytest.raises(UnknownAppError, match="no app unknown"):
        await anext(stream)


async def test_statistics_count_what_is_open_and_what_was_called(rig: Rig) -> None:
    handle = await rig.run("push")
    rig.say(handle, "a line")
    logs, events = rig.runner.log_lines(handle, should_tail=True), rig.runner.watch([handle])
    await anext(logs)
    await anext(events)
    for _ in range(3):
        await rig.runner.status(handle)
    statistics = rig.runner.statistics()

    assert (1, 1) == (statistics.log_streams, statistics.watches)
    assert {"run": 1, "status": 3} == statistics.schedulers["push"].calls
    assert {"run": 1, "status": 3, "log_lines": 1, "watch": 1} == statistics.calls
    feed = statistics.schedulers["push"].feed
    assert feed is not None
    assert 1 == feed.apps
    await logs.aclose()
    await events.aclose()
    statistics = rig.runner.statistics()
    assert (0, 0) == (statistics.log_streams, statistics.watches)


async def test_each_call_is_told_in_one_record(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "asyncsched.events")
    handle = await rig.run("push", env={"API_TOKEN": "hunter2"})
    await rig.runner.status(handle)
    rig.push.fail("describe", AuthError("no"))
    with pytest.raises(AuthError):
        await rig.runner.status(handle)
    rig.push.slow("describe", 60)
    call = asyncio.create_task(rig.runner.status(handle))
    await eventually(lambda: 3 == rig.push.calls["describe"])
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    told = [record for record in caplog.records if record.name == "asyncsched.events"]

    assert [("run", "ok"), ("status", "ok"), ("status", "AuthError"), ("status", "cancelled")] == [
        (record.__dict__["operation"], record.__dict__["outcome"]) for record in told
    ]
    assert {("push", "me", handle.app_id)} == {
        (record.__dict__["scheduler"], record.__dict__["session"], record.__dict__["app_id"]) for record in told
    }
    assert all(record.__dict__["duration"] >= 0 for record in told)
    assert "hunter2" not in caplog.text


async def test_close_ends_what_is_open_and_nothing_more(rig: Rig) -> None:
    handle = await rig.run("push")
    logs, events = rig.runner.log_lines(handle, should_tail=True), rig.runner.watch([handle], follow=True)
    reading, waiting = asyncio.create_task(anext(logs)), asyncio.create_task(rig.runner.wait(handle))
    await anext(events)
    await eventually(lambda: 2 == rig.runner.statistics().watches)
    await rig.runner.close()
    await rig.runner.close()

    for ended in (reading, waiting, asyncio.ensure_future(anext(events))):
        with pytest.raises(ClosedError):
            await ended
    with pytest.raises(ClosedError):
        await rig.runner.status(handle)
    with pytest.raises(ClosedError):
        rig.runner.watch()
    # What the caller has given is the caller's to close.
    assert await rig.schedulers["push"].exists(handle.app_id)


async def test_close_closes_what_the_runner_has_made() -> None:
    made: list[FakeScheduler] = []

    def factory(session_name: str, **kwargs: object) -> FakeScheduler:
        made.append(FakeScheduler(session_name, **kwargs))  # type: ignore[arg-type]  # a service
        return made[-1]

    service = FakeService(Rig().push.clock)
    async with Runner("me", {"fake": factory}, fake={"service": service}) as runner:
        assert not made
        handle = await runner.run(app(), "fake")
        assert [service] == [scheduler.service for scheduler in made]
    with pytest.raises(ClosedError):
        await made[0].describe(handle.app_id)
    service.close()


async def test_calls_at_the_same_time_make_one_scheduler() -> None:
    made: list[FakeScheduler] = []

    def factory(session_name: str, **kwargs: object) -> FakeScheduler:
        made.append(FakeScheduler(session_name))
        return made[-1]

    async with Runner("me", {"fake": factory}) as runner:
        used = {id(each) for each in await asyncio.gather(*(runner.scheduler("fake") for _ in range(5)))}

    assert 1 == len(used)


def test_a_runner_belongs_to_its_first_loop() -> None:
    rig = Rig()
    with asyncio.Runner() as first:
        first.run(rig.runner.status("push://me/x"))
        with pytest.raises(WrongLoopError, match=r"asyncsched\.sync"):
            asyncio.run(rig.runner.status("push://me/x"))
        first.run(rig.runner.close())


def test_get_runner_has_what_is_installed() -> None:
    from asyncsched.schedulers import get_scheduler_factories

    async def names() -> list[str]:
        async with get_runner("me") as runner:
            return [*await runner.scheduler_backends()]

    assert [*get_scheduler_factories()] == asyncio.run(names())


async def test_a_scheduler_may_have_a_name_of_the_callers() -> None:
    service = FakeService(Rig().push.clock)
    async with Runner("me", {"east": FakeScheduler("me", service), "west": FakeScheduler("me")}) as runner:
        info = await runner.dryrun(app(), "east")
        handle = await runner.schedule(info)

        assert "east" == handle.scheduler
        assert [handle] == [row.app_handle for row in await runner.list()]
    service.close()


async def test_a_role_of_ones_own_class_keeps_its_hook(rig: Rig) -> None:
    class Mine(Role):
        def pre_proc(self, scheduler, dryrun_info):  # as the base class
            dryrun_info.request = replace(dryrun_info.request, queue="mine")
            return dryrun_info

    info = await rig.runner.dryrun(AppDef("job", [Mine("main", "i", entrypoint="x")]), "push")

    assert "mine" == info.request.queue


async def test_components_are_found_and_given_their_arguments(rig: Rig) -> None:
    info = await rig.runner.dryrun_component("utils.echo", ["--msg", "hello"], "push")
    handle = await rig.runner.run_component("utils.echo", {"msg": "hello"}, "push")

    assert "hello" in repr(info)
    assert "hello" in repr(rig.push.apps[handle.app_id].app)
    with pytest.raises(ComponentError, match=r"utils\.ech"):
        await rig.runner.run_component("utils.ech", [], "push")


async def test_components_take_their_defaults_from_the_runner() -> None:
    async with Runner("me", {"fake": FakeScheduler("me")}, {"utils.echo": {"msg": "by default"}}) as runner:
        assert "by default" in repr(await runner.dryrun_component("utils.echo", [], "fake"))
        assert "by default" not in repr(await runner.dryrun_component("utils.echo", ["--msg", "x"], "fake"))


async def test_a_second_run_with_a_key_does_not_forget_what_was_seen(rig: Rig) -> None:
    handle = await rig.runner.run(app(), "push", key="order-42")
    rig.push.start(handle.app_id)
    rig.exit(handle)
    await rig.runner.wait(handle)
    await rig.runner.run(app(), "push", key="order-42")

    assert "SUCCEEDED" in handle._repr_html_()
