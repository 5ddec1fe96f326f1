"""Many apps in few calls: asked about, ended, waited for, and followed in one stream."""

from __future__ import annotations

import asyncio

import pytest

from asyncsched.errors import (
    AppStatusError,
    ClosedError,
    UnavailableError,
    UnknownAppError,
    UnknownSchedulerError,
    UsageError,
    WaitTimeoutError,
)
from asyncsched.logs.line import LogLine
from asyncsched.runner import AppEvent, Runner
from asyncsched.runner.activity import ROOM
from asyncsched.runner.waiting import MANY, WaitResult, apps_of
from asyncsched.specs import AppHandle, AppState
from asyncsched.specs.result import RESULT_FILE, UnreadableResult
from asyncsched.testing import FakeScheduler
from tests._support import eventually
from tests.runner.rig import Rig, app

UNKNOWN = "push://me/nosuchapp"


# Waiting


@pytest.mark.parametrize(("code", "state"), [(0, AppState.SUCCEEDED), (3, AppState.FAILED)])
async def test_a_wait_raises_for_a_failed_app_where_that_is_asked_for(rig: Rig, code: int, state: AppState) -> None:
    handle = await rig.run()
    rig.exit(handle, code)
    status = await rig.runner.wait(handle)

    assert status is not None
    assert state is status.state
    if state is AppState.SUCCEEDED:
        assert status == await rig.runner.wait(handle, check=True)
    else:
        with pytest.raises(AppStatusError) as raised:
            await rig.runner.wait(handle, timeout=60, check=True)
        assert status == raised.value.status


async def test_a_checked_wait_raises_for_what_nobody_knows(rig: Rig) -> None:
    assert await rig.runner.wait(UNKNOWN) is None
    with pytest.raises(UnknownAppError, match="nosuchapp"):
        await rig.runner.wait(UNKNOWN, check=True)


async def test_thousands_of_apps_are_taken_up_in_another_step_than_the_one_that_parsed_the_last() -> None:
    others: list[str] = []
    asyncio.get_running_loop().call_soon(others.append, "had a turn")
    apps = await apps_of([f"push://me/app-{number}" for number in range(MANY + 1)])

    assert others
    assert apps[AppHandle(f"push://me/app-{MANY}")] == ("push", f"app-{MANY}")


async def test_what_a_wait_has_collected_is_given_back_while_its_result_is_made(rig: Rig) -> None:
    handle = await rig.run()
    apps = await apps_of([handle])
    with pytest.raises(WaitTimeoutError):
        await WaitResult(rig.runner._seen).statuses(apps, 1.0)

    assert {} == apps


async def test_a_time_by_its_place_is_refused_by_name(rig: Rig) -> None:
    with pytest.raises(UsageError, match="timeout=5"):
        await rig.runner.wait(UNKNOWN, 5)  # type: ignore[arg-type]  # that is the point


async def test_what_wait_all_returns_prints_as_a_table(rig: Rig) -> None:
    done, failed = [await rig.run(name=name) for name in ("done", "failed")]
    rig.exit(done)
    rig.exit(failed, 2)
    statuses = await rig.runner.wait_all([done, failed, UNKNOWN])
    head, *rows = str(statuses).splitlines()

    assert ["APP", "STATE"] == head.split()[:2]
    assert [[done, "SUCCEEDED"], [failed, "FAILED"], [UNKNOWN, "not"]] == [row.split()[:2] for row in rows]
    assert {done: AppState.SUCCEEDED, failed: AppState.FAILED, UNKNOWN: None} == {
        handle: status and status.state for handle, status in statuses.items()
    }
    assert "<AppStatuses of 3 apps: 1 SUCCEEDED, 1 FAILED, 1 not known>" == repr(statuses)
    assert done in statuses._repr_html_()
    assert str(await rig.runner.list()).startswith("APP")


async def test_a_table_obeys_nothing_that_an_app_has_written(rig: Rig) -> None:
    handle = await rig.run()
    rig.exit(handle)
    statuses = await rig.runner.wait_all([handle])
    status = statuses[handle]
    assert status is not None
    status.msg = "red \x1b[31m\nand a second line"

    assert "red \\x1b[31m and a second line" in str(statuses)


