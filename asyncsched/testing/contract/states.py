"""The contract on describing, watching, listing and ending."""

from __future__ import annotations

import asyncio
import gc
import itertools
import threading
from datetime import timedelta

import pytest

from asyncsched.errors import ClosedError, ConflictError, WrongLoopError
from asyncsched.schedulers.responses import DescribeAppResponse, StateEvent
from asyncsched.specs.app import AppDef
from asyncsched.specs.state import AppState
from asyncsched.testing.contract.rig import ContractRig, echo, impatient

__all__ = ["StateContract"]


class StateContract:
    """States: known everywhere, reported in order, and final."""

    async def test_an_unknown_app_is_none_and_does_not_exist(self, rig: ContractRig) -> None:
        assert await rig.scheduler.describe(rig.unknown_id) is None
        assert not await rig.scheduler.exists(rig.unknown_id)

    async def test_success_is_described_in_full(self, rig: ContractRig) -> None:
        app_id = await rig.submit(rig.app(echo("hello"), replicas=2))
        ended = await rig.ended(app_id)

        assert (AppState.SUCCEEDED, "") == (ended.state, ended.msg)
        assert ["main"] == [role.role for role in ended.roles_statuses]
        assert [(0, AppState.SUCCEEDED, 0), (1, AppState.SUCCEEDED, 0)] == [
            (replica.id, replica.state, replica.exit_code) for replica in ended.replicas
        ]
        replicas = [time for replica in ended.replicas for time in (replica.started_at, replica.finished_at)]
        for time in (ended.created_at, ended.started_at, ended.finished_at, *replicas):
            assert time is None or timedelta(0) == time.utcoffset()
        assert await rig.scheduler.exists(app_id)

    async def test_a_failure_names_its_code_and_leaves_the_others_running(self, rig: ContractRig) -> None:
        app = AppDef("job", [rig.role("exit 3", "bad"), rig.role(rig.long_sleep, "good")])
        app_id = await rig.submit(app)

        def bad_has_failed(found: DescribeAppResponse) -> bool:
            return any(r.role == "bad" and r.state is AppState.FAILED for r in found.replicas)

        seen = await rig.until(app_id, bad_has_failed)
        assert 3 == next(r.exit_code for r in seen.replicas if r.role == "bad")
        assert AppState.RUNNING == (await rig.running_or_pending(app_id)).state
        await rig.scheduler.cancel(app_id)

    async def test_all_ended_with_a_failure_is_failed_and_says_why(self, rig: ContractRig) -> None:
        app_id = await rig.submit(AppDef("job", [rig.role("exit 3", "bad"), rig.role(echo("x"), "good")]))
        ended = await rig.ended(app_id)

        assert AppState.FAILED == ended.state
        assert "3" in ended.msg or any("3" in replica.reason for replica in ended.replicas)

    async def test_another_process_sees_the_same(self, rig: ContractRig) -> None:
        app_id = await rig.submit(rig.app("exit 4"))
        ended = await rig.ended(app_id)
        other = rig.another()
        try:
            seen = await other.describe(app_id)
        finally:
            await other.close()

        assert seen is not None
        assert (AppState.FAILED, 4) == (seen.state, seen.replicas[0].exit_code)
        assert ended.finished_at == seen.finished_at

    async def test_describe_many_keeps_order_and_tells_the_unknown(self, rig: ContractRig) -> None:
        first, second = await rig.submit(rig.app(echo("a"))), await rig.submit(rig.app(echo("b")))
        wanted = [second, rig.unknown_id, first, second]

        found = await rig.scheduler.describe_many(wanted)

        assert [second, rig.unknown_id, first] == list(found)
        assert found[rig.unknown_id] is None
        assert first == getattr(found[first], "app_id", None)
        assert {} == await rig.scheduler.describe_many([])

    async def test_a_watch_begins_with_the_present_and_ends_at_the_end(self, rig: ContractRig) -> None:
        app_id = await rig.submit(rig.app("sleep 0.2\n" + echo("x")))
        async with asyncio.timeout(rig.patience):
            events = [event async for event in rig.scheduler.watch([app_id])]

        assert events[0].previous is None
        assert all(before.current == after.previous for before, after in itertools.pairwise(events))
        assert AppState.SUCCEEDED == events[-1].state
        assert [False] * (len(events) - 1) + [True] == [event.is_terminal() for event in events]
        async with asyncio.timeout(rig.patience):
            again = [event async for event in rig.scheduler.watch([app_id])]
        assert [AppState.SUCCEEDED] == [event.state for event in again]

    async def test_a_watch_of_an_unknown_app_is_one_event(self, rig: ContractRig) -> None:
        async with asyncio.timeout(rig.patience):
            events = [event async for event in rig.scheduler.watch([rig.unknown_id])]

        assert [(rig.unknown_id, None, True)] == [(event.app_id, event.current, event.gone) for event in events]

    async def test_an_empty_watch_ends_unless_it_follows(self, rig: ContractRig) -> None:
        assert [] == [event async for event in rig.scheduler.watch()]
        app_id = await rig.submit(rig.app(echo("x")))
        async with rig.scheduler.watch(follow=True) as watch, asyncio.timeout(rig.patience):
            waiting = asyncio.create_task(anext(watch))
            await asyncio.sleep(0)
            watch.add(app_id)
            assert app_id == (await waiting).app_id

    async def test_a_discarded_app_is_told_no_more(self, rig: ContractRig) -> None:
        kept, dropped = await rig.submit(rig.app(echo("x"))), await rig.submit(rig.app(rig.long_sleep))
        watch = rig.scheduler.watch([kept, dropped])
        async with asyncio.timeout(rig.patience):
            first = await anext(watch)
            watch.discard(dropped)
            rest = [event async for event in watch]

        assert {kept} == {event.app_id for event in rest} | ({first.app_id} - {dropped})
        await rig.scheduler.cancel(dropped)

    async def test_a_step_of_a_watch_that_times_out_loses_nothing(self, rig: ContractRig) -> None:
        app_id = await rig.submit(rig.app("sleep 0.3\nexit 5"))
        watch = rig.scheduler.watch([app_id])
        events: list[StateEvent] = []
        timeouts = 0
        async with asyncio.timeout(rig.patience):
            while not (events and events[-1].is_terminal()):
                try:
                    events.append(await impatient(watch))
                except TimeoutError:
                    timeouts += 1
        await watch.aclose()

        assert AppState.FAILED == events[-1].state
        assert timeouts

    async def test_watchers_share_one_feed(self, rig: ContractRig) -> None:
        app_id = await rig.submit(rig.app("sleep 0.2"))

        async def last() -> AppState:
            return [event async for event in rig.scheduler.watch([app_id])][-1].state

        async with asyncio.timeout(rig.patience):
            ends = await asyncio.gather(*(last() for _ in range(50)))

        assert [AppState.SUCCEEDED] * 50 == ends
        statistics = rig.scheduler.watch_statistics()
        assert statistics is not None
        assert (0, 0) == (statistics.watchers, statistics.apps)

    async def test_a_slow_consumer_gets_the_end(self, rig: ContractRig) -> None:
        app_id = await rig.submit(rig.app("sleep 0.1\nexit 6"))
        watch = rig.scheduler.watch([app_id])
        async with asyncio.timeout(rig.patience):
            first = await anext(watch)
            await rig.ended(app_id)
            rest = [event async for event in watch]

        # At most one event is pending, the newest; none if the first was already the end.
        assert [AppState.FAILED] == [event.state for event in (rest or [first])]

    async def test_a_watch_that_is_dropped_leaves_nothing(self, rig: ContractRig) -> None:
        app_id = await rig.submit(rig.app(rig.long_sleep))
        async with asyncio.timeout(rig.patience):
            await anext(rig.scheduler.watch([app_id]))
            gc.collect()
            while (statistics := rig.scheduler.watch_statistics()) is not None and statistics.watchers:
                await asyncio.sleep(0.01)
        await rig.scheduler.cancel(app_id)

    async def test_cancel_ends_an_app_as_cancelled_for_everyone(self, rig: ContractRig) -> None:
        app_id = await rig.submit(rig.app(echo("before") + "\n" + rig.long_sleep, replicas=2))
        await rig.running(app_id)
        await asyncio.gather(rig.scheduler.cancel(app_id), rig.scheduler.cancel(app_id))
        ended = await rig.ended(app_id)
        await rig.scheduler.cancel(app_id)
        other = rig.another()
        try:
            seen = await other.describe(app_id)
        finally:
            await other.close()

        assert AppState.CANCELLED == ended.state
        assert seen is not None
        assert AppState.CANCELLED == seen.state

    async def test_cancel_does_nothing_to_the_unknown_and_the_finished(self, rig: ContractRig) -> None:
        app_id = await rig.submit(rig.app(echo("x")))
        await rig.ended(app_id)

        await rig.scheduler.cancel(app_id)
        await rig.scheduler.cancel(rig.unknown_id)

        found = await rig.scheduler.describe(app_id)
        assert AppState.SUCCEEDED == getattr(found, "state", None)

    async def test_delete_removes_what_has_ended_and_refuses_the_rest(self, rig: ContractRig) -> None:
        app_id = await rig.submit(rig.app(rig.long_sleep))
        await rig.running(app_id)
        with pytest.raises(ConflictError):
            await rig.scheduler.delete(app_id)
        await rig.scheduler.cancel(app_id)
        await rig.ended(app_id)

        await rig.scheduler.delete(app_id)
        await rig.scheduler.delete(app_id)

        assert await rig.scheduler.describe(app_id) is None
        assert app_id not in [row.app_id for row in await rig.scheduler.list()]

    async def test_an_app_that_is_deleted_while_watched_is_gone(self, rig: ContractRig) -> None:
        app_id = await rig.submit(rig.app(echo("x")))
        await rig.ended(app_id)
        async with rig.scheduler.watch([app_id], follow=True) as watch, asyncio.timeout(rig.patience):
            assert AppState.SUCCEEDED == (await anext(watch)).state
            await rig.scheduler.delete(app_id)
            watch.discard(app_id)
            watch.add(app_id)
            assert (await anext(watch)).gone

    async def test_list_has_one_row_for_each_app_newest_first(self, rig: ContractRig) -> None:
        first = await rig.submit(rig.app(echo("a"), replicas=2))
        await rig.ended(first)
        second = await rig.submit(rig.app("exit 1"))
        await rig.ended(second)
        rows = [row for row in await rig.scheduler.list() if row.app_id in (first, second)]

        assert [(second, AppState.FAILED), (first, AppState.SUCCEEDED)] == [(row.app_id, row.state) for row in rows]
        assert f"{rig.scheduler.backend}://{rig.scheduler.session_name}/{first}" == rows[1].app_handle
        assert [second] == [
            row.app_id for row in await rig.scheduler.list(states={AppState.FAILED}) if row.app_id in (first, second)
        ]
        assert [second] == [row.app_id for row in await rig.scheduler.list(limit=1)]
        assert 0 == len(await rig.scheduler.list(limit=0))

    async def test_list_tells_the_apps_of_all_sessions(self, rig: ContractRig) -> None:
        mine = await rig.submit(rig.app(echo("a")))
        other = rig.another()
        try:
            theirs = await other.submit(rig.app(echo("b")), rig.cfg)
            seen = await other.list()
        finally:
            await other.close()

        for rows in (seen, await rig.scheduler.list()):
            sessions = {row.app_id: (row.session, row.app_handle) for row in rows}
            for app_id, session in ((mine, rig.scheduler.session_name), (theirs, other.session_name)):
                assert (session, f"{rig.scheduler.backend}://{session}/{app_id}") == sessions[app_id]

    async def test_close_is_final_and_quiet(self, rig: ContractRig) -> None:
        app_id = await rig.submit(rig.app(rig.long_sleep))
        await rig.running(app_id)
        other = rig.another()
        watch = other.watch([app_id])
        await anext(watch)
        waiting = asyncio.create_task(anext(watch))
        await asyncio.sleep(0)

        await other.close()
        await other.close()

        with pytest.raises(ClosedError):
            await waiting
            await anext(watch)  # an earlier change was reported first
        with pytest.raises(ClosedError):
            await other.describe(app_id)
        with pytest.raises(ClosedError):
            other.log_iter(app_id)
        await rig.scheduler.cancel(app_id)

    async def test_another_loop_is_told_off(self, rig: ContractRig) -> None:
        await rig.scheduler.describe(rig.unknown_id)
        caught: list[BaseException] = []

        def elsewhere() -> None:
            try:
                asyncio.run(rig.scheduler.describe(rig.unknown_id))
            except WrongLoopError as error:
                caught.append(error)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        await asyncio.to_thread(thread.join)

        assert "asyncsched.sync" in str(caught[0])
