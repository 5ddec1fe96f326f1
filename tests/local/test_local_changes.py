"""Each change of an app is one message of its supervisor's, and one look at what it says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from asyncsched.clock import Clock
from asyncsched.schedulers import DescribeAppResponse
from asyncsched.schedulers._common.program import Programs
from asyncsched.schedulers.local import LocalScheduler
from asyncsched.schedulers.local.changes import LocalStateReader
from asyncsched.schedulers.local.client import Supervisors
from asyncsched.schedulers.local.lookup import Apps
from asyncsched.schedulers.local.state_dir import StateDir
from asyncsched.schedulers.local.status_record import parse_event, read_record
from asyncsched.schedulers.local.supervisor.formats import TOLD_REPLICAS
from asyncsched.schedulers.state_reports import StatePort
from asyncsched.specs import AppState
from tests._support import WITHIN, eventually
from tests.local._local import ONE_LOOP, app, app_directory, ended, shell

pytestmark = ONE_LOOP

WAITS = "while ! test -e {}; do sleep 0.02; done"

EXITS_FIRST = f"{WAITS.format('{0}')}; while ! test -e {{0}}.over; do echo; sleep 0.02; done & exit 0"
"""Exits when it may, and is over when it may: until then, what it leaves behind is heard."""

PATIENT = {"detach": True, "grace_period": 600.0}


class Port:
    """Counts what it is told."""

    def __init__(self, *app_ids: str) -> None:
        self.app_ids = app_ids
        self.published: list[tuple[str, AppState | None]] = []
        self.asked: list[str] = []
        self.on_add: Callable[[str], None] | None = None
        self.on_discard: Callable[[str], None] | None = None

    def connected(self) -> None:
        pass

    def changed(self, *app_ids: str) -> None:
        self.asked += app_ids

    def publish(self, app_id: str, response: DescribeAppResponse | None) -> None:
        self.published.append((app_id, None if response is None else response.state))


@pytest.mark.parametrize("detach", [False, True], ids=["ours", "another's"])
async def test_the_feed_asks_no_more_once_it_listens(scheduler: LocalScheduler, tmp_path: Path, detach: bool) -> None:
    roles = [shell(WAITS.format(tmp_path / name), name=name) for name in "abcdef"]
    app_id = await scheduler.submit(app(*roles), {"detach": detach})
    async with scheduler.watch([app_id]) as watch, asyncio.timeout(WITHIN):
        async for event in watch:
            assert event.current is not None
            over = [replica.role for replica in event.current.replicas if replica.state.is_terminal()]
            for name in "abcdef"[: len(over) + 1]:  # each when the one before it is seen to have ended
                (tmp_path / name).touch()
        found = scheduler.watch_statistics()

    assert found is not None
    assert found.calls <= 3 < len(roles) < found.changes  # once at first, once when it listens, and when placed


async def test_each_change_is_one_message_and_is_published(
    scheduler: LocalScheduler, home: Path, tmp_path: Path
) -> None:
    names = ("one", "two")
    roles = [shell(EXITS_FIRST.format(tmp_path / name), name=name) for name in names]
    app_id = await scheduler.submit(app(*roles), PATIENT)
    place = StateDir([home])
    supervisors = Supervisors(place, Programs("local_cwd", clock=Clock()), Clock())
    messages: list[bytes] = []
    supervisors.listen(lambda _, message: messages.append(message), lambda _: None)
    port = Port(app_id)
    reading = asyncio.create_task(
        LocalStateReader(cast("StatePort", port), Apps(place, supervisors), supervisors, Clock()).run()
    )
    try:
        await eventually(lambda: port.asked == [app_id])  # what it may have missed before it listened
        for number, change in enumerate(("one", "one.over", "two", "two.over")):
            (tmp_path / change).touch()
            await eventually(lambda number=number: len(port.published) > number)  # type: ignore[misc]
    finally:
        reading.cancel()
        await asyncio.wait([reading])
        await supervisors.close(10.0)
        place.close()

    # Each of the two has exited, and then been over.
    assert [(app_id, AppState.RUNNING)] * 3 + [(app_id, AppState.SUCCEEDED)] == port.published
    assert 4 == len(messages)


class Watching(Port):
    """Watches an app no more once it has ended, as the feed does."""

    def publish(self, app_id: str, response: DescribeAppResponse | None) -> None:
        super().publish(app_id, response)
        if response is not None and response.state.is_terminal():
            assert self.on_discard is not None
            self.app_ids = ()
            self.on_discard(app_id)


async def test_a_change_is_one_message_and_one_answer_to_compare(
    scheduler: LocalScheduler, home: Path, tmp_path: Path
) -> None:
    app_id = await scheduler.submit(app(shell(EXITS_FIRST.format(tmp_path / "go"))), PATIENT)
    place = StateDir([home])
    supervisors = Supervisors(place, Programs("local_cwd", clock=Clock()), Clock())
    messages: list[bytes] = []
    supervisors.listen(lambda _, message: messages.append(message), lambda _: None)
    port = Watching(app_id)
    reading = asyncio.create_task(
        LocalStateReader(cast("StatePort", port), Apps(place, supervisors), supervisors, Clock()).run()
    )
    try:
        await eventually(lambda: port.asked == [app_id])
        (tmp_path / "go").touch()
        await eventually(lambda: port.published)
        (tmp_path / "go.over").touch()
        await eventually(lambda: port.published and port.published[-1] == (app_id, AppState.SUCCEEDED))
    finally:
        reading.cancel()
        await asyncio.wait([reading])
        await supervisors.close(10.0)
        place.close()

    # It has exited, and then been over. The feed makes a fingerprint of all that is published, or answered when asked.
    assert [(app_id, AppState.RUNNING), (app_id, AppState.SUCCEEDED)] == port.published
    assert (2, [app_id]) == (len(messages), port.asked)


async def test_an_app_of_many_replicas_is_asked_for(scheduler: LocalScheduler) -> None:
    app_id = await scheduler.submit(app(shell("true", num_replicas=TOLD_REPLICAS + 1)))

    assert AppState.SUCCEEDED is (await ended(scheduler, app_id)).state


async def test_the_newer_word_counts_in_whatever_order_both_are_read(scheduler: LocalScheduler, home: Path) -> None:
    app_id = await scheduler.submit(app(shell("true")))
    await ended(scheduler, app_id)
    newer = read_record(app_id, (app_directory(home, app_id) / "state.json").read_bytes())
    older = read_record(app_id, (app_directory(home, app_id) / "state.json").read_bytes().replace(
        f'"revision":{newer.revision}'.encode(), b'"revision":0'
    ))  # fmt: skip
    place = StateDir([home])
    apps = Apps(place, Supervisors(place, Programs("local_cwd", clock=Clock()), Clock()))

    assert older is apps.newest(older)  # nobody watches it
    apps.watch(app_id)
    assert newer is apps.newest(newer)
    assert newer is apps.newest(older)
    apps.unwatch(app_id)
    assert older is apps.newest(older)
    place.close()


@pytest.mark.parametrize("message", [b'{"event":"app","app_id":"x"}', b'{"app":{"format":"9.0"}}', b'{"app":1}'])
def test_an_event_without_a_record_that_can_be_read_is_one_to_ask_about(message: bytes) -> None:
    assert parse_event("x", message) is None
