"""Macros mean here what `string.Template` makes of them in TorchX, or are refused."""

from __future__ import annotations

import re
from collections.abc import Collection
from string import Template

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from asyncsched.specs import macros
from asyncsched.torchx.templates import NAMES, OLD_NAMES, as_our_literal, as_ours, as_their_literal, as_theirs

# Values with dollars and braces: what is filled in must not be read again.
VALUES = {
    "img_root": "$${app_id}",
    "base_img_root": "${x}",
    "app_id": "{app}",
    "replica_id": "3",
    "rank0_env": "RANK0_HOST",
}
OURS = macros.Values(**VALUES)

parts = ["$", "$$", "{", "}", "x", "_", "é", "${", "$${", "\n", "app_id", "rank0_env", "base_img_root", "APP_ID"]
parts += [f"${{{name}}}" for name in OLD_NAMES] + [f"${name}" for name in OLD_NAMES] + ["$$${rank0_env}"]
texts = st.lists(st.sampled_from(parts) | st.characters(codec="utf-8")).map("".join)
known = st.sampled_from([NAMES, OLD_NAMES])


def theirs(text: str, names: Collection[str]) -> str:
    return Template(text).safe_substitute({name: VALUES[name] for name in names})


@given(texts, known)
@example("$$$${app_id}", NAMES)
@example("$$${rank0_env}", NAMES)
@example("$app_idé", OLD_NAMES)
def test_a_text_of_theirs_comes_out_the_same_or_is_refused(text: str, names: Collection[str]) -> None:
    try:
        written = as_ours(text, names)
    except ValueError:
        assume(False)
    expected = theirs(text, names)
    # A shell reads ${NAME} as $NAME.
    in_braces = re.sub(r"(?a)(?<!\$)((?:\$\$)*)\$RANK0_HOST(?!\w)", r"\1${RANK0_HOST}", expected)

    assert OURS.substitute(written) in (expected, in_braces)


@given(texts, known)
def test_nothing_is_refused_without_need(text: str, names: Collection[str]) -> None:
    """What cannot be written is an even number of dollars before a brace, or an odd one before a macro."""
    pieces = re.split(r"\0", Template(text).safe_substitute(dict.fromkeys(names, "\0")))
    hard = any(re.search(r"(?<!\$)(?:\$\$)+\{", piece) for piece in pieces)
    hard = hard or any(re.search(r"(?<!\$)\$(?:\$\$)*\Z", piece) for piece in pieces[:-1])
    assume("\0" not in text and not hard)

    as_ours(text, names)


def test_what_most_components_write() -> None:
    assert "${${rank0_env}:=localhost}:29500" == as_ours("$${${rank0_env}:=localhost}:29500", NAMES)
    assert "--id ${app_id} --pid $$" == as_ours("--id $app_id --pid $$$$", NAMES)
    assert "$${app_id}" == as_ours("$${app_id}", NAMES)
    assert "$${base_img_root}/x" == as_ours("${base_img_root}/x", NAMES)
    assert "ping ${${rank0_env}}" == as_ours("ping $$${rank0_env}", NAMES)
    assert "cost: $5, ${HOME}, $HOME" == as_ours("cost: $5, ${HOME}, $HOME", NAMES)


@pytest.mark.parametrize("text", ["$$${app_id}", "$$$${app_id}", "$$${rank0_env}x", "$$$${x}"])
def test_what_cannot_be_written_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"a \$ cannot be written before"):
        as_ours(text, NAMES)


@given(texts, known)
@example("${\0base_img_root}", NAMES)
def test_a_text_of_ours_comes_out_the_same_or_is_refused(text: str, names: Collection[str]) -> None:
    with_one, with_another = (macros.Values("", "", "", "", base_img_root=each).substitute(text) for each in "ab")
    if names is NAMES and with_one != with_another:
        with pytest.raises(ValueError, match="this TorchX has no macro base_img_root"):
            as_theirs(text, names)
    else:
        assert OURS.substitute(text) == theirs(as_theirs(text, names), names)


def test_a_text_of_ours_keeps_its_shell_variables_as_they_are() -> None:
    assert "echo $HOME ${USER} $5 ${app_id}" == as_theirs("echo $HOME ${USER} $5 ${app_id}", NAMES)
    assert "$$app_id $$$$" == as_theirs("$app_id $$", NAMES)


@given(texts, known)
def test_there_and_back(text: str, names: Collection[str]) -> None:
    try:
        back = as_ours(as_theirs(text, names), names)
    except ValueError:
        assume(False)
    plain = macros.Values(**{**VALUES, "rank0_env": "\0"})
    expected = plain.substitute(text)

    assert plain.substitute(back) in (expected, re.sub(r"(?<!\$)((?:\$\$)*)\$\0(?!\w)", "\\1${\0}", expected))


@given(texts)
def test_where_macros_are_not_searched_a_text_stays_what_it_is(text: str) -> None:
    try:
        written = as_our_literal(text)
    except ValueError:
        assert re.search(r"(?<!\$)(?:\$\$)+\{", text)
    else:
        assert text == OURS.substitute(written)
        assert text == as_their_literal(written)


def test_a_macro_cannot_stand_where_none_is_searched() -> None:
    with pytest.raises(ValueError, match="does not replace macros here"):
        as_their_literal("${app_id}")
