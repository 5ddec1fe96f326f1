"""What the fake can be made to do, and that nothing is lost, repeated or left by it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator
from datetime import timedelta

import pytest

from asyncsched.errors import AuthError, ClosedError, LogStreamError, UnavailableError, UnknownAppError
from asyncsched.logs import LogLine, LogStream
from asyncsched.specs import AppDef, AppState, FailureCause, Role, Stream, show_secrets
from asyncsched.testing import FakeScheduler, FakeService, VirtualClock
from asyncsched.testing.fake import Mode
from tests._support import WITHIN, eventually

MODES: list[Mode] = ["push", "polled", "hub"]


@pytest.fixture
async def service(clock: VirtualClock) -> AsyncGenerator[FakeService]:
    service = FakeService(clock, start_delay=None)
    yield service
    service.close()


@pytest.fixture(params=MODES)
async def scheduler(service: FakeService, request: pytest.FixtureRequest) -> AsyncGenerator[FakeScheduler]:
    scheduler = FakeScheduler("mine", service, mode=request.param)
    yield scheduler
    await scheduler.close()


@pytest.fixture
async def app_id(scheduler: FakeScheduler) -> str:
    return await scheduler.submit(AppDef("job", [Role("main", "i", entrypoint="sh", num_replicas=2)]))


async def take(stream: LogStream, count: int) -> list[str]:
    async with asyncio.timeout(WITHIN):
        return [(await anext(stream)).text for _ in range(count)]


async def rest(stream: LogStream) -> list[LogLine]:
    async with asyncio.timeout(WITHIN):
        return [line async for line in stream]


async def test_lines_come_as_they_are_written(scheduler: FakeScheduler, service: FakeService, app_id: str) -> None:
    service.start(app_id)
    stream = scheduler.log_iter(app_id, k=0, should_tail=True)
    for number in range(20):
        service.say(app_id, f"line {number}\n")
        assert [f"line {number}"] == await take(stream, 1)
    service.exit(app_id)
    assert [] == await rest(stream)


async def test_half_lines_wait_for_their_other_half(
    scheduler: FakeScheduler, service: FakeService, app_id: str
) -> None:
    service.start(app_id)
    stream = scheduler.log_iter(app_id, k=0, should_tail=True)
    service.say(app_id, "he")
    service.say(app_id, "error\n", err=True)
    service.say(app_id, "llo\nwor")
    assert ["error", "hello"] == await take(stream, 2)
    service.exit(app_id)
    assert ["wor"] == [line.text for line in await rest(stream)]


async def test_every_line_once_over_connections_that_break(
    scheduler: FakeScheduler, service: FakeService, app_id: str
) -> None:
    service.start(app_id)
    stream = scheduler.log_iter(app_id, should_tail=True)
    reading = asyncio.create_task(rest(stream))
    for number in range(200):
        service.say(app_id, f"{number}\n", err=number % 3 == 0)
        if number % 7 == 0:
            service.cut()
        await asyncio.sleep(0)
    service.exit(app_id)
    lines = await reading

    expected = [str(number) for number in range(200)]
    for k in (0, 1):
        assert sorted(expected) == sorted(line.text for line in lines if line.replica == k)
        for stream_name in (Stream.STDOUT, Stream.STDERR):
            numbers = [int(line.text) for line in lines if line.replica == k and line.stream is stream_name]
            assert sorted(numbers) == numbers


async def test_replicas_that_start_late_or_again_are_followed(scheduler: FakeScheduler, service: FakeService) -> None:
    role = Role("main", "i", entrypoint="sh", num_replicas=2, max_retries=1)
    app_id = await scheduler.submit(AppDef("job", [role]))
    stream = scheduler.log_iter(app_id, should_tail=True)
    service.start(app_id, k=0)
    service.say(app_id, "first\n", k=0)
    assert ["first"] == await take(stream, 1)
    service.start(app_id, k=1)
    service.say(app_id, "second\n", k=1)
    assert ["second"] == await take(stream, 1)
    service.exit(app_id, 1, k=0)
    await eventually(lambda: service.apps[app_id].replicas["main", 0].state is AppState.RUNNING)
    service.say(app_id, "again\n", k=0)
    async with asyncio.timeout(WITHIN):
        again = await anext(stream)
    assert ("again", 0, 1) == (again.text, again.replica, again.attempt)
    service.add_replica(app_id, "main", 2)
    service.say(app_id, "third\n", k=2)
    assert ["third"] == await take(stream, 1)
    service.exit(app_id)
    assert [] == await rest(stream)


async def test_an_app_that_dies_before_it_starts_ends_its_tail(
    scheduler: FakeScheduler, service: FakeService, app_id: str
) -> None:
    reading = asyncio.create_task(rest(scheduler.log_iter(app_id, should_tail=True)))
    await asyncio.sleep(0)
    await scheduler.cancel(app_id)

    assert [] == await reading


async def test_what_was_purged_is_a_gap_in_its_place(service: FakeService) -> None:
    scheduler = FakeScheduler("mine", service, mode="push")
    app_id = await scheduler.submit(AppDef("job", [Role("main", "i", entrypoint="sh")]))
    service.start(app_id)
    stream = scheduler.log_iter(app_id, should_tail=True)
    service.say(app_id, "one\ntwo\n")
    assert ["one", "two"] == await take(stream, 2)
    service.fail("logs", UnavailableError("not now"))
    service.cut()
    service.say(app_id, "three\nfour\nfive\n")
    service.purge(app_id, keep=1)
    async with asyncio.timeout(WITHIN):
        gap, five = await anext(stream), await anext(stream)

    assert "" == gap
    assert gap.gap is not None
    assert "five" == five.text
    assert 1 == stream.statistics().gaps
    service.exit(app_id)
    assert [] == await rest(stream)
    await scheduler.close()


async def test_a_gap_is_an_error_for_those_who_ask(service: FakeService) -> None:
    scheduler = FakeScheduler("mine", service, mode="push")
    app_id = await scheduler.submit(AppDef("job", [Role("main", "i", entrypoint="sh")]))
    service.start(app_id)
    stream = scheduler.log_iter(app_id, should_tail=True, gaps="raise")
    service.say(app_id, "one\n")
    assert ["one"] == await take(stream, 1)
    service.fail("logs", UnavailableError("not now"))
    service.cut()
    service.say(app_id, "two\nthree\n")
    service.purge(app_id, keep=1)
    service.exit(app_id)

    with pytest.raises(LogStreamError, match="incomplete"):
        await rest(stream)
    await scheduler.close()


async def test_one_replica_that_cannot_be_read_does_not_end_the_others(service: FakeService) -> None:
    scheduler = FakeScheduler("mine", service, mode="push")
    app_id = await scheduler.submit(AppDef("job", [Role("main", "i", entrypoint="sh", num_replicas=3)]))
    service.start(app_id)
    service.say(app_id, "x\n")
    service.exit(app_id)
    service.fail("logs", AuthError("not yours"))
    lines: list[LogLine] = []
    with pytest.raises(LogStreamError) as caught:
        async for line in scheduler.log_iter(app_id):
            lines.append(line)  # noqa: PERF401 - what came before the error counts

    assert 2 == len(lines)
    (failure,) = caught.value.failures
    assert {0, 1, 2} == {failure.replica} | {line.replica for line in lines}
    assert "not yours" == str(failure.cause)
    await scheduler.close()


async def test_a_stalled_consumer_gets_everything_and_holds_up_nobody(
    scheduler: FakeScheduler, service: FakeService, app_id: str
) -> None:
    service.start(app_id)
    stalled = scheduler.log_iter(app_id, should_tail=True)
    service.say(app_id, "begin\n")
    await take(stalled, 2)
    lively = asyncio.create_task(rest(scheduler.log_iter(app_id, should_tail=True)))
    for number in range(1000):
        service.say(app_id, f"{number}\n")
        if number % 20 == 0:
            await asyncio.sleep(0)
    service.exit(app_id)
    assert 2 * 1001 == len(await lively)

    late = await rest(stalled)
    for k in (0, 1):
        assert [str(number) for number in range(1000)] == [line.text for line in late if line.replica == k]


async def test_lines_that_can_be_found_late_are_not_missed(clock: VirtualClock) -> None:
    service = FakeService(clock, start_delay=None, log_delay=3.0)
    scheduler = FakeScheduler("mine", service, mode="hub")
    app_id = await scheduler.submit(AppDef("job", [Role("main", "i", entrypoint="sh")]))
    service.start(app_id)
    reading = asyncio.create_task(rest(scheduler.log_iter(app_id, should_tail=True)))
    for number in range(50):
        service.say(app_id, f"{number}\n")
        await clock.sleep(0.3)
    service.exit(app_id)

    assert [str(number) for number in range(50)] == [line.text for line in await reading]
    await scheduler.close()
    service.close()


async def test_closing_the_scheduler_is_no_end_of_the_log(
    scheduler: FakeScheduler, service: FakeService, app_id: str
) -> None:
    service.start(app_id)
    service.say(app_id, "x\n")
    stream = scheduler.log_iter(app_id, k=0, should_tail=True)
    assert ["x"] == await take(stream, 1)
    reading = asyncio.create_task(rest(stream))
    await asyncio.sleep(0)
    await scheduler.close()

    with pytest.raises(ClosedError):
        await reading


async def test_a_service_that_does_not_answer_is_unavailable(
    scheduler: FakeScheduler, service: FakeService, app_id: str
) -> None:
    service.slow("describe", 100.0)
    with pytest.raises(UnavailableError, match=r"describe took more than 60 s"):
        await scheduler.describe(app_id)
    scheduler.retry_for = 5.0
    with pytest.raises(UnavailableError, match=r"5 s"):
        await scheduler.describe_many([app_id])


@pytest.mark.parametrize("operation", ["submit", "commit"])
async def test_a_submit_that_is_cut_off_leaves_nothing(
    scheduler: FakeScheduler, service: FakeService, operation: str
) -> None:
    service.fail(operation, UnavailableError("the line went dead"))
    with pytest.raises(UnavailableError, match="dead"):
        await scheduler.submit(AppDef("job", [Role("main", "i", entrypoint="sh")]))

    assert {} == service.apps


async def test_what_could_not_be_removed_is_named(
    scheduler: FakeScheduler, service: FakeService, caplog: pytest.LogCaptureFixture
) -> None:
    service.fail("commit", UnavailableError("the line went dead"))
    service.fail("remove", UnavailableError("and stayed dead"))
    with pytest.raises(UnavailableError) as caught:
        await scheduler.submit(AppDef("job", [Role("main", "i", entrypoint="sh")]))

    (app_id,) = service.apps
    for text in (caught.value.__notes__[0], caplog.messages[-1]):
        assert app_id in text
        assert "and stayed dead" in text


async def test_a_cancelled_submit_that_cannot_be_removed_in_time_says_so(
    scheduler: FakeScheduler, service: FakeService
) -> None:
    scheduler.cleanup_timeout = 0.01
    service.slow("commit", math.inf)
    service.slow("remove", math.inf)
    submitting = asyncio.create_task(scheduler.submit(AppDef("job", [Role("main", "i", entrypoint="sh")])))
    await eventually(lambda: service.calls["commit"])
    submitting.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await submitting

    assert next(iter(service.apps)) in caught.value.__notes__[0]


async def test_a_tail_ends_at_until(
    scheduler: FakeScheduler, service: FakeService, app_id: str, clock: VirtualClock
) -> None:
    service.start(app_id)
    service.say(app_id, "early\n")
    reading = asyncio.create_task(rest(scheduler.log_iter(app_id, should_tail=True, until=timedelta(seconds=-5))))
    await clock.sleep(6)
    service.say(app_id, "late\n")

    assert ["early", "early"] == [line.text for line in await reading]


async def test_a_tail_whose_until_comes_before_the_service_answers_has_the_lines_before_it(
    scheduler: FakeScheduler, service: FakeService, app_id: str
) -> None:
    service.start(app_id)
    service.say(app_id, "early\n")
    service.slow("describe", 5.0)

    assert ["early", "early"] == [
        line.text for line in await rest(scheduler.log_iter(app_id, should_tail=True, until=timedelta(seconds=-1)))
    ]
    with pytest.raises(UnknownAppError):
        await rest(scheduler.log_iter("nosuchapp-x1", should_tail=True, until=timedelta(seconds=-1)))


async def test_a_list_that_does_not_answer_is_unavailable(scheduler: FakeScheduler, service: FakeService) -> None:
    for _ in range(15):
        await scheduler.submit(AppDef("job", [Role("main", "i", entrypoint="sh")]))
    rows = scheduler.list_iter()
    assert [True] * 10 == [bool(await anext(rows)) for _ in range(10)]  # the first page
    service.slow("list", 100.0)

    with pytest.raises(UnavailableError, match="list took more than"):
        await anext(rows)
    with pytest.raises(UnavailableError, match="list took more than"):
        await scheduler.list()


UNKNOWN = ["true", "sleep long", "exit one", "echo 'a"]


@pytest.mark.parametrize("line", UNKNOWN)
async def test_a_script_that_the_fake_does_not_run_fails_and_says_so(
    scheduler: FakeScheduler, service: FakeService, line: str
) -> None:
    app_id = await scheduler.submit(AppDef("job", [Role("main", "i", entrypoint="sh", args=["-c", f"echo a\n{line}"])]))
    service.start(app_id)
    lines = await rest(scheduler.log_iter(app_id, should_tail=True))
    found = await scheduler.describe(app_id)

    assert found is not None
    assert ["a"] == [each.text for each in lines]
    assert (AppState.FAILED, FailureCause.CONFIG) == (found.state, found.replicas[0].cause)
    assert f"the fake scheduler cannot run {line!r}: it supports echo, printf %s, sleep" in found.replicas[0].reason
    assert "cannot run" in found.msg


async def test_what_the_fake_does_not_run_is_told_without_its_secrets(
    scheduler: FakeScheduler, service: FakeService
) -> None:
    script = "export DB_PASSWORD=marker; true"
    app_id = await scheduler.submit(AppDef("job", [Role("main", "i", entrypoint="sh", args=["-c", script])]))
    service.start(app_id)
    found = await scheduler.describe(app_id)

    assert found is not None
    assert "cannot run 'export DB_PASSWORD=***; true'" in found.msg
    with show_secrets():
        assert "marker" not in f"{found!r} {found.msg}"


async def test_a_shell_without_a_script_ends(scheduler: FakeScheduler, service: FakeService) -> None:
    app_id = await scheduler.submit(AppDef("job", [Role("main", "i", entrypoint="sh", args=["-c"])]))
    service.start(app_id)
    found = await scheduler.describe(app_id)

    assert found is not None
    assert (AppState.FAILED, 2) == (found.state, found.replicas[0].exit_code)
