"""The contract on logs, and the eight ways to consume them."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Awaitable
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import anyio
import pytest

from asyncsched.errors import ConfigError, UnknownAppError
from asyncsched.logs.line import LogLine
from asyncsched.specs.app import AppDef
from asyncsched.specs.state import AppState
from asyncsched.specs.stream import Stream
from asyncsched.testing.contract.rig import ContractRig, echo, impatient, texts

__all__ = ["LogContract"]

HUNDRED = [f"line {number}" for number in range(100)]


class LogContract:
    """Logs: each line of each replica once, whole, in order."""

    async def test_every_line_of_every_replica_in_its_order(self, rig: ContractRig) -> None:
        app = AppDef("job", [rig.role(echo(*HUNDRED), "a", num_replicas=2), rig.role(echo(*HUNDRED), "b")])
        app_id = await rig.submit(app)
        lines = await rig.lines(app_id, should_tail=True)

        by_replica: dict[tuple[str, int], list[str]] = {}
        for line in lines:
            by_replica.setdefault((line.role, line.replica), []).append(line.text)
        assert {("a", 0): HUNDRED, ("a", 1): HUNDRED, ("b", 0): HUNDRED} == by_replica
        assert {app_id} == {line.app_id for line in lines}
        assert all(line.endswith("\n") for line in lines)

    async def test_a_tail_ends_with_the_app_and_a_read_with_what_is_there(self, rig: ContractRig) -> None:
        app_id = await rig.submit(rig.app(echo("one") + "\n" + rig.long_sleep))
        tail = rig.scheduler.log_iter(app_id, should_tail=True)
        assert ["one"] == texts(await rig.read(tail, 1))

        assert ["one"] == texts(await rig.lines(app_id))
        assert AppState.RUNNING == (await rig.running(app_id)).state
        await rig.scheduler.cancel(app_id)
        assert [] == texts(await rig.read(tail))

    async def test_a_tail_waits_for_an_app_that_has_not_begun(self, rig: ContractRig) -> None:
        app_id = await rig.submit(rig.app("sleep 0.3\n" + echo("late")))

        assert ["late"] == texts(await rig.lines(app_id, should_tail=True))

    async def test_a_log_is_read_again_from_the_beginning(self, rig: ContractRig) -> None:
        app_id = await rig.submit(rig.app(echo("a", "b")))
        await rig.ended(app_id)

        assert ["a", "b"] == texts(await rig.lines(app_id)) == texts(await rig.lines(app_id, should_tail=True))

    async def test_another_process_reads_the_same(self, rig: ContractRig) -> None:
        app_id = await rig.submit(rig.app(echo("a", "b")))
        await rig.ended(app_id)
        other = rig.another()
        try:
            assert ["a", "b"] == texts(await rig.read(other.log_iter(app_id)))
        finally:
            await other.close()

    async def test_roles_and_replicas_are_chosen(self, rig: ContractRig) -> None:
        app = AppDef("job", [rig.role(echo("x"), "a", num_replicas=3), rig.role(echo("y"), "b")])
        app_id = await rig.submit(app)
        await rig.ended(app_id)

        async def chosen(*args: Any, **query: Any) -> Counter[tuple[str, int]]:
            lines = await rig.read(rig.scheduler.log_iter(app_id, *args, **query))
            return Counter((line.role, line.replica) for line in lines)

        assert Counter({("a", 1): 1}) == await chosen("a", 1)
        assert Counter({("a", 0): 1, ("a", 2): 1}) == await chosen("a", [0, 2])
        assert Counter({("a", 0): 1, ("b", 0): 1}) == await chosen(k=0)
        assert Counter({("b", 0): 1}) == await chosen(["b"])
        assert Counter({("a", 0): 1, ("a", 1): 1, ("a", 2): 1, ("b", 0): 1}) == await chosen()

    async def test_what_does_not_exist_is_an_error_that_names_what_does(self, rig: ContractRig) -> None:
        app_id = await rig.submit(AppDef("job", [rig.role(echo("x"), "alpha"), rig.role(echo("y"), "beta")]))
        await rig.ended(app_id)

        with pytest.raises(UnknownAppError):
            await rig.lines(rig.unknown_id)
        with pytest.raises(UnknownAppError):
            await rig.lines(rig.unknown_id, should_tail=True)
        with pytest.raises(UnknownAppError, match=r"alpha.*beta"):
            await rig.lines(app_id, role_name="gamma")
        with pytest.raises(UnknownAppError, match=r"alpha has 1"):
            await rig.lines(app_id, role_name="alpha", k=1)

    async def test_a_line_is_delivered_as_it_was_written(self, rig: ContractRig) -> None:
        written = ["    indented", "trailing   ", "a\tb", "snow ☃ and \u2028 in it", "x" * 3000]
        app_id = await rig.submit(rig.app(echo(*written)))

        assert [f"{text}\n" for text in written] == await rig.lines(app_id, should_tail=True)

    async def test_a_regex_is_searched_in_the_whole_line(self, rig: ContractRig) -> None:
        app_id = await rig.submit(rig.app(echo("apple pie", "an apple", "banana")))
        await rig.ended(app_id)

        assert ["apple pie"] == texts(await rig.lines(app_id, regex="^apple"))
        assert ["an apple"] == texts(await rig.lines(app_id, regex="apple$"))
        assert ["apple pie", "an apple"] == texts(await rig.lines(app_id, regex="p{2}"))

    async def test_wrong_arguments_raise_at_the_call(self, rig: ContractRig) -> None:
        log_iter = rig.scheduler.log_iter
        with pytest.raises(ValueError, match="at least 0"):
            log_iter(rig.unknown_id, k=-1)
        with pytest.raises(ValueError, match="after until"):
            log_iter(rig.unknown_id, since=datetime.now(UTC), until=timedelta(hours=1))
        with pytest.raises(ConfigError, match="regular expression"):
            log_iter(rig.unknown_id, regex="(")
        with pytest.raises(ValueError, match="nonsense"):
            log_iter(rig.unknown_id, streams=cast("Stream", "nonsense"))

    async def test_streams_are_told_apart_or_refused(self, rig: ContractRig) -> None:
        app_id = await rig.submit(rig.app(echo("out") + "\n" + echo("err", err=True)))
        await rig.ended(app_id)

        assert ["err", "out"] == sorted(texts(await rig.lines(app_id)))
        if not rig.tells_streams:
            with pytest.raises(ValueError, match="stdout"):
                rig.scheduler.log_iter(app_id, streams=Stream.STDOUT)
            return
        assert [("out", Stream.STDOUT)] == [(x.text, x.stream) for x in await rig.lines(app_id, streams=Stream.STDOUT)]
        assert [("err", Stream.STDERR)] == [(x.text, x.stream) for x in await rig.lines(app_id, streams=Stream.STDERR)]

    async def test_the_last_lines_come_first_then_the_new_ones(self, rig: ContractRig) -> None:
        app_id = await rig.submit(rig.app(echo(*HUNDRED), replicas=2))
        await rig.ended(app_id)

        last = await rig.lines(app_id, tail_lines=3)
        assert [HUNDRED[-3:]] * 2 == [[x.text for x in last if x.replica == k] for k in (0, 1)]
        assert [] == await rig.lines(app_id, tail_lines=0)
        assert ["line 99", "line 99"] == texts(await rig.lines(app_id, tail_lines=1, should_tail=True))
        assert [] == await rig.lines(app_id, tail_lines=2, regex="line 5$")

    async def test_since_includes_and_until_excludes(self, rig: ContractRig) -> None:
        if not rig.exact_times:
            pytest.skip("this backend's lines carry no time")
        app_id = await rig.submit(rig.app("\n".join(f"{echo(name)}\nsleep 0.05" for name in ("a", "b", "c"))))
        lines = await rig.lines(app_id, should_tail=True)
        times = {line.text: line.timestamp for line in lines}
        middle = times["b"]
        assert middle is not None

        # A datetime keeps microseconds: a line's own time may be a little later than its datetime. Two lines that were
        # read at once may have the same time.
        from_then_on = [text for text in "abc" if (time := times[text]) is not None and time >= middle]
        assert from_then_on == texts(await rig.lines(app_id, since=middle))
        assert [text for text in "abc" if text not in from_then_on] == texts(await rig.lines(app_id, until=middle))
        assert ["a", "b", "c"] == texts(await rig.lines(app_id, since=timedelta(hours=1), until=timedelta(hours=-1)))
        assert [] == await rig.lines(app_id, until=timedelta(hours=1))

    async def test_a_tail_ends_at_until(self, rig: ContractRig) -> None:
        if not rig.exact_times:
            pytest.skip("this backend's lines carry no time")
        app_id = await rig.submit(rig.app(echo("early") + "\n" + rig.long_sleep))
        await rig.read(rig.scheduler.log_iter(app_id, should_tail=True), 1)

        assert ["early"] == texts(await rig.lines(app_id, should_tail=True, until=timedelta(seconds=-0.5)))
        await rig.scheduler.cancel(app_id)

    async def test_logs_stay_after_cancelling_or_are_told_to_be_gone(self, rig: ContractRig) -> None:
        app_id = await rig.submit(rig.app(echo("kept") + "\n" + rig.long_sleep))
        tail = rig.scheduler.log_iter(app_id, should_tail=True)
        first = await rig.read(tail, 1)
        await rig.scheduler.cancel(app_id)
        await rig.ended(app_id)

        assert ["kept"] == texts([*first, *await rig.read(tail)])
        again = await rig.lines(app_id)
        if rig.keeps_cancelled_logs:
            assert ["kept"] == texts(again)
        else:  # in the middle of its log at the latest: an interrupted log does not look complete
            assert ["gap"] == ["gap" if line.gap is not None else line.text for line in again]

    async def test_restarts_are_followed_and_counted(self, rig: ContractRig) -> None:
        if not rig.restarts:
            pytest.skip("this backend does not start replicas again")
        app_id = await rig.submit(rig.app(echo("try") + "\nexit 1", max_retries=2))
        lines = await rig.lines(app_id, should_tail=True)

        told = [line.attempt for line in lines if line.gap is None]
        assert {"try"} == {line.text for line in lines if line.gap is None}
        assert 2 == (await rig.ended(app_id)).replicas[0].num_restarts
        if not rig.keeps_attempts:
            assert len(told) == len({*told})
            assert len(told) == 3 or len(told) < len(lines)
            return
        assert 3 == len(lines)
        if rig.tells_attempts:
            assert [0, 1, 2] == [number if it is None and rig.misses_attempts else it for number, it in enumerate(told)]
            if 1 in told:
                assert [1] == [line.attempt for line in await rig.lines(app_id, attempts=1)]

    async def test_a_last_line_without_newline_is_whole(self, rig: ContractRig) -> None:
        app_id = await rig.submit(rig.app("printf %s unfinished"))

        assert ["unfinished"] == texts(await rig.lines(app_id, should_tail=True))

    # The eight ways to consume

    async def test_way_1_plain_async_for(self, rig: ContractRig) -> None:
        app_id = await rig.submit(rig.app(echo(*HUNDRED)))
        async with asyncio.timeout(rig.patience):
            lines = [line.text async for line in rig.scheduler.log_iter(app_id, should_tail=True)]

        assert HUNDRED == lines

    async def test_way_2_break_and_let_it_be_collected(self, rig: ContractRig) -> None:
        app_id = await rig.submit(rig.app(echo(*HUNDRED) + "\n" + rig.long_sleep))
        async with asyncio.timeout(rig.patience):
            async for _ in rig.scheduler.log_iter(app_id, should_tail=True):
                break
        gc.collect()

        await _no_log_task(rig, app_id)
        await rig.scheduler.cancel(app_id)

    async def test_way_3_aclosing_and_break(self, rig: ContractRig) -> None:
        app_id = await rig.submit(rig.app(echo(*HUNDRED) + "\n" + rig.long_sleep))
        async with asyncio.timeout(rig.patience), aclosing(rig.scheduler.log_iter(app_id, should_tail=True)) as stream:
            async for _ in stream:
                break

        assert [] == _log_tasks(app_id)
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        await rig.scheduler.cancel(app_id)

    async def test_way_4_a_timeout_for_each_line_loses_none(self, rig: ContractRig) -> None:
        script = "\n".join(f"{echo(text)}\nsleep 0.01" for text in HUNDRED[:30])
        app_id = await rig.submit(rig.app(script))
        stream = rig.scheduler.log_iter(app_id, should_tail=True)
        lines: list[LogLine] = []
        async with asyncio.timeout(rig.patience):
            while True:
                try:
                    lines.append(await asyncio.wait_for(anext(stream), 0.001))
                except TimeoutError:
                    continue
                except StopAsyncIteration:
                    break

        assert HUNDRED[:30] == texts(lines)

    async def test_a_step_that_is_cancelled_a_thousand_times_loses_no_line(self, rig: ContractRig) -> None:
        script = "\n".join(f"{echo(text)}\nsleep 0.05" for text in HUNDRED[:20])
        app_id = await rig.submit(rig.app(script))
        stream = rig.scheduler.log_iter(app_id, should_tail=True)
        lines: list[LogLine] = []
        cancelled = 0
        async with asyncio.timeout(rig.patience):
            while True:
                try:
                    lines.append(await impatient(stream))
                except TimeoutError:
                    cancelled += 1
                except StopAsyncIteration:
                    break

        assert HUNDRED[:20] == texts(lines)
        assert cancelled > 20

    async def test_way_5_steps_from_different_tasks(self, rig: ContractRig) -> None:
        app_id = await rig.submit(rig.app(echo(*HUNDRED)))
        stream = rig.scheduler.log_iter(app_id, should_tail=True)
        lines: list[LogLine] = []
        async with asyncio.timeout(rig.patience):
            for _ in HUNDRED:
                step = anext(stream)
                lines.append(await asyncio.create_task(_awaited(step)))
        await stream.aclose()

        assert HUNDRED == texts(lines)

    async def test_way_6_a_consumer_that_is_cancelled(self, rig: ContractRig) -> None:
        app_id = await rig.submit(rig.app(echo("x") + "\n" + rig.long_sleep))
        started = asyncio.Event()

        async def consume() -> None:
            async with aclosing(rig.scheduler.log_iter(app_id, should_tail=True)) as stream:
                async for _ in stream:
                    started.set()

        task = asyncio.create_task(consume())
        async with asyncio.timeout(rig.patience):
            await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert [] == _log_tasks(app_id)
        await rig.scheduler.cancel(app_id)

    async def test_way_7_inside_an_anyio_timeout(self, rig: ContractRig) -> None:
        app_id = await rig.submit(rig.app(echo("x") + "\n" + rig.long_sleep))
        stream = rig.scheduler.log_iter(app_id, should_tail=True)
        lines: list[LogLine] = []
        with anyio.move_on_after(rig.patience):
            lines.append(await anext(stream))
        with anyio.move_on_after(0.05) as scope:
            try:
                lines += [line async for line in stream]
            finally:
                await stream.aclose()

        assert scope.cancelled_caught
        assert ["x"] == texts(lines)
        assert [] == _log_tasks(app_id)
        await rig.scheduler.cancel(app_id)

    async def test_way_8_inside_an_anyio_task_group(self, rig: ContractRig) -> None:
        first, second = [await rig.submit(rig.app(echo(*HUNDRED))) for _ in range(2)]
        read: dict[str, list[str]] = {first: [], second: []}

        async def consume(app_id: str) -> None:
            async with rig.scheduler.log_iter(app_id, should_tail=True) as stream:
                async for line in stream:
                    read[app_id].append(line.text)

        with anyio.fail_after(rig.patience):
            async with anyio.create_task_group() as group:
                group.start_soon(consume, first)
                group.start_soon(consume, second)

        assert {first: HUNDRED, second: HUNDRED} == read

    async def test_two_steps_at_a_time_are_refused(self, rig: ContractRig) -> None:
        app_id = await rig.submit(rig.app(rig.long_sleep))
        stream = rig.scheduler.log_iter(app_id, should_tail=True)
        waiting = asyncio.create_task(_awaited(anext(stream)))
        await asyncio.sleep(0)

        with pytest.raises(RuntimeError, match="step"):
            await anext(stream)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await stream.aclose()
        await rig.scheduler.cancel(app_id)


async def _awaited(step: Awaitable[LogLine]) -> LogLine:
    return await step


def _log_tasks(app_id: str) -> list[asyncio.Task[object]]:
    return [task for task in asyncio.all_tasks() if task.get_name() == f"logs of {app_id}"]


async def _no_log_task(rig: ContractRig, app_id: str) -> None:
    async with asyncio.timeout(rig.patience):
        while _log_tasks(app_id):
            await asyncio.sleep(0.001)
