"""The feed: one source of state changes for everyone who waits."""

from __future__ import annotations

import asyncio
import contextvars
import traceback
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from itertools import pairwise

import pytest

from asyncsched.errors import AuthError, ClosedError, SchedulerError, ThrottledError, UnavailableError
from asyncsched.schedulers import Answers, DescribeAppResponse, StateEvent, StateStream
from asyncsched.schedulers.feed import StateFeed
from asyncsched.specs import AppDef, AppState, ReplicaStatus, Role, RoleStatus
from asyncsched.testing import FakeScheduler, FakeService, VirtualClock
from asyncsched.testing.fake import Mode
from tests._support import eventually

SLOW = pytest.mark.slow


@pytest.fixture
async def service(clock: VirtualClock) -> AsyncGenerator[FakeService]:
    service = FakeService(clock)
    yield service
    service.close()


@pytest.fixture(params=["push", "polled"])
async def scheduler(service: FakeService, request: pytest.FixtureRequest) -> AsyncGenerator[FakeScheduler]:
    scheduler = FakeScheduler("mine", service, mode=request.param)
    yield scheduler
    await scheduler.close()


@pytest.fixture
async def polled(service: FakeService) -> AsyncGenerator[FakeScheduler]:
    scheduler = FakeScheduler("mine", service, mode="polled")
    yield scheduler
    await scheduler.close()


@pytest.fixture
async def pushed(service: FakeService) -> AsyncGenerator[FakeScheduler]:
    scheduler = FakeScheduler("mine", service, mode="push")
    yield scheduler
    await scheduler.close()


def waiting_app() -> AppDef:
    return AppDef("job", [Role("main", "i", entrypoint="sh", args=["-c", "sleep infinity"])])


async def launch(service: FakeService, count: int) -> list[str]:
    app = waiting_app()
    app_ids = [f"app-{number}" for number in range(count)]
    for number, app_id in enumerate(app_ids):
        service.launch(app_id, app, "mine", "")
        service.start(app_id)
        if number % 10 == 0:
            await asyncio.sleep(0)
    return app_ids


async def end_of(scheduler: FakeScheduler, app_id: str) -> AppState:
    async for event in scheduler.watch([app_id]):
        if event.is_terminal():
            return event.state
    raise AssertionError("the watch ended without an end")


async def drain(watch: StateStream) -> list[StateEvent]:
    return [event async for event in watch]


async def test_a_thousand_waiters_on_a_thousand_apps_make_the_calls_of_one(
    polled: FakeScheduler, service: FakeService, clock: VirtualClock
) -> None:
    async def calls_in_ten_seconds() -> int:
        before = service.calls["describe"]
        await clock.sleep(10)
        return service.calls["describe"] - before

    app_ids = await launch(service, 1000)
    async with asyncio.TaskGroup() as watching:
        one = watching.create_task(drain(polled.watch(app_ids)))
        await eventually(lambda: (s := polled.watch_statistics()) is not None and s.changes == 1000)
        alone = await calls_in_ten_seconds()
        waiters = [watching.create_task(end_of(polled, app_id)) for app_id in app_ids]
        await eventually(lambda: (s := polled.watch_statistics()) is not None and s.watchers == 1001)
        together = await calls_in_ten_seconds()
        for app_id in app_ids:
            service.exit(app_id)

    assert together == pytest.approx(100, abs=11) == alone
    assert {AppState.SUCCEEDED} == {waiter.result() for waiter in waiters}
    assert 1000 == sum(event.is_terminal() for event in one.result())


@pytest.mark.parametrize(
    ("count", "interval"), [(1, 0.5), (500, 0.5), (2000, 2.0), pytest.param(10_000, 10.0, marks=SLOW)]
)
async def test_the_poll_is_never_slower_than_its_budget_asks(
    polled: FakeScheduler, service: FakeService, count: int, interval: float
) -> None:
    app_ids = await launch(service, count)
    async with polled.watch(app_ids) as watch:
        for _ in app_ids:
            await anext(watch)
        await eventually(lambda: (s := polled.watch_statistics()) is not None and s.interval == pytest.approx(interval))


