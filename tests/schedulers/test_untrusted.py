"""Reading what anybody can write: within bounds, or a reason."""

from __future__ import annotations

import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched.schedulers._common.untrusted import (
    DEEPEST,
    LONGEST_ID,
    LONGEST_JSON,
    Once,
    read_float,
    read_id,
    read_json,
    read_number,
    read_session,
    read_text,
    shown,
    well_formed,
)
from asyncsched.specs.handle import make_app_handle, parse_app_handle
from tests.schedulers._hostile import anything, texts

READERS = [read_id, read_session, read_text, read_number, read_float, read_json]


@pytest.mark.parametrize("reader", READERS)
@given(value=anything | st.none() | st.integers() | st.binary())
def test_a_value_or_a_reason(reader: object, value: object) -> None:
    assert callable(reader)
    why: ValueError | None = None
    try:
        reader(value)
    except ValueError as error:
        why = error

    if why is not None:
        assert ValueError is type(why)  # not one of its subclasses, which carry the text
        assert len(str(why)) < 200
        str(why).encode()


@given(st.text(st.characters(exclude_categories=()), max_size=LONGEST_ID + 1), anything)
def test_what_is_read_as_an_id_makes_a_handle(session: str, app_id: str) -> None:
    try:
        session, app_id = read_session(session), read_id(app_id)
    except ValueError:
        return
    handle = make_app_handle("backend", session, app_id)

    assert ("backend", session, app_id) == parse_app_handle(handle)
    assert handle.isprintable()


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(10**17), 10**17) | st.floats(allow_nan=False, allow_infinity=False),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=20,
    )
)
def test_json_within_the_bounds_is_read_as_it_is(value: object) -> None:
    assert value == read_json(json.dumps(value))
    assert [value] == read_json(json.dumps([value], ensure_ascii=False))


@pytest.mark.parametrize("depth", [1, DEEPEST, DEEPEST + 1, 2 * DEEPEST, 10_000])
@pytest.mark.parametrize(("left", "right"), [("[", "]"), ('{"[":', "}")])
def test_depth_is_bounded(depth: int, left: str, right: str) -> None:
    text = f"{left * depth}0{right * depth}"

    if depth <= DEEPEST:
        assert json.loads(text) == read_json(text)
    else:
        with pytest.raises(ValueError, match=r"nested|characters"):
            read_json(text)


@pytest.mark.parametrize("text", ['"[[[["', '"\\"[{"', '["\\\\", "]"]', '{"a]": "}"}'])
def test_brackets_in_strings_are_text(text: str) -> None:
    assert json.loads(text) == read_json(text)


@pytest.mark.parametrize(
    "text",
    ["[1e999]", "[NaN]", "[-Infinity]", f"[{'9' * 19}]", "[", "", '"', '"\\', "]", "[}", " " * LONGEST_JSON + "1"],
)
def test_json_out_of_bounds_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^(contains|is|has) "):
        read_json(text)


@given(texts)
def test_messages_can_be_printed_anywhere(text: str) -> None:
    assert shown(text).isascii()
    assert shown(text).isprintable()
    assert well_formed(text) == well_formed(well_formed(text))
    well_formed(text).encode()


def test_each_thing_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    once = Once(logging.getLogger("asyncsched.test"))
    with caplog.at_level(logging.WARNING):
        for key in ("a", "b", "a"):
            once.warn(key, "look at %s", key)
        for number in range(10_000):
            once.warn(number, "another")
        once.warn("a", "look at %s", "a")

    assert ["look at a", "look at b", "look at a"] == [m for m in caplog.messages if "another" not in m]
