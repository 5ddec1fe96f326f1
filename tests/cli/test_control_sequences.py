"""What a terminal would obey in text that others wrote."""

from __future__ import annotations

import io
import json
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched.cli.console import to_json
from asyncsched.cli.control_sequences import RESET, Cleaner, visible

COLORS = re.compile(r"\x1b\[[0-9;:]*m")
CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")

DIRECTIONS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"

PIECES = st.one_of(
    st.sampled_from([
        "\x1b", "[", "]", "m", "31", ";", "?", ">", " ", "\x07", "\\", "\x1b\\", "\x9b", "\x9c", "\x9d", "\x90", "P",
        "_", "^", "X", "\n", "\r", "\t", "\b", "\x18", "\x1a", "(", "B", "c", "0;title", "2J", "1A", "2K", "\x1b[31m",
        "\x1b[m", "\x1b[0m", "\x1b[2J", "\x1b[?1049h", "\x1b]0;t\x07", "\x1b]52;c;QQ==\x1b\\", "\x1b[6n", "\x1bc",
        "\x1bP+q\x1b\\",
        "\x1b[38;2;1;2;3m", "\x1b[>4;1m", "9" * 300, "word", "\xe9", "\u20ac",
    ]),
    st.text(max_size=4),
)  # fmt: skip
TEXTS = st.lists(PIECES, max_size=12).map("".join)


def cleaned(*pieces: str, moves: bool = False) -> str:
    cleaner = Cleaner(moves=moves)
    return "".join(map(cleaner.clean, pieces))


@given(TEXTS)
def test_only_colours_remain(text: str) -> None:
    assert not CONTROLS.search(COLORS.sub("", cleaned(text)))


@given(TEXTS, st.booleans())
def test_cleaning_twice_is_cleaning_once(text: str, moves: bool) -> None:
    once = cleaned(text, moves=moves)

    assert once == cleaned(once, moves=moves)
    assert visible(text) == visible(visible(text))


@given(
    st.text(st.characters(exclude_categories=["Cc"], exclude_characters=DIRECTIONS, include_characters="\t\n")),
    st.booleans(),
)
def test_text_without_controls_is_untouched(text: str, moves: bool) -> None:
    assert text == cleaned(text, moves=moves) == visible(text)


@given(st.text(st.sampled_from(f"a{DIRECTIONS}")))
def test_a_name_cannot_show_as_another_one_by_turning_its_direction(name: str) -> None:
    assert not set(visible(name)) & {*DIRECTIONS}
    assert visible(name) == visible(name, one_line=True)
    assert name == cleaned(name), "a replica may write in any script"


@given(st.lists(TEXTS, max_size=4), st.lists(st.integers(0, 60)), st.booleans())
def test_any_pieces_give_the_same(texts: list[str], cuts: list[int], moves: bool) -> None:
    text = "".join(texts)
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[start:end] for start, end in pairwise(places)]

    assert cleaned(text, moves=moves) == cleaned(*pieces, moves=moves) == cleaned(*text, moves=moves)


@given(st.lists(TEXTS, max_size=4))
def test_no_colour_goes_beyond_its_line(texts: list[str]) -> None:
    cleaner = Cleaner()
    for text in texts:
        for line in cleaner.clean(f"{text}\n").splitlines(keepends=True):
            colors = COLORS.findall(line)
            assert not colors or not line.endswith("\n") or re.fullmatch(r"\x1b\[[0;:]*m", colors[-1])
    assert not cleaner.is_colored


@given(st.lists(st.one_of(PIECES, st.sampled_from(["\x1b[A", "\x1b[3A", "\x1b[2B", "\x1b[F", "\x1b[9E", "x\n"]))))
def test_the_cursor_never_leaves_the_lines_of_the_replica(pieces: list[str]) -> None:
    row = lowest = 0
    for move in re.finditer(r"\n|\x1b\[(\d*)([A-Za-z])", cleaned(*pieces, moves=True)):
        count = int(move[1] or 1) if move[2] else 0
        row += {"A": -count, "F": -count, "B": count, "E": count}.get(move[2], move[0] == "\n")
        assert row >= 0
        assert move[2] is None or row <= lowest
        lowest = max(row, lowest)


