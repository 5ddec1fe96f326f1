"""Watching apps of several schedulers in one stream."""

from __future__ import annotations

import asyncio
import gc
from functools import partial

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from asyncsched.clock import Clock
from asyncsched.errors import AuthError, MissingExtraError, UnavailableError, UsageError
from asyncsched.runner import AppEvent, AppEventStream, Runner
from asyncsched.runner.notebook import MOST_BOXES, AppTable, LogBox, LogBoxes, _follow
from asyncsched.specs import AppHandle, AppState
from asyncsched.testing import FakeScheduler, FakeService, VirtualClock
from tests._support import eventually
from tests.runner.rig import Rig, app


async def told(events: AppEventStream) -> list[tuple[AppHandle, AppState]]:
    return [(event.handle, event.state) async for event in events]


async def test_present_states_come_first_then_changes_and_the_end(rig: Rig) -> None:
    handles = [await rig.run(scheduler) for scheduler in ("push", "polled")]
    events = rig.runner.watch(handles)
    first = [await anext(events) for _ in handles]

    assert {(handle, None, AppState.RUNNING, False) for handle in handles} == {
        (event.handle, event.previous, event.state, event.gone) for event in first
    }
    rig.exit(handles[0])
    rig.exit(handles[1], 3)
    last = [event async for event in events]
    assert {(handles[0], AppState.SUCCEEDED), (handles[1], AppState.FAILED)} == {
        (event.handle, event.state) for event in last
    }
    assert all(event.previous is not None and AppState.RUNNING is event.previous.state for event in last)
    assert events.closed


async def test_an_unknown_app_is_gone_and_one_that_vanishes_is_unknown(rig: Rig) -> None:
    handle = await rig.run("push")
    events = rig.runner.watch([handle, "polled://me/nosuchapp"])
    got = [await anext(events), await anext(events)]
    unknown = next(event for event in got if event.gone)

    assert ("polled://me/nosuchapp", None, AppState.UNKNOWN) == (unknown.handle, unknown.current, unknown.state)
    rig.vanish(handle)
    (gone,) = [event async for event in events]
    assert (handle, True, AppState.UNKNOWN, True) == (gone.handle, gone.gone, gone.state, gone.is_terminal())


async def test_apps_are_added_and_discarded_while_it_runs(rig: Rig) -> None:
    events = rig.runner.watch(follow=True)
    step = asyncio.create_task(anext(events))
    handles = [await rig.run(scheduler) for scheduler in ("push", "polled", "push")]
    events.add(*handles[:2])

    got = {(await step).handle, (await anext(events)).handle}
    assert {*handles[:2]} == got
    step = asyncio.create_task(anext(events))
    events.discard(handles[0])
    rig.exit(handles[0])
    events.add(handles[2], handles[1])  # the second is watched already
    assert handles[2] == (await step).handle
    events.add(handles[0])  # its end has not been told
    assert (handles[0], AppState.SUCCEEDED) == ((event := await anext(events)).handle, event.state)
    assert 2 == events.watched
    await events.aclose()


async def test_apps_are_added_and_discarded_one_by_one_or_several_at_a_time(rig: Rig) -> None:
    one, two, three = [await rig.run(scheduler) for scheduler in ("push", "polled", "push")]
    async with rig.runner.watch(follow=True) as events:
        events.add(one, [two], iter([three]))
        assert 3 == events.watched
        assert {one, two, three} == {(await anext(events)).handle for _ in range(3)}
        events.discard([one, two], three)
        events.finish()
        with pytest.raises(StopAsyncIteration):
            await anext(events)
        with pytest.raises(UsageError, match="handles must be a handle or an iterable of them, got 3"):
            events.add(one, 3)  # type: ignore[arg-type]  # that is the point


async def test_a_slow_consumer_gets_the_newest(rig: Rig) -> None:
    handle = await rig.run("push", replicas=5)
    events = rig.runner.watch([handle])
    await anext(events)
    stepping = asyncio.create_task(anext(events))  # from now on the stream waits, and takes nothing ahead

    def has_changed(times: int) -> bool:
        feed = rig.runner.statistics().schedulers["push"].feed
        return feed is not None and feed.changes == times

    for k in range(5):
        rig.push.exit(handle.app_id, 0, k=k)
        await eventually(partial(has_changed, 2 + k))
        await stepping
    rest = [event async for event in events]

    assert [AppState.SUCCEEDED] == [event.state for event in rest]  # what happened in between has merged


