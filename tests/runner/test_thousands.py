"""Ten thousand handles at a time: the guard looks at every step, at those of the calls too."""

from __future__ import annotations

import asyncio

import pytest

from asyncsched.errors import MalformedHandleError
from asyncsched.specs import AppHandle, AppState
from tests.runner.rig import Rig, app

pytestmark = pytest.mark.slow
MANY = 10_000


@pytest.fixture
async def handles(rig: Rig) -> list[AppHandle]:
    """Ten thousand apps that have ended."""
    launched = []
    for number in range(MANY):
        handle = AppHandle(f"push://me/job-{number}")
        launched.append(handle)
        rig.push.launch(handle.app_id, app(), "me", "")
        rig.push.start(handle.app_id)
        rig.push.exit(handle.app_id)
        if not number % 20:
            await asyncio.sleep(0)
    return launched


async def test_wait_all(rig: Rig, handles: list[AppHandle]) -> None:
    ended = await rig.runner.wait_all(handles)
    await asyncio.sleep(0)

    assert len(handles) == len(ended)


async def test_as_completed(rig: Rig, handles: list[AppHandle]) -> None:
    await asyncio.sleep(0)
    stream = rig.runner.as_completed(handles)
    await asyncio.sleep(0)

    assert len(handles) == len({handle async for handle, _ in stream})


async def test_list(rig: Rig, handles: list[AppHandle]) -> None:
    rows = await rig.runner.list("push")
    await asyncio.sleep(0)

    assert len(handles) == len(rows)


async def test_a_watch_to_which_they_are_added_and_of_which_they_are_discarded(
    rig: Rig, handles: list[AppHandle]
) -> None:
    running = await rig.run("push")
    events = rig.runner.watch([running], follow=True)
    await anext(events)
    step = asyncio.create_task(anext(events))
    await asyncio.sleep(0)
    events.add(*handles)
    await asyncio.sleep(0)
    events.discard(*handles)
    await asyncio.sleep(0)
    rig.exit(running)
    while (event := await step).handle != running:  # of some it was told before they were discarded
        step = asyncio.create_task(anext(events))

    assert event.is_terminal()
    assert 0 == events.watched
    await events.aclose()


async def test_logs_of_a_thousand(rig: Rig, handles: list[AppHandle]) -> None:
    some = handles[:1000]
    for handle in some:
        rig.say(handle, "a line")
    await asyncio.sleep(0)
    for tail in (False, True):
        stream = rig.runner.log_lines(some, should_tail=tail)
        await asyncio.sleep(0)

        assert {handle.app_id for handle in some} == {line.app_id async for line in stream}
        await asyncio.sleep(0)


async def test_one_that_is_no_handle_is_refused_at_the_call(rig: Rig, handles: list[AppHandle]) -> None:
    events = rig.runner.watch(handles[:1], follow=True)
    await asyncio.sleep(0)
    for call in (rig.runner.watch, rig.runner.as_completed, rig.runner.log_lines):
        with pytest.raises(MalformedHandleError, match="nonsense"):
            call([*handles, "nonsense"])
        await asyncio.sleep(0)
    with pytest.raises(MalformedHandleError, match="nonsense"):
        events.add(*handles, "nonsense")

    assert 1 == events.watched
    assert [AppState.SUCCEEDED] == [(await anext(events)).state]
    await events.aclose()
