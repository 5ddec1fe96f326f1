"""The rows that a page fetches in pieces, however they change meanwhile."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched.specs import AppState
from asyncsched.views.apps import AppView
from asyncsched.web import board as board_module
from asyncsched.web.board import RowBoard

HANDLES = [f"push://me/{name}" for name in "abcdefgh"]
STATES = (AppState.RUNNING, AppState.FAILED, AppState.PENDING)
SHOWN = st.tuples(st.sampled_from(HANDLES), st.sampled_from([None, *STATES]))
FETCHED = st.integers(1, 4)


class _Page:
    def __init__(self) -> None:
        self.serial = 0
        self.states: dict[str, str] = {}

    def fetch(self, board: RowBoard, most: int) -> None:
        changes = board.since(self.serial, most)
        assert len(changes.rows) <= most
        if changes.anew:
            self.states.clear()
        for told in map(json.loads, changes.rows):
            if told.get("gone"):
                self.states.pop(told["handle"], None)
            else:
                self.states[told["handle"]] = told["state"]
        self.serial = changes.serial


@given(st.lists(st.one_of(SHOWN, FETCHED), max_size=200))
def test_a_page_that_fetches_pieces_gets_to_what_is_shown(steps: list[tuple[str, AppState | None] | int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(board_module, "MOST_GONE", 2)  # so that a page misses removals
        board, page, shown = RowBoard(), _Page(), dict[str, str]()
        for step in steps:
            if isinstance(step, int):
                page.fetch(board, step)
            elif step[1] is None:
                board.take_off(step[0])
                shown.pop(step[0], None)
            else:
                board.show(AppView(handle=step[0], state=step[1]))
                shown[step[0]] = step[1].name
        while page.serial != board.serial:
            page.fetch(board, 3)

    assert shown == page.states
    assert shown.keys() == board.views.keys()
    assert json.loads(board.overview())["summary"].startswith(f"{len(shown)} app" if shown else "no apps")


def test_what_is_replaced_is_not_kept() -> None:
    board = RowBoard()
    for number in range(5_000):
        board.show(AppView(handle=HANDLES[number % 2], state=STATES[number % 3]))

    assert len(board._changes) <= 2 * 2 + board_module.MOST_GONE
    assert len(board._changes) == len(board._numbers)
