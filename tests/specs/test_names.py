from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched.specs import derive_id, make_app_handle, make_unique, normalize_str

SUFFIX = r"[bcdfghjklmnpqrstvwxz][bcdfghjklmnpqrstvwxz0-79]{13}"


@given(st.text(), st.integers(0, 64))
def test_a_unique_name_is_safe_and_bounded(name: str, length: int) -> None:
    unique = make_unique(name, length)

    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", unique)
    assert len(unique) <= 128
    assert unique == make_app_handle("local_cwd", "s", unique).app_id


@given(st.from_regex(r"[A-Za-z0-9_]([A-Za-z0-9._-]{0,100}[A-Za-z0-9_])?", fullmatch=True))
def test_an_ordinary_name_is_kept(name: str) -> None:
    assert re.fullmatch(rf"{re.escape(name)}-{SUFFIX}", make_unique(name))


def test_no_name_comes_twice() -> None:
    assert 10_000 == len({make_unique("train") for _ in range(10_000)})


def test_every_character_of_a_suffix_is_used() -> None:
    seen = {char for _ in range(500) for char in make_unique("t").removeprefix("t-")}

    assert set("bcdfghjklmnpqrstvwxz012345679") == seen


def test_the_length_of_the_suffix() -> None:
    assert 5 == len(make_unique("train", 5).removeprefix("train-"))
    for length in (-1, 65):
        with pytest.raises(ValueError, match="must be between 0 and 64, got"):
            make_unique("train", length)


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("a/b", "a-b"),
        ("my app: ü!", "my-app"),
        ("--x", "x"),
        ("", "app"),
        ("///", "app"),
        ("x" * 500, "x" * 113),
    ],
)
def test_what_becomes_of_unsafe_names(name: str, stem: str) -> None:
    assert re.fullmatch(rf"{re.escape(stem)}-{SUFFIX}", make_unique(name))


@given(st.text(), st.lists(st.text(), max_size=3))
def test_a_derived_id_is_always_the_same(name: str, parts: list[str]) -> None:
    derived = derive_id(name, *parts)

    assert derived == derive_id(name, *parts)
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", derived)
    assert len(derived) <= 128
    assert derived != derive_id(name, *parts, "")


def test_a_derived_id_is_the_same_tomorrow() -> None:
    # Others have stored it: this value must never change.
    assert "train-pvw000fljbhxpz" == derive_id("train", "session", "order-42")


def test_parts_of_a_derived_id_do_not_run_together() -> None:
    ids = {
        derive_id("a", "b", "c"),
        derive_id("a", "bc"),
        derive_id("ab", "c"),
        derive_id("a", "1:b"),
        derive_id("a/b"),
    }

    assert 5 == len(ids)
    assert derive_id("a-b") not in ids


@pytest.mark.parametrize(
    ("text", "expected"),
    [("-Abc_1/2-3", "abc12-3"), ("--a", "-a"), ("", ""), ("ÄB", "b"), ("train-x1", "train-x1")],
)
def test_normalize(text: str, expected: str) -> None:
    assert expected == normalize_str(text)
