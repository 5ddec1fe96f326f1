"""What a message repeats of a wrong value."""

from __future__ import annotations

import pytest

from asyncsched.specs import Secret
from asyncsched.specs.masking import repeated
from asyncsched.specs.to_plain import MOST_SHOWN


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (3, "3"),
        (-1.5, "-1.5"),
        (None, "None"),
        ("five", "'five'"),
        ("repo/image:tag", "'repo/image:tag'"),
        ("x" * 200, f"'{'x' * (MOST_SHOWN - 1)}…"),
        ("a=b", "a text with `=`"),
        ("API_TOKEN:hunter2", "a text with `:`"),
        ("A:b,'API_TOKEN':hunter2", "a text with `:`"),
        ("token: hunter2", "'token: ***'"),
        ("https://me:hunter2@host", "'https://me:***@host'"),
        (Secret("hunter2"), "'***'"),
        ([], "an empty list"),
        ({}, "an empty dict"),
        (["API_TOKEN", "hunter2"], "list[str]"),
        ([1, {"a": 1}, 2], "list[int | dict]"),
        ((True,), "tuple[bool]"),
        ({"API_TOKEN": ["hunter2"]}, "dict[str, list]"),
    ],
)
def test_only_what_is_no_secret_is_repeated(value: object, told: str) -> None:
    assert told == repeated(value)
