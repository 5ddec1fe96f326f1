"""What a scheduler answers."""

from __future__ import annotations

import copy
import pickle
from collections.abc import AsyncIterator, Sequence

import pytest

from asyncsched.clock import Clock
from asyncsched.schedulers import DescribeAppResponse, ListAppResponse, StateStream
from asyncsched.schedulers.feed import StateFeed
from asyncsched.schedulers.responses import own_copy
from asyncsched.schedulers.state_reports import Answers
from asyncsched.specs import AppState, ReplicaStatus, Role, RoleStatus


def test_a_description_prints_without_secrets() -> None:
    roles = [Role("main", "i", env={"API_TOKEN": "marker"})]
    app = DescribeAppResponse("a", AppState.RUNNING, roles=roles, metadata={"API_KEY": "marker", "team": "blue"})

    assert "marker" not in repr(app)
    assert repr(app).startswith("DescribeAppResponse(app_id='a', state=RUNNING (3), ")
    assert "'team': 'blue'" in repr(app)


def test_what_a_backend_has_read_stays_with_it() -> None:
    app = DescribeAppResponse("a", AppState.RUNNING, native=["marker"])

    assert app == DescribeAppResponse("a", AppState.RUNNING)
    assert "marker" not in repr(app)
    for copied in (pickle.loads(pickle.dumps(app)), copy.copy(app), copy.deepcopy(app)):
        assert app == copied
        assert copied.native is None


async def test_a_watch_drops_what_a_backend_has_read() -> None:
    async def sweep(app_ids: Sequence[str]) -> AsyncIterator[Answers]:
        yield {app_id: DescribeAppResponse(app_id, AppState.SUCCEEDED, native="marker") for app_id in app_ids}

    feed = StateFeed("test", sweep, clock=Clock())
    (event,) = [event async for event in feed.stream(["a"], follow=False)]
    await feed.close()

    assert event.current is not None
    assert event.current.native is None


def whole() -> DescribeAppResponse:
    return DescribeAppResponse(
        "a",
        AppState.RUNNING,
        msg="",
        roles_statuses=[RoleStatus("main", [ReplicaStatus(0, AppState.RUNNING, "main", "host")])],
        roles=[Role("main", "i", env={"A": "1"})],
        metadata={"team": "blue"},
    )


def spoil(response: DescribeAppResponse) -> None:
    """Change whatever can be changed."""
    response.msg = "changed"
    response.roles_statuses[0].replicas[0].state = AppState.FAILED
    response.roles_statuses[0].replicas.clear()
    response.roles_statuses.clear()
    response.roles[0].env["A"] = "2"
    response.roles.clear()
    response.metadata.clear()


def test_a_copy_shares_nothing_that_can_change() -> None:
    before = whole()
    after = own_copy(before)
    assert before == after

    spoil(after)
    assert whole() == before


async def test_what_one_watch_does_with_an_answer_no_other_sees() -> None:
    async def sweep(app_ids: Sequence[str]) -> AsyncIterator[Answers]:
        yield {"a": whole()}

    feed = StateFeed("test", sweep, clock=Clock())
    first, second = (feed.stream(["a"], follow=True) for _ in range(2))
    spoil(await current(first))
    assert whole() == await current(second)
    late = feed.stream(["a"], follow=True)  # it is told what the feed has kept
    assert whole() == await current(late)
    await feed.close()


async def current(stream: StateStream) -> DescribeAppResponse:
    event = await anext(stream)
    assert event.current is not None
    return event.current


def test_a_row_can_be_assigned_to_compared_and_looked_up() -> None:
    row = ListAppResponse("a", AppState.RUNNING)
    assert "<NOT_SET>" == row.app_handle

    row.app_handle = "fake://me/a"
    row.name = "job"
    assert ListAppResponse("a", AppState.RUNNING, "fake://me/a", name="job") == row
    assert ListAppResponse("a", AppState.RUNNING, "fake://me/a", name="other") != row
    assert hash(ListAppResponse("a", AppState.RUNNING, "fake://me/a")) == hash(row)
    assert row in {ListAppResponse("b", AppState.RUNNING), row}
    for again in (pickle.loads(pickle.dumps(row)), copy.copy(row), copy.deepcopy(row)):
        assert row == again


@pytest.mark.parametrize("kind", [DescribeAppResponse, ListAppResponse])
def test_a_name_that_a_response_does_not_have_is_refused(kind: type) -> None:
    with pytest.raises(AttributeError):
        kind("a", AppState.RUNNING).app_handel = "typo"
