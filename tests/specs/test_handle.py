from __future__ import annotations

import copy
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched.errors import MalformedHandleError
from asyncsched.specs import AppHandle, ParsedAppHandle, make_app_handle, parse_app_handle
from asyncsched.specs.handle import schedulers_of

without_slash = st.text(st.characters(exclude_characters="/"))
schedulers = st.text(st.characters(exclude_characters="/:"), min_size=1)


@given(schedulers, without_slash, without_slash.filter(bool))
def test_parts_come_back(scheduler: str, session: str, app_id: str) -> None:
    handle = make_app_handle(scheduler, session, app_id)

    assert f"{scheduler}://{session}/{app_id}" == handle
    assert ParsedAppHandle(scheduler, session, app_id) == parse_app_handle(handle)
    assert (scheduler, session, app_id) == (handle.scheduler, handle.session, handle.app_id)


@given(st.text("ab:/"))
def test_a_handle_is_read_in_one_way_or_refused(text: str) -> None:
    try:
        parts = parse_app_handle(text)
    except MalformedHandleError:
        return

    assert text == make_app_handle(*parts)
    assert {parts.scheduler_backend} == schedulers_of([text]) == schedulers_of([AppHandle(text)])


def test_a_handle_is_a_plain_string() -> None:
    handle = AppHandle("kubernetes://me/default:train-x1")

    assert "kubernetes://me/default:train-x1" == handle
    assert repr("kubernetes://me/default:train-x1") == repr(handle)
    assert '"kubernetes://me/default:train-x1"' == json.dumps(handle)
    assert 1 == {"kubernetes://me/default:train-x1": 1}[handle]


def test_copies_stay_handles() -> None:
    handle = AppHandle("local_cwd:///app-1")

    assert "" == handle.session
    for other in (pickle.loads(pickle.dumps(handle)), copy.deepcopy(handle), copy.copy(handle)):
        assert isinstance(other, AppHandle)
        assert handle == other


@pytest.mark.parametrize(
    "text",
    ["", "foo", "a://", "a://b", "a://b/", "://b/c", "a:/b/c", "a://b/c/d", "a/x://b/c", "a:b://c/d", "/b/c"],
)
def test_malformed(text: str) -> None:
    with pytest.raises(MalformedHandleError, match="is not a handle; write it as scheduler://session/app_id"):
        parse_app_handle(text)
    with pytest.raises(MalformedHandleError, match="is not a handle"):
        schedulers_of([AppHandle("a://b/c"), text])
    with pytest.raises(MalformedHandleError):
        AppHandle(text)


@pytest.mark.parametrize(
    "parts", [("", "s", "a"), ("k", "s", ""), ("k", "s/t", "a"), ("k", "s", "a/b"), ("k://l", "s", "a")]
)
def test_parts_that_make_no_handle(parts: tuple[str, str, str]) -> None:
    with pytest.raises(MalformedHandleError):
        make_app_handle(*parts)
