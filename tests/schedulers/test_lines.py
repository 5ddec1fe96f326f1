"""The documents' small functions over lines."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched.logs import LogLine
from asyncsched.logs.line import LogOrigin
from asyncsched.schedulers import filter_regex, split_lines, split_lines_iterator

TEXTS = st.text(st.sampled_from("ab\n\r\x0b\u2028 "), max_size=30)


@given(TEXTS)
def test_a_text_is_split_after_each_newline_and_nowhere_else(text: str) -> None:
    lines = split_lines(text)

    assert text == "".join(lines)
    assert all(line.endswith("\n") for line in lines[:-1])
    assert all("\n" not in line[:-1] and line for line in lines)


@given(st.lists(TEXTS, max_size=5))
def test_chunks_are_split_one_by_one(chunks: list[str]) -> None:
    assert [line for chunk in chunks for line in split_lines(chunk)] == [*split_lines_iterator(chunks)]


def test_lines_are_chosen_by_what_is_found_in_them() -> None:
    lines = ["step 1\n", "loss 0.5\n", "step 2"]

    assert ["step 1\n", "step 2"] == [*filter_regex(r"^step \d", lines)]
    assert [] == [*filter_regex("none", lines)]
    with pytest.raises(re.error):
        filter_regex("(", lines)


def test_lines_of_a_log_stay_what_they_are() -> None:
    line = LogLine("step 1\n")
    line.source, line.ns = LogOrigin(role="main"), None
    (found,) = filter_regex("step", [line])

    assert "main" == found.role
