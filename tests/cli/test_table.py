from __future__ import annotations

import pytest

from asyncsched.cli.table import table

ROWS = [{"handle": "stage://a/train-1", "state": "RUNNING", "msg": None}, {"handle": "b", "state": "x", "msg": "a\n b"}]


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (None, ["HANDLE             STATE    MSG", "stage://a/train-1  RUNNING", "b                  x        a b"]),
        (31, ["HANDLE             STATE    MSG", "stage://a/train-1  RUNNING", "b                  x        a b"]),
        (27, ["HANDLE             STATE", "stage://a/train-1  RUNNING", "b                  x"]),
        (25, ["HANDLE             STATE", "stage://a/train-1  RUNNI…", "b                  x"]),
        (10, ["HANDLE", "stage://a…", "b"]),
    ],
)
def test_columns_fit_from_the_left(width: int | None, expected: list[str]) -> None:
    assert expected == [*table(("handle", "state", "msg"), ROWS, width)]


def test_no_rows() -> None:
    assert ["A  B"] == [*table(("a", "b"), [], 80)]