async def test_a_watch_counts_what_it_has_done_over_all_schedulers(rig: Rig) -> None:
    handles = [await rig.run("push", replicas=5), await rig.run("polled")]
    events = rig.runner.watch(handles)
    assert (2, 0, 0, 0) == events.statistics()

    await anext(events), await anext(events)
    for k in range(5):
        rig.push.exit(handles[0].app_id, 0, k=k)
        expected = (2, 2, 1, k)
        await eventually(lambda: expected == events.statistics())  # noqa: B023 - it is over in this step
    await anext(events)
    assert (1, 3, 0, 4) == events.statistics()
    await events.aclose()
    assert (0, 3, 0, 4) == events.statistics()


async def test_completions_count_what_their_watch_has_seen(rig: Rig) -> None:
    handle = await rig.run("push")
    ended = rig.runner.as_completed([handle])
    assert (1, 0, 0, 0) == ended.statistics()

    rig.exit(handle)
    assert handle == (await anext(ended))[0]
    counted = ended.statistics()
    assert (0, 0) == (counted.watched, counted.pending)
    assert counted.events > 0
    await ended.aclose()


async def test_a_scheduler_that_fails_for_good_spares_the_others(rig: Rig) -> None:
    good, bad = await rig.run("push"), await rig.run("polled")
    rig.polled.fail("describe", *[AuthError("who are you")] * 3)
    events = rig.runner.watch([good, bad])
    got: list[AppEvent] = []
    with pytest.raises(AuthError, match="who are you") as caught:
        while True:
            got.append(await anext(events))

    assert ["This ended the watch of 1 app(s) of polled."] == caught.value.__notes__
    rig.exit(good)
    got += [event async for event in events]
    assert {good} == {event.handle for event in got}
    assert AppState.SUCCEEDED is got[-1].state


async def test_a_notebooks_table_goes_on_with_the_apps_of_the_others(rig: Rig) -> None:
    good, bad = await rig.run("push"), await rig.run("polled")
    rig.polled.fail("describe", *[AuthError("who are you")] * 3)
    shown = AppTable([good, bad])
    following = asyncio.create_task(_follow(shown, rig.runner.watch([good, bad]), Clock(), lambda content: None))
    await eventually(lambda: "who are you" in shown.note)
    rig.exit(good)
    with pytest.raises(AuthError):
        await following

    assert "SUCCEEDED" in repr(shown)


async def test_a_table_outside_of_a_notebook_is_refused(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    handle = await rig.run("push")
    with pytest.raises(MissingExtraError, match="use `watch` instead"):
        await rig.runner.monitor(handle)
    for wrong in (3, [handle, 3]):
        with pytest.raises(UsageError, match="got 3"):
            await rig.runner.monitor(wrong)  # type: ignore[arg-type]  # that is the point

    with pytest.raises(MissingExtraError, match="use `log_lines` instead"):
        await rig.runner.show_log(handle)

    assert ("", "") == capsys.readouterr()
    statistics = rig.runner.statistics()
    assert (0, 0) == (statistics.watches, statistics.log_streams)


async def test_the_logs_that_a_notebook_showed_last_stay_open(rig: Rig) -> None:
    boxes = LogBoxes()
    handles = [await rig.run("push") for _ in range(MOST_BOXES + 1)]

    async def box(handle: str) -> LogBox:
        return await boxes.get([handle], lambda: rig.runner.log_lines(handle, should_tail=True))

    made = [await box(handle) for handle in handles]
    assert made[1] is await box(handles[1])
    assert [True, *[False] * MOST_BOXES] == [each.lines.closed for each in made]
    assert made[0] is not await box(handles[0])
    assert made[2].lines.closed, "the one that was shown longest ago"
    assert not made[1].lines.closed


async def test_a_failure_that_passes_is_only_told_by_the_statistics(rig: Rig) -> None:
    handle = await rig.run("polled")
    rig.polled.fail("describe", UnavailableError("down"))
    events = rig.runner.watch([handle])

    assert AppState.RUNNING is (await anext(events)).state
    feed = rig.runner.statistics().schedulers["polled"].feed
    assert feed is not None
    assert "down" in feed.last_error
    await events.aclose()


async def test_two_steps_at_once_are_refused(rig: Rig) -> None:
    events = rig.runner.watch(follow=True)
    step = asyncio.create_task(anext(events))
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="another step"):
        await anext(events)
    await events.aclose()
    with pytest.raises(StopAsyncIteration):
        await step


