"""What a scheduler answers."""

from __future__ import annotations

import copy
import pickle
from collections.abc import AsyncIterator, Sequence

from asyncsched.clock import Clock
from asyncsched.schedulers import DescribeAppResponse
from asyncsched.schedulers.feed import StateFeed
from asyncsched.schedulers.port import Answers
from asyncsched.specs import AppState, Role


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
