from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from asyncsched.cli.app_table import app_table, failure_lines
from asyncsched.cli.json_rows import list_row
from asyncsched.cli.table import table
from asyncsched.specs.state import AppState
from asyncsched.views.apps import AppView

ROWS: list[dict[str, object]] = [
    {"handle": "stage://a/train-1", "state": "RUNNING", "msg": None},
    {"handle": "b", "state": "x", "msg": "a\n b"},
]


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


def test_the_last_column_may_stand_below() -> None:
    rows = [{"check": "a", "detail": "short"}, {"check": "bc", "detail": "one two three four"}]

    assert ["CHECK  DETAIL", "a      short", "bc", "    one two", "    three four"] == [
        *table(("check", "detail"), rows, 14, wraps=True)
    ]
    assert ["CHECK  DETAIL", "a      short", "bc     one two three four"] == [
        *table(("check", "detail"), rows, 40, wraps=True)
    ]


def test_no_rows() -> None:
    assert ["A  B"] == [*table(("a", "b"), [], 80)]


NOW = datetime(2026, 1, 1, tzinfo=UTC)


def failed(number: int, reason: str) -> AppView:
    return AppView(handle=f"a://b/x-{number}", state=AppState.FAILED, reason=reason, finished_at=NOW, last_line="oh")


@pytest.mark.parametrize("width", [60, 100, 160, None])
def test_why_apps_failed_is_told_in_full(width: int | None) -> None:
    reason = "exit code -15, ran longer than its timeout of 6 s, which is what this text says at some length"
    lines = [*failure_lines([failed(0, reason)], NOW, width=width, color=False)]
    end = next(number for number, line in enumerate(lines) if line.startswith("  x-0"))

    assert " ".join(" ".join(lines[:end]).split()).endswith(f": {reason}")
    assert max(map(len, lines)) <= (width or 1000)


def test_failures_that_are_not_named_are_counted_and_can_be_asked_for() -> None:
    lines = [*failure_lines([failed(k, "no") for k in range(70)], NOW, width=100, color=False)]
    kinds = [*failure_lines([failed(k, f"no {k}") for k in range(62)], NOW, width=100, color=False)]

    assert 60 == sum(line.endswith("  oh") for line in lines)
    assert "  and 10 more: asyncsched list --state failed" in lines
    assert 60 == sum(line.endswith("  oh") for line in kinds)
    assert "and 2 that failed in 2 other ways: asyncsched list --state failed" == kinds[-1]


def listed(ids: list[str], width: int, reason: str = "exit code 1") -> list[list[str]]:
    views = [AppView(handle=f"local_cwd://me/{each}", state=AppState.FAILED, reason=reason) for each in ids]
    lines = [*app_table(views, ("app", "state", "reason"), NOW, width=width, color=False)]
    assert max(map(len, lines)) <= width
    return [line.split(maxsplit=2) for line in lines[1:]]


@pytest.mark.parametrize("width", [32, 40, 60, 100, 160])
def test_an_app_that_is_shown_can_be_typed_back(width: int) -> None:
    ids = [f"train-lr-{k:02}-{'abcdefghjkmnpq'[k:]}" for k in range(12)]
    for app_id, (shown, _, reason) in zip(ids, listed(ids, width), strict=True):
        assert [app_id] == [each for each in ids if each.startswith(shown.rpartition("/")[2])]
        assert reason.startswith("exit code")


def test_names_are_not_cut_while_there_is_room() -> None:
    ids = [f"train-lr-{k:02}-abcdefghjkmnpq" for k in range(12)]

    assert ids == [shown for shown, *_ in listed(ids, 60)]


def test_one_long_name_leaves_the_reasons_their_room() -> None:
    reason = "exit code -15, ran longer than its timeout of 6 s"

    assert {reason} == {each[-1] for each in listed(["a", "b-1", "n" * 200], 100, reason)}


def test_one_long_cell_moves_only_its_own_row_in_a_pipe() -> None:
    names = ["train-a", "train-bcd", "x" * 128]
    views = [AppView(handle=each, state=AppState.FAILED, reason="r" * 300 if len(each) < 9 else "") for each in names]
    lines = [*app_table(views, ("app", "state", "reason"), NOW, width=None, color=False)]

    assert [
        "APP        STATE   REASON",
        f"train-a    FAILED  {'r' * 300}",
        "train-bcd  FAILED",
        f"{'x' * 128}  FAILED",
    ] == lines


def test_what_all_names_begin_with_goes_where_it_is_long() -> None:
    names = [shown for shown, *_ in listed([f"{'a-long-name-' * 5}{k}-xyz" for k in range(3)], 60)]

    assert ["…0-xyz", "…1-xyz", "…2-xyz"] == names


@pytest.mark.parametrize("width", [30, 40, 50])
def test_a_reason_that_would_be_cut_too_short_stands_below_its_app(width: int) -> None:
    long = "2 of 200 failed: exit code -15, ran longer than its timeout of 6 s on a node that has since gone"
    views = [
        AppView(handle=f"local_cwd://me/train-{k:02}-abcdefghjkmnpq", state=AppState.FAILED, reason=reason)
        for k, reason in enumerate(["no", long, "exit code 1"])
    ]
    header, *lines = app_table(views, ("app", "state", "replicas", "reason"), NOW, width=width, color=False)

    assert max(map(len, lines)) <= width
    assert ["APP", "STATE", "REASON"] == header.split()
    (first,) = [number for number, line in enumerate(lines) if line.startswith("    ")][:1]
    assert lines[first - 1].startswith("train-01")
    told = " ".join(" ".join(lines[first:-1]).split())
    assert long == told
    assert lines[0].endswith("  no")
    assert lines[-1].endswith("  exit code 1")


def test_a_reason_of_which_enough_can_be_read_stays_beside_its_app() -> None:
    views = [AppView(handle="a://b/c", state=AppState.FAILED, reason="x" * 99)]
    _, line = app_table(views, ("app", "state", "reason"), NOW, width=80, color=False)

    assert line.endswith("x…")


def test_ids_of_failures_give_way_to_their_last_lines() -> None:
    views = [failed(k, "no") for k in range(12)]
    views = [replace(view, handle=f"{view.handle}-abcdefghjkmnpq") for view in views]
    wide, narrow = ([*failure_lines(views, NOW, width=width, color=False)] for width in (60, 25))

    assert wide[1].startswith("  x-0-abcdefghjkmnpq  ")
    ids = [line for line in narrow if line.startswith("  x-")]
    assert 12 == len(ids)
    assert all(re.fullmatch(r"  x-\d+-?[a-e]*  \d\d:\d\d:\d\d  oh", line) for line in ids)


def test_a_row_of_a_list_that_took_no_time_has_a_duration_all_the_same() -> None:
    view = AppView(handle="a://b/c", state=AppState.FAILED, started_at=NOW, finished_at=NOW)

    waiting = AppView(handle="a://b/c", state=AppState.PENDING)

    assert "0.0" == json.dumps(list_row(view, NOW)["duration"])
    assert list_row(waiting, NOW)["duration"] is None
