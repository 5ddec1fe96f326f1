"""The parameters of every scheduler are checked when it is made."""

from __future__ import annotations

import math
from typing import Any

import pytest

from asyncsched.errors import ConfigError
from asyncsched.testing import FakeScheduler

TIMES = ("request_timeout", "retry_for", "cleanup_timeout")


@pytest.mark.parametrize("name", TIMES)
@pytest.mark.parametrize("value", ["30", None, True, -1, math.nan, math.inf, 1e10])
def test_a_time_that_is_none_is_refused_with_its_bounds(name: str, value: object) -> None:
    given: Any = {name: value}

    with pytest.raises(ConfigError) as caught:
        FakeScheduler("me", **given)

    assert f"{name} must be a number of seconds from 0 to 1000000000, got {value!r}" == caught.value.what


@pytest.mark.parametrize("value", [0, 0.5, 60, 1e9])
def test_a_time_within_the_bounds_is_taken(value: float) -> None:
    scheduler = FakeScheduler("me", request_timeout=value, retry_for=value, cleanup_timeout=value)

    assert {value} == {getattr(scheduler, name) for name in TIMES}