@SLOW
async def test_ten_thousand_apps_are_watched_within_the_rules(polled: FakeScheduler, service: FakeService) -> None:
    polled.calls_per_second = 50.0
    app_ids = await launch(service, 10_000)
    watch = polled.watch(app_ids)
    # Ten thousand events that a test keeps are freed in one step at its end.
    assert {AppState.RUNNING} == {(await anext(watch)).state for _ in range(10_000)}

    service.exit("app-7777", 1)
    changed = await anext(watch)
    assert ("app-7777", AppState.FAILED) == (changed.app_id, changed.state)
    await watch.aclose()


async def test_a_change_is_told_once_to_each_watcher(scheduler: FakeScheduler, service: FakeService) -> None:
    (app_id,) = await launch(service, 1)
    first, second = scheduler.watch([app_id]), scheduler.watch([app_id])
    assert AppState.RUNNING == (await anext(first)).state == (await anext(second)).state
    service.set_reason(app_id, "slow disk")
    for watch in (first, second):
        event = await anext(watch)
        assert event.current is not None
        assert "slow disk" in event.current.msg
    service.exit(app_id)
    assert [AppState.SUCCEEDED] == [event.state for event in await drain(first)]
    assert [AppState.SUCCEEDED] == [event.state for event in await drain(second)]


async def test_a_later_watcher_gets_the_present_without_a_call(pushed: FakeScheduler, service: FakeService) -> None:
    app_id, other = await launch(service, 2)
    async with pushed.watch([app_id]) as first, pushed.watch([other]) as third:
        await anext(first)
        await eventually(lambda: (s := pushed.watch_statistics()) is not None and s.connected)
        await anext(third)  # read after, or with, what is read again for the connection
        before = service.calls.copy()
        async with pushed.watch([app_id]) as second:
            assert AppState.RUNNING == (await anext(second)).state
        assert before == service.calls


async def test_one_connection_serves_all_and_its_loss_loses_nothing(
    pushed: FakeScheduler, service: FakeService
) -> None:
    app_ids = await launch(service, 100)
    async with pushed.watch(app_ids) as watch:
        for _ in app_ids:
            await anext(watch)
        await eventually(lambda: service.connections == 1)
        service.cut()
        service.exit("app-42", 2)  # while nothing is connected
        event = await anext(watch)

        assert ("app-42", AppState.FAILED) == (event.app_id, event.state)
        await eventually(lambda: service.calls["connect"] == 2)
    assert 0 == service.connections


async def test_a_connection_that_broke_does_not_make_questions_wait() -> None:
    clock = VirtualClock()
    service = FakeService(clock)
    scheduler = FakeScheduler("mine", service, mode="push")
    (app_id,) = await launch(service, 1)
    async with scheduler.watch(follow=True) as watch:
        waiting = asyncio.create_task(anext(watch))
        for _ in range(8):
            await clock.advance(120)
            service.cut()
        await clock.advance(120)
        service.fail("describe", UnavailableError("no answer"))
        watch.add(app_id)
        await clock.advance(1)

        assert waiting.done()
        assert AppState.RUNNING == waiting.result().state
    service.close()
    await scheduler.close()


@pytest.mark.parametrize("mode", ["push", "polled"])
async def test_what_may_pass_is_tried_again_and_said_in_the_statistics(mode: Mode) -> None:
    clock = VirtualClock()
    service = FakeService(clock)
    scheduler = FakeScheduler("mine", service, mode=mode)
    (app_id,) = await launch(service, 1)
    service.fail("describe", *[UnavailableError("no answer") for _ in range(5)])
    async with scheduler.watch([app_id]) as watch:
        waiting = asyncio.create_task(anext(watch))
        await clock.advance(1.5)
        statistics = scheduler.watch_statistics()
        assert statistics is not None
        assert statistics.failures in (2, 3, 4)
        assert "no answer" == statistics.last_error
        assert not waiting.done()

        await clock.advance(60)
        statistics = scheduler.watch_statistics()
        assert statistics is not None
        assert 0 == statistics.failures
        assert AppState.RUNNING == (await waiting).state
    service.close()
    await scheduler.close()


