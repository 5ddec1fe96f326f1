from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched.errors import AppStatusError
from asyncsched.specs import AppState, AppStatus, ReplicaStatus, combine, is_started, is_terminal

UNSUBMITTED, SUBMITTED, PENDING, RUNNING, SUCCEEDED, FAILED, CANCELLED, UNKNOWN = AppState

states = st.lists(st.sampled_from(AppState))


def test_numbers_and_text() -> None:
    assert list(range(8)) == [int(state) for state in AppState]
    assert "RUNNING" == str(RUNNING)
    assert "RUNNING (3)" == repr(RUNNING)


def test_which_are_terminal_and_which_have_started() -> None:
    assert {SUCCEEDED, FAILED, CANCELLED} == {state for state in AppState if state.is_terminal()}
    assert {RUNNING, SUCCEEDED, FAILED, CANCELLED} == {state for state in AppState if state.is_started()}
    assert all(is_terminal(state) == state.is_terminal() for state in AppState)
    assert all(is_started(state) == state.is_started() for state in AppState)


@pytest.mark.parametrize(
    ("replicas", "expected", "when_cancelled"),
    [
        ([], PENDING, CANCELLED),
        ([UNKNOWN], UNKNOWN, UNKNOWN),
        ([PENDING, UNKNOWN], PENDING, PENDING),
        ([SUBMITTED, UNSUBMITTED], PENDING, PENDING),
        ([RUNNING, PENDING], RUNNING, RUNNING),
        ([SUCCEEDED, PENDING], RUNNING, RUNNING),
        ([FAILED, RUNNING], RUNNING, RUNNING),
        ([FAILED, UNKNOWN], RUNNING, RUNNING),
        ([SUCCEEDED], SUCCEEDED, CANCELLED),
        ([SUCCEEDED, FAILED, CANCELLED], FAILED, CANCELLED),
        ([SUCCEEDED, CANCELLED], CANCELLED, CANCELLED),
    ],
)
def test_combine(replicas: list[AppState], expected: AppState, when_cancelled: AppState) -> None:
    assert expected == combine(replicas)
    assert when_cancelled == combine(replicas, cancelled=True)


@given(states, st.booleans(), st.randoms())
def test_combine_is_total_and_heeds_neither_order_nor_repetition(
    replicas: list[AppState], cancelled: bool, random: object
) -> None:
    expected = combine(replicas, cancelled=cancelled)
    shuffled = sorted(replicas + replicas[:2], key=lambda _: random.random())  # type: ignore[attr-defined]  # hypothesis' Random

    assert expected == combine(shuffled, cancelled=cancelled)
    assert expected == combine([ReplicaStatus(0, state, "r", "") for state in replicas], cancelled=cancelled)
    assert expected == combine(iter(replicas), cancelled=cancelled)


@given(states, st.booleans())
def test_an_app_has_ended_when_and_only_when_all_replicas_have(replicas: list[AppState], cancelled: bool) -> None:
    ended = all(state.is_terminal() for state in replicas) and (bool(replicas) or cancelled)

    assert ended == combine(replicas, cancelled=cancelled).is_terminal()


def test_status_fields_stand_in_the_documents_order() -> None:
    status = AppStatus(RUNNING, 1, "msg", "<NONE>", "http://x", [])

    assert AppStatus(state=RUNNING, num_restarts=1, msg="msg", ui_url="http://x") == status
    assert not status.is_terminal()
    assert AppStatus(FAILED).is_terminal()


@pytest.mark.parametrize("make", [lambda error: error, lambda error: pickle.loads(pickle.dumps(error))])
def test_raise_for_status(make: Callable[[AppStatusError], AppStatusError]) -> None:
    AppStatus(SUCCEEDED).raise_for_status()
    status = AppStatus(FAILED, msg="out of memory")
    with pytest.raises(AppStatusError, match="job did not succeed: AppStatus:\n  msg: out of memory") as caught:
        status.raise_for_status()

    assert status == make(caught.value).status
