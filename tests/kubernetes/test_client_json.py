"""Lists are read item by item, and say the same as when they are read as a whole."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched.schedulers.kubernetes.client_json import read_list

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
ITEMS = st.lists(st.dictionaries(st.text(max_size=5), JSON, max_size=3), max_size=5)
OTHERS = st.dictionaries(st.text(max_size=5).filter(lambda name: name != "items"), JSON, max_size=4)


@given(ITEMS, OTHERS, st.booleans(), st.sampled_from([None, 2]))
def test_a_list_is_what_json_says(items: list[Any], others: dict[str, Any], is_first: bool, indent: int | None) -> None:
    whole = {"items": items, **others} if is_first else {**others, "items": items}

    assert (items, others) == read_list(json.dumps(whole, indent=indent), lambda item: item)


@pytest.mark.parametrize("items", [None, [], [1, "two", {"a": 1}, None, [3]]])
def test_what_is_not_an_object_is_left_out(items: object) -> None:
    found, others = read_list(json.dumps({"items": items, "kind": "List"}), lambda item: item)

    assert ([{"a": 1}] if items else []) == found
    assert "List" == others["kind"]


def test_what_is_not_wanted_is_left_out() -> None:
    text = json.dumps({"items": [{"n": number} for number in range(4)]})

    assert [1, 3] == read_list(text, lambda item: item["n"] if item["n"] % 2 else None)[0]


@pytest.mark.parametrize("cut", [*range(1, 40)])
def test_half_a_list_is_an_error(cut: int) -> None:
    text = '{"kind": "List", "items": [{"a": [1, {}]}, {"b": 2}], "metadata": {}}'

    with pytest.raises(ValueError):
        read_list(text[:-cut], lambda item: item)