@pytest.mark.parametrize("count", [3, 200])
async def test_what_will_not_pass_reaches_every_waiter(
    scheduler: FakeScheduler, service: FakeService, count: int
) -> None:
    app_ids = await launch(service, count)
    waiters = [asyncio.create_task(end_of(scheduler, app_id)) for app_id in app_ids]
    await eventually(lambda: (s := scheduler.watch_statistics()) is not None and s.changes == count)
    service.fail("describe", AuthError("the token has expired"))
    service.set_reason(app_ids[0], "slow disk")
    errors = await asyncio.gather(*waiters, return_exceptions=True)

    assert ["the token has expired"] * count == [str(error) for error in errors]
    # An error that all of them raised would hold the frames of all.
    assert 10 > max(len(traceback.extract_tb(error.__traceback__)) for error in errors if isinstance(error, AuthError))
    assert AppState.RUNNING == (await anext(scheduler.watch([app_ids[0]]))).state


async def test_a_backends_mistake_does_not_let_its_watchers_wait_for_ever(
    polled: FakeScheduler, service: FakeService, caplog: pytest.LogCaptureFixture
) -> None:
    (app_id,) = await launch(service, 1)
    service.on_call("describe", lambda: dict[str, None]()["no such key"])

    with pytest.raises(SchedulerError, match="broke off"):
        await anext(polled.watch([app_id]))


@pytest.mark.parametrize("call", ["describe", "connect"])
async def test_nor_does_one_of_a_backend_that_pushes(call: str, service: FakeService) -> None:
    (app_id,) = await launch(service, 1)
    service.on_call(call, lambda: dict[str, None]()["no such key"])

    async with FakeScheduler("mine", service, mode="push") as scheduler:
        with pytest.raises(SchedulerError, match="broke off"):
            async for _ in scheduler.watch([app_id]):
                pass


async def test_throttling_stretches_the_interval_and_success_shrinks_it() -> None:
    clock = VirtualClock()
    service = FakeService(clock)
    scheduler = FakeScheduler("mine", service, mode="polled")
    (app_id,) = await launch(service, 1)

    def interval() -> float:
        statistics = scheduler.watch_statistics()
        assert statistics is not None
        return statistics.interval

    async with scheduler.watch([app_id]) as watch:
        waiting = asyncio.create_task(anext(watch))
        await clock.advance(1)
        assert 0.5 == interval()
        service.fail("describe", *[ThrottledError("slow down") for _ in range(3)])
        await clock.advance(5)
        assert interval() >= 2
        await clock.advance(300)
        assert 0.5 == interval()
        assert AppState.RUNNING == (await waiting).state
    service.close()
    await scheduler.close()


@pytest.mark.parametrize("mode", ["push", "polled"])
async def test_a_pause_that_the_service_asks_for_is_kept(mode: Mode) -> None:
    clock = VirtualClock()
    service = FakeService(clock)
    scheduler = FakeScheduler("mine", service, mode=mode)
    first, second = await launch(service, 2)
    service.fail("describe", ThrottledError("slow down", retry_after=45))
    async with scheduler.watch([first], follow=True) as watch:
        waiting = asyncio.create_task(anext(watch))
        await clock.advance(20)
        watch.add(second)  # nor does a new one bring the next call forward
        await clock.advance(20)
        assert 1 == service.calls["describe"]

        await clock.advance(10)
        assert AppState.RUNNING == (await waiting).state
    service.close()
    await scheduler.close()


async def test_the_feed_carries_nobodys_context(pushed: FakeScheduler, service: FakeService) -> None:
    request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="none")
    seen: list[str] = []
    (app_id,) = await launch(service, 1)
    service.on_call("connect", lambda: seen.append(request_id.get()))
    request_id.set("first caller")
    async with pushed.watch([app_id]) as watch:
        await anext(watch)
        await eventually(lambda: seen)

    assert ["none"] == seen


