"""Noting lines all at once leaves what noting them one by one leaves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from asyncsched.logs.resume import Resume

LINES = st.lists(st.tuples(st.integers(0, 400), st.sampled_from(["out", "err"]), st.sampled_from("abc")), max_size=60)


@given(st.lists(LINES), st.integers(1, 20), st.integers(1, 10), st.integers(0, 60))
def test_a_batch_is_as_good_as_its_lines(
    batches: list[list[tuple[int, str, str]]], size: int, granularity: int, cut: int
) -> None:
    one_by_one = Resume(size, granularity_ns=granularity, margin_ns=30)
    at_once = Resume(size, granularity_ns=granularity, margin_ns=30)
    for batch in batches:
        for line in batch:
            assert one_by_one.note(*line)
        at_once.note_new([line[0] for line in batch], [line[1] for line in batch], [line[2] for line in batch])

    assert one_by_one.reconnect() == at_once.reconnect()
    again = [*[line for batch in batches for line in batch][-cut:], (500, "out", "new")]
    assert [one_by_one.note(*line) for line in again] == [at_once.note(*line) for line in again]
