"""Schedulers that are made of objects with plain methods."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import AsyncGenerator, Iterator
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest

from asyncsched import AppDef, Role, Runner, Secret
from asyncsched.errors import (
    AsyncSchedError,
    ConfigError,
    InvalidRequestError,
    PermissionDeniedError,
    SchedulerError,
    UnavailableError,
)
from asyncsched.schedulers import from_blocking, get_scheduler, registry
from asyncsched.specs import AppDryRunInfo, AppState
from tests._support import eventually
from tests.schedulers._plain import PlainScheduler, Stuck


def app(script: str = "echo hello", **more: Any) -> AppDef:
    return AppDef("job", [Role("r", "", entrypoint="sh", args=["-c", script], **more)])


@pytest.fixture
def plain() -> Iterator[PlainScheduler]:
    made = PlainScheduler()
    yield made
    made.end()


@pytest.fixture
async def stuck() -> AsyncGenerator[Stuck]:
    made = Stuck()
    yield made
    made.go.set()


async def entered(obj: Stuck) -> None:
    """Wait until the object is in one more of its calls."""
    await eventually(lambda: obj.entered.acquire(blocking=False))


async def test_the_id_is_told_by_schedule_and_the_dry_run_says_so(plain: PlainScheduler) -> None:
    async with from_blocking(plain) as scheduler:
        info = await scheduler.submit_dryrun(app())
        assert {"app_id"} == {each.field for each in info.ignored}
        assert "schedule returns that id" in repr(info)
        first, again = await scheduler.schedule(info), await scheduler.schedule(info)

        assert "job-1" == first == again
        assert info.app_id != first
        found, by_provisional = await scheduler.describe(first), await scheduler.describe(info.app_id)
        assert found is not None
        assert by_provisional is not None
        assert "job-1" == found.app_id == by_provisional.app_id
    assert 1 == plain.closed


async def test_an_edited_request_and_one_from_another_process_are_what_is_scheduled(plain: PlainScheduler) -> None:
    async with from_blocking(plain) as scheduler:
        info = await scheduler.submit_dryrun(app())
        info.request.roles[0].args = ["-c", "echo edited"]
        edited = await scheduler.schedule(info)
        copied = pickle.loads(pickle.dumps(await scheduler.submit_dryrun(app("echo copied"))))
        async with from_blocking(plain) as other:
            ids = [edited, await other.schedule(copied), await other.schedule(AppDryRunInfo(app("echo by hand")))]
            lines = [[line.text async for line in scheduler.log_iter(each, should_tail=True)] for each in ids]

    assert [["edited"], ["copied"], ["by hand"]] == lines


async def test_a_runner_gives_the_handle_of_what_was_scheduled(
    plain: PlainScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[PlainScheduler] = []

    def create(session_name: str, **_: object) -> PlainScheduler:
        made.append(plain)
        return plain

    monkeypatch.setattr("tests.schedulers._plain.create_scheduler", create, raising=False)
    entry = EntryPoint("old", "tests.schedulers._plain:create_scheduler", registry.GROUP)
    monkeypatch.setattr(registry, "entry_points_of", lambda group: EntryPoints([entry] if group == entry.group else []))
    async with Runner("me") as runner:
        handle = await runner.run(app(), "old")
        status = await runner.wait(handle)

    assert "old://me/job-1" == handle
    assert status is not None
    assert AppState.SUCCEEDED is status.state
    assert [plain] == made


async def test_a_thousand_calls_at_once_keep_to_the_limit(stuck: Stuck) -> None:
    async with from_blocking(stuck, max_calls=7) as scheduler:
        found = await asyncio.gather(*(scheduler.describe(f"a-{number}") for number in range(1000)))

    assert 1000 == stuck.calls == len([each for each in found if each is not None])
    assert stuck.most <= 7


async def test_readers_that_wait_keep_no_call_waiting(stuck: Stuck) -> None:
    async with from_blocking(stuck, max_calls=1, max_readers=1) as scheduler, scheduler.log_iter("a-1") as lines:
        assert "first\n" == await anext(lines)
        await entered(stuck)
        assert await scheduler.exists("a-1")
        stuck.go.set()
        assert ["second"] == [line.text async for line in lines]


async def test_a_reader_that_is_closed_does_not_wait_for_its_thread(
    stuck: Stuck, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = from_blocking(stuck, cleanup_timeout=0.1)
    lines = scheduler.log_iter("a-1", should_tail=True)
    assert "first\n" == await anext(lines)
    step = asyncio.ensure_future(anext(lines))
    await entered(stuck)
    await entered(stuck)  # the other one is describe
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step
    await lines.aclose()
    await scheduler.close()

    assert not stuck.go.is_set()
    assert any("1 of its calls had not returned" in message for message in caplog.messages)


async def test_a_cancelled_submit_ends_its_app_when_its_id_is_told(stuck: Stuck) -> None:
    async with from_blocking(stuck) as scheduler:
        submit = asyncio.create_task(scheduler.submit(app()))
        await entered(stuck)
        submit.cancel()
        asyncio.get_running_loop().call_soon(stuck.go.set)
        with pytest.raises(asyncio.CancelledError):
            await submit

    assert ["theirs-1"] == stuck.ended


async def test_a_submit_whose_call_hangs_is_ended_by_its_thread_later(
    stuck: Stuck, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = from_blocking(stuck, cleanup_timeout=0.1)
    submit = asyncio.create_task(scheduler.submit(app()))
    await entered(stuck)
    submit.cancel()
    with pytest.raises(asyncio.CancelledError):
        await submit
    assert any("may be left behind" in message for message in caplog.messages)
    assert not stuck.ended
    stuck.go.set()
    await eventually(lambda: bool(stuck.ended))
    await scheduler.close()

    assert ["theirs-1"] == stuck.ended


async def test_a_submit_that_is_cancelled_before_its_turn_calls_nothing(stuck: Stuck) -> None:
    stuck.waits.add("describe")
    async with from_blocking(stuck, max_calls=1) as scheduler:
        info = await scheduler.submit_dryrun(app())
        describe = asyncio.create_task(scheduler.describe("a-1"))
        await entered(stuck)
        submit = asyncio.create_task(scheduler.schedule(info))
        await asyncio.sleep(0)
        submit.cancel()
        with pytest.raises(asyncio.CancelledError):
            await submit
        stuck.go.set()
        await describe

    assert 1 == stuck.calls
    assert not stuck.ended


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (KeyError("nothing"), SchedulerError),
        (PermissionError("no"), PermissionDeniedError),
        (ConnectionResetError("gone"), UnavailableError),
        (NotImplementedError("later"), InvalidRequestError),
        (StopIteration("odd"), SchedulerError),
        (SystemExit(3), SchedulerError),
    ],
)
async def test_what_an_object_raises_is_ours(
    stuck: Stuck, raised: BaseException, expected: type[AsyncSchedError], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise raised

    for name in ("schedule", "describe", "log_iter"):
        monkeypatch.setattr(stuck, name, fail)
    async with from_blocking(stuck) as scheduler:
        for operation in (scheduler.submit(app()), scheduler.describe("a-1")):
            with pytest.raises(expected, match=type(raised).__name__) as caught:
                await operation
            assert type(caught.value) is expected
            assert caught.value.__cause__ is raised


async def test_a_log_that_breaks_is_told_behind_the_lines_that_came(stuck: Stuck) -> None:
    def broken(*_: object, **__: object) -> Iterator[str]:
        yield "one\ntwo\n"
        raise OSError("the disk")

    stuck.log_iter = broken  # type: ignore[method-assign]
    async with from_blocking(stuck) as scheduler:
        stream = scheduler.log_iter("a-1")
        assert ["one\n", "two\n"] == [await anext(stream), await anext(stream)]
        with pytest.raises(SchedulerError, match="OSError: the disk"):
            await anext(stream)


async def test_a_secret_is_sent_and_told_by_no_error(plain: PlainScheduler) -> None:
    async with from_blocking(plain) as scheduler:
        secret = app("echo $TOKEN", env={"TOKEN": Secret("s3cr3t-value")})
        assert "s3cr3t-value" not in repr(await scheduler.submit_dryrun(secret))
        app_id = await scheduler.submit(secret)
        assert ["s3cr3t-value"] == [line.text async for line in scheduler.log_iter(app_id, should_tail=True)]

        def refuse(info: AppDryRunInfo[AppDef]) -> str:
            raise RuntimeError(f"cannot send {info.request.roles[0].env}")

        plain.schedule = refuse  # type: ignore[method-assign]
        with pytest.raises(SchedulerError, match=r"cannot send .*\*\*\*") as caught:
            await scheduler.submit(secret)
    assert "s3cr3t-value" not in str(caught.value)
    assert caught.value.__cause__ is None


async def test_a_reader_takes_no_more_than_there_is_room_for(stuck: Stuck) -> None:
    taken = 0
    ended = threading.Event()

    def flood(*_: object, **__: object) -> Iterator[str]:
        nonlocal taken
        try:
            for number in range(50_000):
                taken += 1
                yield f"{number}\n"
        finally:
            ended.set()

    stuck.log_iter = flood  # type: ignore[method-assign]
    async with from_blocking(stuck) as scheduler:
        async with scheduler.log_iter("a-1") as lines:
            assert "0\n" == await anext(lines)
        await eventually(ended.is_set)
        assert taken < 50_000
        assert [str(number) for number in range(50_000)] == [line.text async for line in scheduler.log_iter("a-1")]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (object(), "it has no method submit_dryrun or _submit_dryrun"),
        (PlainScheduler, "it is a class; pass an instance"),
    ],
)
def test_what_cannot_be_made_a_scheduler_is_refused(given: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        from_blocking(given)


def test_an_object_with_coroutines_and_wrong_limits_are_refused(plain: PlainScheduler) -> None:
    class Awaits(PlainScheduler):
        async def describe(self, app_id: str) -> None:  # type: ignore[override]
            return None

    with pytest.raises(ConfigError, match="describe is a coroutine"):
        from_blocking(Awaits())
    with pytest.raises(ConfigError, match="max_calls must be at least 1, got 0"):
        from_blocking(plain, max_calls=0)
    with pytest.raises(ConfigError, match="it is a scheduler already"):
        from_blocking(from_blocking(plain))


async def test_what_an_object_does_not_offer_is_said(stuck: Stuck) -> None:
    async with from_blocking(stuck) as scheduler:
        with pytest.raises(ConfigError, match="does not support key"):
            await scheduler.submit(app(), key="order-42")
        with pytest.raises(InvalidRequestError, match="has no method list"):
            await scheduler.list()
        with pytest.raises(InvalidRequestError, match="has no method delete"):
            await scheduler.delete("a-1")


def test_a_plugin_of_neither_kind_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("odd", "tests.schedulers.test_blocking:neither", registry.GROUP)
    monkeypatch.setattr(registry, "entry_points_of", lambda group: EntryPoints([entry]))

    with pytest.raises(ConfigError, match=r"the plugin odd returned no scheduler.*it has no method"):
        get_scheduler("odd", "mine")


def neither(session_name: str) -> object:
    return object()


async def test_the_last_lines_of_a_tail_are_told_from_those_to_come(stuck: Stuck) -> None:
    def lines(*_: object, should_tail: bool = False, **__: object) -> Iterator[str]:
        return iter(["a\n", "b\n", "c\n", *(["d\n", "e\n"] if should_tail else [])])

    stuck.log_iter = lines  # type: ignore[method-assign]
    async with from_blocking(stuck) as scheduler:
        assert ["c"] == [line.text async for line in scheduler.log_iter("a-1", tail_lines=1)]
        tail = scheduler.log_iter("a-1", should_tail=True, tail_lines=1)
        assert ["c", "d", "e"] == [(await anext(tail)).text for _ in range(3)]
        await tail.aclose()


async def test_what_is_described_cannot_be_submitted_again_and_says_why(plain: PlainScheduler) -> None:
    async with from_blocking(plain) as scheduler:
        found = await scheduler.describe(await scheduler.submit(app()))
        assert found is not None
        with pytest.raises(ConfigError, match=r"role 'r'.*reads only its name, image and number of replicas"):
            await scheduler.submit(AppDef("again", found.roles))