@given(TEXTS)
def test_our_own_words_have_none(text: str) -> None:
    assert not CONTROLS.search(visible(text))
    assert visible(text, one_line=True).isprintable() or not re.search(
        "[\x00-\x1f\x7f-\x9f]", visible(text, one_line=True)
    )


@pytest.mark.parametrize(
    ("text", "alone", "beside_others"),
    [
        ("\x1b[31mred\x1b[0m\n", "\x1b[31mred\x1b[0m\n", None),
        ("\x1b[31mred\n", f"\x1b[31mred{RESET}\n", None),
        ("\x1b[31;1mred\x1b[39m\n", f"\x1b[31;1mred\x1b[39m{RESET}\n", None),
        ("a\x1b]0;title\x07b\x1b]0;title\x1b\\c\x1b]0;title\x9cd\n", "abcd\n", None),
        ("\x1b]52;c;aGk=\x07x\x1bP+q544e\x1b\\y\x1b_a\x1b\\z\x1b^p\x1b\\\n", "xyz\n", None),
        (
            "\x1b[2Ja\x1b[3Jb\x1b[Hc\x1b[1;1fd\x1b[?1049he\x1b[6nf\x1b[cg\x1bch\x1b[!pi\x1b[sj\x1b7k\n",
            "abcdefghijk\n",
            None,
        ),
        ("\x1b[?25l\x1b(Ba\x1b=b\x0e\x0fc\x07d\x7fe\x00\n", "abcde\n", None),
        ("\x9b2Ja\x9d0;title\x07\x85b\n", "2Ja0;titleb\n", None),
        ("\x1b]never ended\nnext\n", "\nnext\n", None),
        ("end\x1b\nnext\x1b[\nlast\x1b[3\n", "end\nnext\nlast\n", None),
        ("\x1b[>4;1ma\x1b[?4mb\x1b[1 mc\n", "abc\n", None),
        ("one\x1b[Atwo\x1b[5Bthree\x1b[E\n", "onetwothree\r\n", "onetwothree\n"),
        ("one\ntwo\x1b[9A\x1b[2K1\x1b[9B\x1b[3D2\n", "one\ntwo\x1b[1A\x1b[2K1\x1b[1B\x1b[3D2\n", "one\ntwo12\n"),
        ("10%\b\b\b20%\r30%\x1b[K\x1b[0J\x1b[1J\n", "10%\b\b\b20%\r30%\x1b[K\x1b[0J\n", "10%20%\r30%\n"),
        ("\x1b[32m10%\r20%\n", f"\x1b[32m10%\r20%{RESET}\n", f"\x1b[32m10%{RESET}\r20%\n"),
    ],
)
def test_what_passes(text: str, alone: str, beside_others: str | None) -> None:
    assert alone == cleaned(text, moves=True)
    assert (alone if beside_others is None else beside_others) == cleaned(text)


def test_what_never_ends_is_not_kept() -> None:
    for beginning, piece in (
        ("\x1b]0;", "x" * 100_000),
        ("\x1b[", "1;" * 50_000),
        ("\x1bP", "y" * 100_000),
        ("\x1b", "(" * 9),
    ):
        cleaner = Cleaner()
        assert "" == cleaner.clean(beginning)
        for _ in range(50):
            assert "" == cleaner.clean(piece)
            assert len(cleaner._held) < 1000
        assert "\nnext\n" == cleaner.clean("\nnext\n")


def test_our_own_words_are_readable() -> None:
    assert r"n\x1b]0;t\x07 a" == visible("n\x1b]0;t\x07 a")
    assert r"a\u202eb" == visible("a\u202eb")
    assert "a\n\tb\nc" == visible("a\r\n\tb\nc")
    assert r"a\x0db\x0ac\x09\x9b" == visible("a\rb\nc\t\x9b", one_line=True)


@pytest.mark.parametrize("indent", [None, 2])
def test_json_has_no_character_that_a_terminal_obeys_or_that_turns_text(indent: int | None) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    told = {"text": "a\x1b\x7f\x9b2J\u202eb\u2066 \u00e4"}

    shown = to_json(told, out, indent)

    assert told == json.loads(shown)
    assert not re.search("[^\\n -~\u00e4]", shown)
