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
PAGES = 3
SHOWN = st.tuples(st.sampled_from(HANDLES), st.sampled_from([None, *STATES]))
FETCHED = st.tuples(st.integers(0, PAGES - 1), st.integers(1, 4))


class _Page:
    def __init__(self) -> None:
        self.place: tuple[int, int] = (0, 0)
        self.states: dict[str, str] = {}

    def fetch(self, board: RowBoard, most: int) -> None:
        changes = board.since(self.place[0], most, begun=self.place[1])
        assert len(changes.rows) <= most
        if changes.anew:
            self.states.clear()
        for told in map(json.loads, changes.rows):
            if told.get("gone"):
                self.states.pop(told["handle"], None)
            else:
                self.states[told["handle"]] = told["state"]
        self.place = changes.serial, changes.begun

    def catch_up(self, board: RowBoard, most: int) -> int:
        """Fetch until it has everything; return the number of pieces, at most a hundred."""
        for pieces in range(100):
            if self.place[0] == board.serial:
                return pieces
            self.fetch(board, most)
        return 100


@given(st.lists(st.one_of(SHOWN, FETCHED), max_size=200))
def test_pages_that_fetch_pieces_get_to_what_is_shown(
    steps: list[tuple[str, AppState | None] | tuple[int, int]],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(board_module, "MOST_GONE", 2)  # so that a page misses removals
        board, pages, shown = RowBoard(), [_Page() for _ in range(PAGES)], dict[str, str]()
        for what, how in steps:
            if isinstance(what, int):
                assert isinstance(how, int)
                pages[what].fetch(board, how)
            elif isinstance(how, AppState):
                board.show(AppView(handle=what, state=how))
                shown[what] = how.name
            else:
                board.take_off(what)
                shown.pop(what, None)
        kept = len(HANDLES) + 2
        assert all(page.catch_up(board, most) <= -(-kept // most) for most, page in enumerate(pages, 1))

    assert [shown] * PAGES == [page.states for page in pages]
    assert shown.keys() == board.views.keys()
    assert json.loads(board.overview())["summary"].startswith(f"{len(shown)} app" if shown else "no apps")


def test_a_page_gets_all_apps_in_pieces_after_many_have_gone() -> None:
    board, page = RowBoard(), _Page()
    handles = [f"push://me/{number}" for number in range(2000)]
    for handle in handles:
        board.show(AppView(handle=handle, state=AppState.RUNNING))
    for handle in handles[700:]:
        board.take_off(handle)

    assert 3 == page.catch_up(board, 250)
    assert {*handles[:700]} == page.states.keys()


def test_a_page_on_its_way_hears_of_what_goes_behind_it() -> None:
    board, page = RowBoard(), _Page()
    handles = [f"push://me/{number}" for number in range(4000)]
    for handle in handles:
        board.show(AppView(handle=handle, state=AppState.RUNNING))
    for handle in handles[2000:3500]:
        board.take_off(handle)
    page.fetch(board, 500)
    for handle in handles[:900]:
        board.take_off(handle)
    page.fetch(board, 500)
    for handle in handles[900:1200]:
        board.take_off(handle)  # more than are remembered: it begins anew

    assert 100 > page.catch_up(board, 500)
    assert {*handles[1200:2000], *handles[3500:]} == page.states.keys()


def test_what_is_replaced_is_not_kept() -> None:
    board = RowBoard()
    for number in range(5_000):
        board.show(AppView(handle=HANDLES[number % 2], state=STATES[number % 3]))

    assert len(board._changes) <= 2 * 2 + board_module.MOST_GONE
    assert len(board._changes) == len(board._numbers)
