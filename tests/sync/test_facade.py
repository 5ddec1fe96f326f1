"""What the blocking facade must do, row by row of its table."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from typing_extensions import override

from asyncsched.clock import Clock
from asyncsched.errors import ClosedError, MissingExtraError, UnknownAppError, UsageError
from asyncsched.specs import AppState
from asyncsched.sync import SyncRunner, SyncScheduler, create_scheduler, get_default_scheduler_name, get_runner
from asyncsched.sync import get_scheduler_factories as sync_factories
from asyncsched.testing import FakeScheduler, FakeService
from tests._support import WITHIN, eventually_blocking
from tests.sync.rig import Rig, app


@pytest.fixture
def rig() -> Generator[Rig]:
    rig = Rig()
    yield rig
    rig.runner.close()
    assert [] == threads()


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "asyncsched"]


def test_every_verb(rig: Rig) -> None:
    runner = rig.runner
    handle = rig.run()
    rig.say(handle, "one\ntwo\n")

    assert AppState.RUNNING is runner.status(handle).state  # type: ignore[union-attr]  # it is known
    assert "job" == runner.describe(handle).name  # type: ignore[union-attr]  # as above
    assert ["one\n", "two\n"] == list(runner.log_lines(handle))
    assert [handle] == [row.app_handle for row in runner.list()]
    assert "queue" in repr(runner.scheduler_run_opts("fake"))
    assert ["fake"] == [*runner.scheduler_backends()]
    assert 0 == runner.statistics().log_streams
    events = runner.watch([handle])
    assert AppState.RUNNING is next(events).state
    rig.exit(handle)
    assert [AppState.SUCCEEDED] == [event.state for event in events]
    assert AppState.SUCCEEDED is runner.wait(handle).state  # type: ignore[union-attr]  # as above
    assert [handle] == [ended for ended, _ in runner.as_completed([handle])]
    runner.delete(handle)
    assert runner.status(handle) is None


def test_a_scheduler_with_the_documents_interface() -> None:
    with SyncScheduler(FakeScheduler("me")) as scheduler:
        script = app()
        script.roles[0].args = ["-c", "echo one\necho two"]
        app_id = scheduler.submit(script, {"queue": "fast"})
        lines = scheduler.log_iter(app_id, "main", should_tail=True)

        assert ["one\n", "two\n"] == list(lines)
        assert AppState.SUCCEEDED is scheduler.describe(app_id).state  # type: ignore[union-attr]  # it is known
        assert scheduler.exists(app_id)
        assert [app_id] == [row.app_id for row in scheduler.list()] == [row.app_id for row in scheduler.list_iter()]
        assert ("fake", "me") == (scheduler.backend, scheduler.session_name)
        scheduler.cancel(app_id)
    with pytest.raises(ClosedError):
        scheduler.describe(app_id)


def test_a_runners_scheduler_shares_its_loop_and_ends_with_it(rig: Rig) -> None:
    scheduler = rig.runner.scheduler("fake")
    handle = rig.run()

    assert scheduler.exists(handle.app_id)
    assert 1 == len(threads())
    scheduler.close()  # the runner's: nothing happens
    assert scheduler.exists(handle.app_id)
    rig.runner.close()
    with pytest.raises(ClosedError):
        scheduler.exists(handle.app_id)


def test_errors_are_those_of_the_coroutines(rig: Rig) -> None:
    with pytest.raises(UnknownAppError, match="nosuchapp"):
        next(rig.runner.log_lines("fake://me/nosuchapp"))
    with pytest.raises(ValueError, match="k must be at least 0"):
        rig.runner.log_lines("fake://me/x", k=-1)  # at the call, not at the first step
    handle = rig.run()
    with pytest.raises(TimeoutError, match="did not end within 0"):
        rig.runner.wait(handle, timeout=0.01)


def test_an_error_ends_the_iteration(rig: Rig) -> None:
    lines = rig.runner.log_lines("fake://me/nosuchapp")
    with pytest.raises(UnknownAppError):
        next(lines)

    assert [] == list(lines)


@pytest.mark.guard(blocking=False, reason="a blocking facade blocks its caller, in a running loop too")
async def test_inside_a_running_loop() -> None:
    rig = Rig()
    handle = rig.run()
    rig.say(handle, "one\n")

    assert ["one\n"] == list(rig.runner.log_lines(handle))
    rig.runner.close()


@contextmanager
def threads_with(rig: Rig, count: int) -> Iterator[ThreadPoolExecutor]:
    """Have threads that call the runner; it is closed if the test fails, so that they end."""
    with ThreadPoolExecutor(count) as pool:
        try:
            yield pool
        except BaseException:
            rig.runner.close()
            raise


def test_from_32_threads_at_once(rig: Rig) -> None:
    handle = rig.run()
    barrier = threading.Barrier(33)

    def wait() -> AppState:
        barrier.wait()
        return rig.runner.wait(handle).state  # type: ignore[union-attr]  # it is known

    with threads_with(rig, 32) as pool:
        waiting = [pool.submit(wait) for _ in range(32)]
        barrier.wait()
        eventually_blocking(lambda: 32 == rig.runner.statistics().watches)
        rig.exit(handle)

        assert {AppState.SUCCEEDED} == {each.result(WITHIN) for each in waiting}


def test_threads_share_an_iterator_and_each_item_goes_to_one(rig: Rig) -> None:
    handle = rig.run()
    rig.say(handle, "".join(f"{number}\n" for number in range(5000)))
    lines = rig.runner.log_lines(handle)
    with ThreadPoolExecutor(8) as pool:
        shares = list(pool.map(lambda _: list(lines), range(8)))

    assert sorted(f"{number}\n" for number in range(5000)) == sorted(line for share in shares for line in share)


def test_iteration_hops_threads_once_per_batch(rig: Rig) -> None:
    handle = rig.run()
    rig.say(handle, "x\n" * 20_000)
    lines = rig.runner.log_lines(handle)
    hops = 0
    call = rig.runner._bridge._thread.call

    def counted(make):  # as `call`
        nonlocal hops
        hops += 1
        return call(make)

    rig.runner._bridge._thread.call = counted  # type: ignore[method-assign]  # to count is the test
    count = sum(1 for _ in lines)

    assert 20_000 == count
    assert hops < 200


def test_the_apps_of_a_watch_are_changed_while_another_thread_waits(rig: Rig) -> None:
    first, second = rig.run(), rig.run()
    with threads_with(rig, 1) as pool, rig.runner.watch(follow=True) as events:
        waiting = pool.submit(next, events)
        events.add(first)

        assert first == waiting.result(WITHIN).handle
        waiting = pool.submit(next, events)
        events.discard([first])
        rig.exit(first)
        events.add([second])
        assert second == waiting.result(WITHIN).handle


def test_an_early_break_closes_the_generator_in_the_loop(rig: Rig) -> None:
    handle = rig.run()
    rig.say(handle, "one\ntwo\n")
    for _ in rig.runner.log_lines(handle, should_tail=True):
        break
    gc.collect()
    eventually_blocking(lambda: 0 == rig.runner.statistics().log_streams)

    with rig.runner.log_lines(handle, should_tail=True) as lines:
        next(lines)
        assert 1 == rig.runner.statistics().log_streams
    assert 0 == rig.runner.statistics().log_streams
    lines.close()
    assert [] == list(lines)


def test_close_while_others_are_in_a_call(rig: Rig) -> None:
    handle = rig.run()
    lines = rig.runner.log_lines(handle, should_tail=True)
    with threads_with(rig, 3) as pool:
        calls: list[Future[Any]] = [
            pool.submit(rig.runner.wait, handle),
            pool.submit(lambda: next(lines)),
            pool.submit(lambda: next(rig.runner.watch(follow=True))),
        ]
        eventually_blocking(lambda: 2 == rig.runner.statistics().watches)
        rig.runner.close()

        for call in calls:
            with pytest.raises(ClosedError):
                call.result(WITHIN)
    rig.runner.close()
    with pytest.raises(ClosedError):
        rig.runner.status(handle)
    with pytest.raises(ClosedError):
        next(lines)
    lines.close()


def test_the_thread_starts_with_the_first_call_and_ends_with_the_last_user() -> None:
    rig = Rig()

    assert [] == threads()
    handle = rig.run()
    rig.say(handle, "one\n")
    lines: Iterator[str] = rig.runner.log_lines(handle, should_tail=True)
    del rig
    gc.collect()

    # The iterator still uses the loop.
    assert "one\n" == next(lines)
    del lines
    gc.collect()
    eventually_blocking(lambda: [] == threads())


def test_it_may_be_collected_on_its_own_loops_thread() -> None:
    rig = Rig()
    rig.run()
    (thread,) = threads()
    holder = [rig.runner]
    loop = rig.runner._bridge._thread._loop
    assert loop is not None
    collected = threading.Event()

    def drop() -> None:
        holder.clear()
        gc.collect()
        collected.set()

    rig.__dict__.clear()
    loop.call_soon_threadsafe(drop)

    assert collected.wait(WITHIN)
    thread.join(WITHIN)
    assert not thread.is_alive()


def test_a_blocking_call_inside_its_own_loop_is_refused(rig: Rig) -> None:
    def call() -> None:
        rig.runner.scheduler_backends()

    with pytest.raises(UsageError, match="in the loop that it waits for"):
        rig.do(call)


def test_calls_see_the_callers_context(rig: Rig) -> None:
    from asyncsched.specs.secret import show_secrets

    secret = app()
    secret.roles[0].env = {"API_TOKEN": "hunter2"}
    info = rig.runner.dryrun(secret, "fake")

    assert "hunter2" not in repr(info)
    with show_secrets():
        assert "hunter2" in repr(rig.runner.dryrun(secret, "fake"))


class MeetingService(FakeService):
    """Answers no question after an app before there are sixteen of them."""

    def __init__(self) -> None:
        super().__init__(Clock())
        self._all = asyncio.Barrier(16)

    @override
    async def call(self, operation: str) -> None:
        await super().call(operation)
        if operation == "describe":
            async with asyncio.timeout(WITHIN):
                await self._all.wait()


def test_many_calls_at_once_do_not_wait_for_each_other() -> None:
    with SyncRunner("me", {"fake": FakeScheduler("me", MeetingService())}) as runner, ThreadPoolExecutor(16) as pool:
        handle = runner.run(app(), "fake")
        found = list(pool.map(lambda _: runner.status(handle), range(16)))

    assert 16 == len(found)


def test_the_documents_factories() -> None:
    names = [*sync_factories()]
    with get_runner("me") as runner:
        assert isinstance(runner, SyncRunner)
        assert "me" == runner.name
        assert names == [*runner.scheduler_backends()]
    if not names:
        return
    assert names[0] == get_default_scheduler_name()
    with contextlib.suppress(MissingExtraError):  # whether its package is there is not the question here
        with create_scheduler(names[0], "me") as scheduler, sync_factories()[names[0]]("you") as other:
            assert [(names[0], "me"), (names[0], "you")] == [(s.backend, s.session_name) for s in (scheduler, other)]


def test_reprs_tell_the_state(rig: Rig) -> None:
    assert "<SyncRunner new of <Runner 'me' new" in repr(rig.runner)
    rig.runner.scheduler_backends()
    assert "<SyncRunner open of <Runner 'me' open" in repr(rig.runner)
    rig.runner.close()
    assert "<SyncRunner closed of <Runner 'me' closed" in repr(rig.runner)


def test_what_a_coroutine_raises_keeps_its_type(rig: Rig) -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    async def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(ClosedError):
        rig.runner._bridge.call(cancelled)
    with pytest.raises(SystemExit):
        rig.runner._bridge.call(leave)
    # The loop has survived both.
    assert ["fake"] == [*rig.runner.scheduler_backends()]


def test_the_options_need_no_loop() -> None:
    scheduler = SyncScheduler(FakeScheduler("me"))

    assert FakeScheduler.options is scheduler.options
    assert "new" in repr(scheduler)


def test_the_runner_that_is_awaited_is_not_here_by_accident() -> None:
    import asyncsched.sync

    with pytest.raises(AttributeError, match="use SyncRunner, whose calls block"):
        asyncsched.sync.Runner  # noqa: B018
    with pytest.raises(ImportError, match="Runner"):
        exec("from asyncsched.sync import Runner", {})
    assert not hasattr(asyncsched.sync, "nothing_of_the_kind")
