"""What a scheduler answers."""

from __future__ import annotations

from asyncsched.schedulers import DescribeAppResponse
from asyncsched.specs import AppState, Role


def test_a_description_prints_without_secrets() -> None:
    roles = [Role("main", "i", env={"API_TOKEN": "marker"})]
    app = DescribeAppResponse("a", AppState.RUNNING, roles=roles, metadata={"API_KEY": "marker", "team": "blue"})

    assert "marker" not in repr(app)
    assert repr(app).startswith("DescribeAppResponse(app_id='a', state=RUNNING (3), ")
    assert "'team': 'blue'" in repr(app)