async def test_a_dropped_watch_ends_its_tasks_and_the_feed(rig: Rig) -> None:
    handles = [await rig.run(scheduler) for scheduler in ("push", "polled")]
    before = asyncio.all_tasks()
    async for _ in rig.runner.watch(handles):
        break
    gc.collect()
    await eventually(lambda: before == asyncio.all_tasks())

    assert 0 == rig.push.connections


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_a_thousand_waiters_make_the_calls_of_one() -> None:
    async def calls(waiters: int) -> int:
        """Return the calls in 20 seconds while a thousand apps are waited for."""
        clock = VirtualClock()
        service = FakeService(clock, start_delay=None)
        scheduler = FakeScheduler("me", service, mode="polled")
        runner = Runner("me", {"polled": scheduler})
        handles = [await runner.run(app(), "polled") for _ in range(1000)]
        share = 1000 // waiters
        waiting = [
            asyncio.create_task(runner.wait_all(handles[start : start + share])) for start in range(0, 1000, share)
        ]
        await eventually(lambda: (feed := scheduler.watch_statistics()) is not None and feed.apps == 1000)
        await clock.advance(20)
        count = service.calls["describe"]
        for handle in handles:
            service.start(handle.app_id)
            service.exit(handle.app_id)
        async with clock:
            ended = [
                status for part in await asyncio.gather(*waiting) for status in part.values() if status is not None
            ]
        assert [AppState.SUCCEEDED] * 1000 == [status.state for status in ended]
        await runner.close()
        await scheduler.close()
        return count

    of_one, of_all = await calls(1), await calls(1000)

    assert of_one > 100
    assert abs(of_all - of_one) <= 20  # two sweeps of ten calls


@pytest.mark.slow
async def test_thousands_of_apps_do_not_hold_the_loop(rig: Rig) -> None:
    handles = [f"push://me/job-{number}" for number in range(5000)]  # the guard looks at every step
    await asyncio.sleep(0)
    events = rig.runner.watch(handles)
    await asyncio.sleep(0)
    gone = {event.handle async for event in events if event.gone}
    await asyncio.sleep(0)

    assert {*handles} == gone


class Spreading(RuleBasedStateMachine):
    """Whatever happens to apps and watch in whatever order: the newest is told, each end once, and then it ends."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.rig = Rig()
        self.handles: list[AppHandle] = []
        self.watched: set[AppHandle] = set()
        self.ended: dict[AppHandle, AppState] = {}
        self.told: dict[AppHandle, list[AppState]] = {}
        self.events = self.rig.runner.watch(follow=True)

    def teardown(self) -> None:
        self.loop.run(self.finish())
        self.loop.run(self.rig.__aexit__(None, None, None))
        self.loop.close()

    @rule(scheduler=st.sampled_from(["push", "polled"]))
    def launch(self, scheduler: str) -> None:
        self.handles.append(self.loop.run(self.rig.run(scheduler)))

    @rule(data=st.data())
    def watch(self, data: st.DataObject) -> None:
        if self.handles:
            handle = data.draw(st.sampled_from(self.handles))
            self.events.add(handle)
            self.watched.add(handle)

    @rule(data=st.data())
    def discard(self, data: st.DataObject) -> None:
        # In the order of their launch, which is the same each time: their ids are random.
        if watched := [handle for handle in self.handles if handle in self.watched]:
            handle = data.draw(st.sampled_from(watched))
            self.events.discard(handle)
            self.watched.discard(handle)
            self.told.pop(handle, None)

    @rule(data=st.data(), code=st.integers(0, 1))
    def end(self, data: st.DataObject, code: int) -> None:
        if alive := [handle for handle in self.handles if handle not in self.ended]:
            handle = data.draw(st.sampled_from(alive))
            self.rig.exit(handle, code)
            self.ended[handle] = AppState.FAILED if code else AppState.SUCCEEDED

    @rule(seconds=st.sampled_from([0, 0.002]))
    def step(self, seconds: float) -> None:
        self.loop.run(self.read(seconds))

    async def read(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                event = await anext(self.events)
        except TimeoutError:
            return False
        self.told.setdefault(event.handle, []).append(event.state)
        return True

    async def finish(self) -> None:
        await eventually(self.all_told)

    async def all_told(self) -> bool:
        await self.read(0.01)
        wanted = {handle: self.ended.get(handle, AppState.RUNNING) for handle in self.watched}
        return wanted == {handle: states[-1] for handle, states in self.told.items()}

    @invariant()
    def each_end_is_told_once(self) -> None:
        for states in self.told.values():
            assert sum(state.is_terminal() for state in states) <= 1
            assert not any(state.is_terminal() for state in states[:-1])


Spreading.TestCase.settings = settings(stateful_step_count=20, deadline=None)
TestSpreading = Spreading.TestCase