# Asking and ending


async def test_the_statuses_of_a_thousand_apps_take_few_calls(rig: Rig) -> None:
    handles = [await rig.run("push" if number % 2 else "polled", started=False) for number in range(1000)]
    rig.push.calls.clear()
    rig.polled.calls.clear()
    statuses = await rig.runner.status_all([*handles, UNKNOWN])

    assert [*handles, UNKNOWN] == [*statuses]
    assert statuses[AppHandle(UNKNOWN)] is None
    assert {AppState.PENDING} == {status.state for status in statuses.values() if status}
    assert sum(rig.push.calls.values()) + sum(rig.polled.calls.values()) <= 12
    assert {} == statuses.failures
    assert rig.runner.statistics().calls["status_all"] == 1


async def test_a_scheduler_that_fails_stands_beside_the_statuses_of_the_others() -> None:
    def broken(session_name: str, **more: object) -> FakeScheduler:
        raise UnavailableError("the service is away")

    good = FakeScheduler("me")
    async with good, Runner("me", {"good": good, "broken": broken}) as runner:
        handle = await runner.run(app(), "good")
        statuses = await runner.status_all([handle, "broken://me/job"])

        assert [handle] == [*statuses]
        assert ["broken"] == [*statuses.failures]
        assert "broken could not be asked: the service is away" in str(statuses)
        with pytest.raises(UnavailableError, match="away"):
            await runner.status_all("broken://me/job")
        answers = await runner.cancel_all([handle, "broken://me/job"])
        assert [None, "the service is away"] == [error and str(error) for error in answers.values()]
        assert AppState.CANCELLED is (await runner.wait(handle, check=False) or pytest.fail("unknown")).state
    good.service.close()


async def test_many_apps_are_cancelled_by_one_call(rig: Rig) -> None:
    handles = [await rig.run(scheduler) for scheduler in ("push", "polled", "push")]

    assert dict.fromkeys([*handles, UNKNOWN]) == await rig.runner.cancel_all([*handles, UNKNOWN])
    assert {AppState.CANCELLED} == {
        status.state for status in (await rig.runner.wait_all(handles)).values() if status is not None
    }
    assert {} == await rig.runner.cancel_all([])


async def test_nothing_is_cancelled_where_a_scheduler_is_not_known(rig: Rig) -> None:
    handle = await rig.run()
    for call in (rig.runner.cancel_all, rig.runner.status_all):
        with pytest.raises(UnknownSchedulerError, match="nosuch"):
            await call([handle, "nosuch://me/job"])
    status = await rig.runner.status(handle)

    assert status is not None
    assert AppState.RUNNING is status.state


# Results


async def test_the_results_of_an_app_are_read_by_its_handle() -> None:
    scheduler = FakeScheduler("me")
    async with scheduler, Runner("me", {"fake": scheduler}) as runner:
        good = app(args=["-c", f"echo '{{\"loss\": 0.5}}' > ${RESULT_FILE}"], replicas=2)
        bad = app(args=["-c", f"echo 'no json' > ${RESULT_FILE}"])
        for each in (good, bad):
            each.roles[0].entrypoint = "sh"
        handles = [await runner.run(each) for each in (good, bad)]
        await runner.wait_all(handles)

        assert {("main", 0): {"loss": 0.5}, ("main", 1): {"loss": 0.5}} == await runner.results(handles[0])
        assert isinstance((await runner.results(handles[1]) or {})["main", 0], UnreadableResult)
        assert await runner.results("fake://me/nosuchapp") is None
    scheduler.service.close()


# Events


