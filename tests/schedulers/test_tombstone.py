"""What is deleted on a service that cannot forget does not exist."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from asyncsched.schedulers import Tombstone

Row = Mapping[str, Mapping[str, str]]

TOMBSTONE = Tombstone[Row](lambda row: row.get("tags", {}))


def test_an_app_without_the_mark_exists() -> None:
    rows: list[Row] = [{}, {"tags": {}}, {"tags": {"asyncsched/app": "a"}}]
    for row in rows:
        assert row is TOMBSTONE.existing(row)


def test_an_app_with_the_mark_does_not_whatever_the_mark_says() -> None:
    assert TOMBSTONE.existing({"tags": {"other": "x", **TOMBSTONE.mark()}}) is None
    assert TOMBSTONE.existing({"tags": {"asyncsched/deleted": ""}}) is None
    assert TOMBSTONE.existing(None) is None


@pytest.mark.parametrize("key", ["asyncsched/deleted", "asyncsched-deleted"])
def test_of_many_those_are_left_that_exist_in_order(key: str) -> None:
    tombstone = Tombstone[Row](lambda row: row["tags"], key)
    alive = [{"tags": {"n": str(n)}} for n in range(3)]
    dead = {"tags": tombstone.mark()}

    assert {key: "true"} == tombstone.mark()
    assert alive == tombstone.all_existing([dead, *alive[:1], dead, *alive[1:]])
