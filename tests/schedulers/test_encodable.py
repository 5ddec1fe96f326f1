"""What UTF-8 cannot hold is refused with its place, or noted as what was not kept: never as another text."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched.errors import ConfigError
from asyncsched.schedulers._common.app_notes import app_note, read_app_note
from asyncsched.schedulers.encodable import check_encodable
from asyncsched.schedulers.validation import check_app
from asyncsched.specs import AppDef, BindMount, DeviceMount, Resource, Role, Secret, SecretRef
from asyncsched.specs.not_kept import NotKept

HALF = "a\udc80b"
WHY = r"U\+DC80 is a lone surrogate"

KEPT_AS_BYTES: list[tuple[str, dict[str, Any]]] = [
    ("image", {"image": HALF}),
    ("base_image", {"base_image": HALF}),
    ("entrypoint", {"entrypoint": HALF}),
    ("argument 1", {"args": ["a", HALF]}),
    ("variable A", {"env": {"A": HALF}}),
    ("variable A", {"env": {"A": Secret(HALF)}}),
    ("mount 0", {"mounts": [BindMount(HALF, "/a")]}),
]
NEVER_KEPT: list[tuple[str, dict[str, Any]]] = [
    ("the name of a variable", {"env": {HALF: "a"}}),
    ("variable A", {"env": {"A": SecretRef(HALF, "key")}}),
    ("metadata a 0", {"metadata": {"a": [HALF]}}),
    ("the name of metadata", {"metadata": {"b": {HALF: 1}}}),
    ("the name of a port", {"port_map": {HALF: 1}}),
    ("capability a", {"resource": Resource(1, 0, 1, {"a": HALF})}),
    ("the name of a device", {"resource": Resource(1, 0, 1, {}, {HALF: 1})}),
    ("the target of mount 0", {"mounts": [DeviceMount("/a", HALF)]}),
]


def app(fields: dict[str, Any]) -> AppDef:
    return AppDef("job", [Role(**{"name": "main", "image": "i", "entrypoint": "e"} | fields)])


@pytest.mark.parametrize(("place", "fields"), [*KEPT_AS_BYTES, *NEVER_KEPT])
def test_what_no_service_can_keep_is_refused_by_its_place(place: str, fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"role 'main': {re.escape(place)} .*{WHY}") as caught:
        check_encodable(app(fields), takes_bytes=False)
    assert HALF not in str(caught.value)


@pytest.mark.parametrize(("place", "fields"), NEVER_KEPT)
def test_what_no_note_can_say_was_not_kept_is_refused_by_all(place: str, fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"role 'main': {re.escape(place)} .*{WHY}"):
        check_encodable(app(fields), takes_bytes=True)


@pytest.mark.parametrize(("place", "fields"), KEPT_AS_BYTES)
def test_bytes_that_a_machine_takes_are_not_noted_as_another_text(place: str, fields: dict[str, Any]) -> None:
    mine = app(fields)
    check_encodable(mine, takes_bytes=True)
    roles, _ = read_app_note(json.loads(json.dumps(app_note(mine)).encode()))

    with pytest.raises(ConfigError, match=f"role 'main': {place} was not kept") as caught:
        check_app(AppDef("job", roles))
    if not isinstance(fields.get("env", {}).get("A"), Secret):
        assert "a lone surrogate" in (caught.value.why or "")


def test_the_metadata_of_an_app_are_looked_through() -> None:
    with pytest.raises(ConfigError, match="app 'job': metadata a cannot be encoded"):
        check_encodable(AppDef("job", [], {"a": HALF}), takes_bytes=True)


TEXTS = st.text(st.characters(exclude_categories=()), max_size=8)


@given(texts=st.lists(TEXTS), env=st.dictionaries(st.sampled_from("ABC"), TEXTS), metadata=st.lists(TEXTS))
def test_what_is_not_refused_comes_back_or_was_not_kept(
    texts: list[str], env: dict[str, str], metadata: list[str]
) -> None:
    mine = app({"args": texts, "env": env, "metadata": {"a": metadata}})
    try:
        check_encodable(mine, takes_bytes=True)
    except ConfigError:
        assert any(text.encode(errors="replace") != text.encode(errors="surrogatepass") for text in metadata)
        return
    (role,), _ = read_app_note(json.loads(json.dumps(app_note(mine)).encode()))
    (before,) = mine.roles

    for old, new in zip([*before.args, *before.env.values()], [*role.args, *role.env.values()], strict=True):
        assert isinstance(new, NotKept) or old == new
    assert dataclasses.replace(before, args=[], env={}, metadata={}) == dataclasses.replace(
        role, args=[], env={}, metadata={}
    )
