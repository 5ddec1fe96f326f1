"""Handles, statuses, records of calls, and how an app with a key is known again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.formats._frozen import RELEASES, changed, frozen
from tests.formats._python import everything, keyed, values


@pytest.fixture(params=RELEASES)
def before(request: pytest.FixtureRequest) -> Any:
    return frozen(request.param, "python.json")


def test_values_without_a_scheduler(before: Any) -> None:
    now = values()

    assert [] == [*changed({name: before[name] for name in now}, now)]


def test_a_key_gives_the_id_and_the_digest_that_it_gave(before: Any) -> None:
    """A digest that changes turns every second submit with an old key into a conflict.

    What a release adds to an app or to the options must not enter the digest unless it is used.
    """
    assert before["keyed"] == asyncio.run(keyed())


def test_records_of_calls_have_their_fields(before: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASYNCSCHED_HOME", str(tmp_path))
    now = asyncio.run(everything(tmp_path))["records"]

    timeless = [{**record, "duration": 0.0} for record in now]
    assert [] == [*changed(before["records"], timeless)]