async def test_an_app_that_vanishes_is_gone_with_its_last_state(scheduler: FakeScheduler, service: FakeService) -> None:
    (app_id,) = await launch(service, 1)
    async with scheduler.watch([app_id]) as watch:
        await anext(watch)
        service.vanish(app_id)
        event = await anext(watch)

    assert event.gone
    assert event.current is not None
    assert (AppState.RUNNING, AppState.UNKNOWN) == (event.current.state, event.state)


async def test_states_merge_for_a_slow_consumer_but_never_an_end(pushed: FakeScheduler, service: FakeService) -> None:
    (app_id,) = await launch(service, 1)
    watch = pushed.watch([app_id])
    await anext(watch)
    for number in range(50):
        service.set_reason(app_id, f"reason {number}")
        await asyncio.sleep(0)
    service.exit(app_id, 9)
    await eventually(lambda: watch.statistics().watched == 0)

    rest = await drain(watch)
    assert [AppState.FAILED] == [event.state for event in rest]
    assert rest[0].previous is not None
    assert "" == rest[0].previous.msg


async def test_the_feed_ends_with_its_last_watcher_and_begins_again(
    scheduler: FakeScheduler, service: FakeService
) -> None:
    (app_id,) = await launch(service, 1)
    for _ in range(3):
        async with scheduler.watch([app_id]) as watch:
            await anext(watch)
        assert [] == [task for task in asyncio.all_tasks() if task.get_name() == "states of fake"]


async def test_closing_ends_a_watch_that_waits_for_apps_to_come(scheduler: FakeScheduler) -> None:
    waiting = asyncio.create_task(anext(scheduler.watch(follow=True)))
    not_begun = scheduler.watch(["job-x1"])
    await eventually(lambda: (feed := scheduler.watch_statistics()) and feed.watchers)
    await scheduler.close()

    with pytest.raises(ClosedError):
        await waiting
    with pytest.raises(ClosedError):
        await anext(not_begun)


class Looked(list[RoleStatus]):
    """Roles that count how often they are gone through, as a fingerprint and a copy go through them."""

    times = 0

    def __iter__(self) -> Iterator[RoleStatus]:
        Looked.times += 1
        return super().__iter__()


async def test_each_answer_has_one_fingerprint_made_however_many_watch() -> None:
    answers = 0

    async def sweep(app_ids: Sequence[str]) -> AsyncIterator[Answers]:
        nonlocal answers
        answers += 1
        state = AppState.RUNNING if answers < 6 else AppState.SUCCEEDED
        replicas = [ReplicaStatus(0, state, "main", "host", num_restarts=answers)]
        yield {"app": DescribeAppResponse("app", state, roles_statuses=Looked([RoleStatus("main", replicas)]))}

    Looked.times = 0
    async with VirtualClock() as clock:
        feed = StateFeed("test", sweep, clock=clock)
        seen = await asyncio.gather(*(count_events(feed) for _ in range(3)))
        await feed.close()

    assert [6, 6, 6] == seen
    assert 6 == answers
    copies = sum(seen)  # each who watches has its own
    assert answers + copies == Looked.times


async def count_events(feed: StateFeed) -> int:
    return len([event async for event in feed.stream(["app"], follow=False)])


@pytest.mark.parametrize(("taken", "expected"), [(0.06, 0.102), (0.3, 0.3)], ids=["a quick call", "a slow call"])
async def test_the_time_that_a_call_takes_counts_for_its_pace(
    clock: VirtualClock, taken: float, expected: float
) -> None:
    began: list[float] = []

    async def sweep(app_ids: Sequence[str]) -> AsyncIterator[Answers]:
        for _ in range(20):
            began.append(clock.monotonic())
            await clock.sleep(taken)
            yield {}
        yield {"app": DescribeAppResponse("app", AppState.SUCCEEDED)}

    feed = StateFeed("test", sweep, clock=clock)
    await count_events(feed)
    await feed.close()

    gaps = [after - before for before, after in pairwise(began)]
    assert [pytest.approx(expected)] * 19 == gaps