async def test_states_and_lines_come_in_one_stream(rig: Rig) -> None:
    first, second = await rig.run(), await rig.run("polled")
    told: dict[str, list[object]] = {first.app_id: [], second.app_id: []}
    async with rig.runner.events([first, second]) as events:
        for handle, code in ((first, 0), (second, 1)):
            rig.say(handle, "hello")
            rig.exit(handle, code)
        async for event in events:
            if isinstance(event, AppEvent):
                told[event.handle.app_id].append(event.state)
            else:
                told[event.source.app_id].append(str(event))

    assert {"hello\n", AppState.SUCCEEDED} <= set(told[first.app_id])
    assert {"hello\n", AppState.FAILED} <= set(told[second.app_id])
    assert 1 == sum(each == "hello\n" for each in told[first.app_id])


async def test_the_keywords_select_lines_and_no_states(rig: Rig) -> None:
    handle = await rig.run()
    rig.say(handle, "good")
    rig.say(handle, "bad")
    rig.exit(handle)
    events = [event async for event in rig.runner.events(handle, regex="good")]

    assert ["good\n"] == [str(event) for event in events if isinstance(event, LogLine)]
    assert AppState.SUCCEEDED in [event.state for event in events if isinstance(event, AppEvent)]


async def test_a_step_that_is_cancelled_loses_nothing(rig: Rig) -> None:
    handle = await rig.run()
    got: list[object] = []
    async with rig.runner.events(handle) as events:
        got.append(await anext(events))
        for number in range(3):
            step = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0)
            step.cancel()
            got += await asyncio.gather(step, return_exceptions=True)
            rig.say(handle, str(number))
        rig.exit(handle)
        got += [event async for event in events]

    assert ["0\n", "1\n", "2\n"] == [str(event) for event in got if isinstance(event, LogLine)]


async def test_a_slow_consumer_holds_up_the_reading(rig: Rig) -> None:
    handle = await rig.run()
    for number in range(5 * ROOM):
        rig.say(handle, str(number))
    rig.exit(handle)
    async with rig.runner.events(handle) as events:
        first = await anext(events)
        await eventually(lambda: len(events._core._queue) >= ROOM)
        assert len(events._core._queue) <= 2 * ROOM
        rest = [event async for event in events]

    assert [str(n) + "\n" for n in range(5 * ROOM)] == [str(e) for e in [first, *rest] if isinstance(e, LogLine)]


async def test_an_unknown_app_is_gone_and_an_error(rig: Rig) -> None:
    told: list[object] = []
    events = rig.runner.events(UNKNOWN)
    while True:
        try:
            told.append(await anext(events))
        except StopAsyncIteration:
            break
        except UnknownAppError as error:
            told.append(type(error))

    assert UnknownAppError in told
    assert [True] == [event.gone for event in told if isinstance(event, AppEvent)]


async def test_a_runner_that_closes_ends_it_with_an_error(rig: Rig) -> None:
    handle = await rig.run()
    events = rig.runner.events(handle)
    await anext(events)
    await rig.runner.close()

    with pytest.raises(ClosedError):
        async for _ in events:
            pass
    await events.aclose()


async def test_leaving_it_ends_its_tasks(rig: Rig) -> None:
    handle = await rig.run()
    before = asyncio.all_tasks()
    events = rig.runner.events(handle)
    await anext(events)
    assert asyncio.all_tasks() - before
    await events.aclose()
    await events.aclose()

    with pytest.raises(StopAsyncIteration):
        await anext(events)
    assert "this stream of activity" not in {task.get_name() for task in asyncio.all_tasks()}
    assert 0 == rig.runner.statistics().watches
    assert 0 == rig.runner.statistics().log_streams


async def test_two_steps_at_once_are_refused(rig: Rig) -> None:
    handle = await rig.run()
    async with rig.runner.events(handle) as events:
        await anext(events)
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="another step"):
            await anext(events)
        rig.exit(handle)
        assert await waiting


async def test_wrong_arguments_leave_nothing_open(rig: Rig) -> None:
    with pytest.raises(ValueError, match="regex"):
        rig.runner.events("push://me/job", regex="(")
    with pytest.raises(TypeError, match="follow"):
        rig.runner.events("push://me/job", follow=True)  # type: ignore[call-arg]  # that is the point

    assert 0 == rig.runner.statistics().watches
    assert 0 == rig.runner.statistics().log_streams
