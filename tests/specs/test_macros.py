from __future__ import annotations

import copy
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched.specs import BindMount, Role, Secret, macros
from asyncsched.specs.macros import escaped, unknown_macros

VALUES = macros.Values(img_root="/root", app_id="app-1", replica_id="3", rank0_env="RANK0_HOST")

texts = st.lists(
    st.sampled_from(
        [
            "$",
            "$$",
            "${app_id}",
            "$app_id",
            "${HOME}",
            "{app_id}",
            "${",
            "}",
            "x",
            "${replica_id}",
            "${app_id",
            "$${",
            "$${app_id}",
            "$${${rank0_env}:=localhost}",
        ]
    )
).map("".join)
nested = st.recursive(
    st.none() | st.integers() | texts,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
roles = st.builds(
    Role,
    name=st.text(max_size=3),
    image=texts,
    entrypoint=texts,
    args=st.lists(texts),
    env=st.dictionaries(st.text(max_size=3), texts | texts.map(Secret)),
    metadata=st.dictionaries(st.text(max_size=3), nested),
)


def test_each_macro() -> None:
    text = f"{macros.img_root} {macros.app_id} {macros.replica_id} {macros.rank0_env} {macros.base_img_root}"

    assert "/root app-1 3 RANK0_HOST DEPRECATED" == VALUES.substitute(text)


def test_what_belongs_to_the_shell_is_left_to_it() -> None:
    for text in ("echo pid=$$", "$app_id", "${HOME}", "$$$$", "${app_id", "$", "${ app_id }", "$$$${", "${}"):
        assert text.replace("$${", "${") == VALUES.substitute(text)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("$${app_id}", "${app_id}"),
        ("$${HOME}", "${HOME}"),
        ("$${", "${"),
        ("$$${app_id}", "$$app-1"),
        ("$$$${app_id}", "$$${app_id}"),
        ("$$$$${app_id}", "$$$$app-1"),
        ("$${${rank0_env}:=localhost}:29500", "${RANK0_HOST:=localhost}:29500"),
        ("${${rank0_env}:=localhost}:29500", "${RANK0_HOST:=localhost}:29500"),
    ],
)
def test_an_escape_stands_for_what_would_be_a_macro(written: str, expected: str) -> None:
    assert expected == VALUES.substitute(written)


@given(texts)
def test_the_rule_is_read_from_left_to_right(text: str) -> None:
    assert by_the_rule(text) == VALUES.substitute(text)


def by_the_rule(text: str) -> str:
    """Say the rule once more, step by step."""
    known = {"${app_id}": "app-1", "${replica_id}": "3", "${rank0_env}": "RANK0_HOST", "$${": "${", "$$": "$$"}
    result = ""
    while text:
        read = next((token for token in known if text.startswith(token)), text[0])
        result += known.get(read, read)
        text = text[len(read) :]
    return result


@given(texts)
def test_what_is_escaped_reaches_the_program_as_it_was(text: str) -> None:
    for given_text in (text, VALUES.substitute(text)):
        try:
            written = escaped(given_text)
        except ValueError:
            assert "$${" in given_text
        else:
            assert given_text == VALUES.substitute(written)


@given(texts)
def test_what_a_program_got_can_be_written_again(text: str) -> None:
    assert VALUES.substitute(escaped(VALUES.substitute(text))) == VALUES.substitute(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${replica} ${replica} ${app_ids}", ["replica", "app_ids"]),
        ("${APP_ID} ${Replica_Id}", ["APP_ID", "Replica_Id"]),
        ("${app_id} ${HOME} ${LD_LIBRARY_PATH} $replica $${replica} ${${rank0_env}} ${x:-y} ${1} ${}", []),
    ],
)
def test_what_looks_like_a_macro_and_is_none(text: str, expected: list[str]) -> None:
    assert expected == unknown_macros(text)


def test_a_value_is_not_read_again() -> None:
    values = macros.Values(img_root="${app_id}", app_id="${replica_id}", replica_id="$$", rank0_env="")

    assert "${app_id} ${replica_id} $$" == values.substitute("${img_root} ${app_id} ${replica_id}")


def test_where_macros_are_replaced() -> None:
    role = Role(
        "r",
        "${app_id}",
        entrypoint="${app_id}",
        args=["--id=${app_id}", "$$"],
        env={"${app_id}": "${app_id}"},
        metadata={"a": {"b": ["${app_id}", {"c": "${app_id}"}]}, "t": ("${app_id}", 1), "n": 5},
        mounts=[BindMount("${app_id}", "/x")],
    )

    assert VALUES.apply(role) == Role(
        "r",
        "${app_id}",
        entrypoint="${app_id}",
        args=["--id=app-1", "$$"],
        env={"${app_id}": "app-1"},
        metadata={"a": {"b": ["app-1", {"c": "app-1"}]}, "t": ("app-1", 1), "n": 5},
        mounts=[BindMount("${app_id}", "/x")],
    )


def test_a_secret_stays_one() -> None:
    role = VALUES.apply(Role("r", "i", env={"A": Secret("${app_id}-marker")}, args=[Secret("marker")]))

    assert {"A": Secret("app-1-marker")} == role.env
    assert isinstance(role.args[0], Secret)
    assert "marker" not in repr(role)


@dataclass
class NamedRole(Role):
    nick: str = ""


def test_a_subclass_stays_one() -> None:
    role = NamedRole("r", "i", nick="${app_id}", args=["${app_id}"])

    assert NamedRole("r", "i", nick="${app_id}", args=["app-1"]) == VALUES.apply(role)


@given(roles)
def test_the_role_that_is_given_is_never_changed(role: Role) -> None:
    before = copy.deepcopy(role)
    result = VALUES.apply(role)
    result.args.append("more")
    result.env["more"] = "more"
    result.resource.capabilities["more"] = True
    for value in result.metadata.values():
        if isinstance(value, list | dict):
            value.clear()
    result.metadata.clear()

    assert before == role
