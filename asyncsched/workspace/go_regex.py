r"""Translate Go's regular expressions, which ``.dockerignore`` patterns become, into Python's.

The two differ in what Docker allows: ``\Q``, ``\z``, ``\pL``, ``[[:alpha:]]``, ``\d`` and ``\s``, counts such as
``{,3}``, and the letters that may follow a backslash. The only groups are those that ``**`` becomes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from functools import cache

__all__ = ["compiled"]

Ranges = Sequence[tuple[int, int]]
"""Characters, as pairs of the first and the last code point."""

LARGEST_COUNT = 1000
"""The largest repeat count that Go allows."""

_ANY: Ranges = ((0, sys.maxunicode),)
_DIGIT, _UPPER, _LOWER = (0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)
_PUNCTUATION = ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E))
_WORD = (_DIGIT, _UPPER, _LOWER, (0x5F, 0x5F))
_BY_LETTER: dict[str, Ranges] = {"d": (_DIGIT,), "s": ((9, 10), (12, 13), (32, 32)), "w": _WORD}
_BY_NAME: dict[str, Ranges] = {
    "alnum": (_DIGIT, _UPPER, _LOWER),
    "alpha": (_UPPER, _LOWER),
    "ascii": ((0, 0x7F),),
    "blank": ((9, 9), (32, 32)),
    "cntrl": ((0, 0x1F), (0x7F, 0x7F)),
    "digit": (_DIGIT,),
    "graph": ((0x21, 0x7E),),
    "lower": (_LOWER,),
    "print": ((0x20, 0x7E),),
    "punct": _PUNCTUATION,
    "space": ((9, 13), (32, 32)),
    "upper": (_UPPER,),
    "word": _WORD,
    "xdigit": (_DIGIT, (0x41, 0x46), (0x61, 0x66)),
}
_CATEGORIES = {"C": "cfos", "L": "lmotu", "M": "cen", "N": "dlo", "P": "cdefios", "S": "ckmo", "Z": "lps"}
"""The Unicode categories that Go knows, with the second letters of each."""

_CONTROLS = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_ASSERTIONS = {"A": r"\A", "b": r"\b", "B": r"\B", "z": r"\Z"}

_COUNT = re.compile(r"\{(?P<least>0|[1-9][0-9]*)(?P<comma>,(?P<most>0|[1-9][0-9]*)?)?\}")
_OCTAL = re.compile(r"0[0-7]{0,2}|[1-7][0-7]{1,2}")
_HEX = re.compile(r"x(?:\{(?P<many>[0-9A-Fa-f]+)\}|(?P<two>[0-9A-Fa-f]{2}))")
_CLASS_OF_UNICODE = re.compile(r"\\(?P<kind>[pP])(?:\{(?P<name>[^}]*)\}|(?P<letter>.))", re.DOTALL)


def compiled(expression: str) -> re.Pattern[str]:
    """Return a pattern that matches as Go's regular expression does.

    Raises:
        ValueError: Go rejects it, or it names a Unicode script, which Python does not know.
    """
    return re.compile("".join(_Reader(expression).read()), re.ASCII)


class _Reader:
    """Reads an expression from left to right.

    Attributes:
        text: The expression.
        at: The current position.
    """

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self._parts: list[str] = []
        self._can_repeat = False
        self._is_repeated = False

    def read(self) -> list[str]:
        """Return the expression's pieces in Python's syntax."""
        while self.at < len(self.text):
            self._read_one()
        return self._parts

    def _read_one(self) -> None:
        text, at = self.text, self.at
        if count := _COUNT.match(text, at):
            self._repeat(count)
        elif text.startswith("(.*/)?", at):
            self._add("(?:.*/)?", 6)
            self._is_repeated = True
        elif text[at] == "[":
            self._add(_written(self._brackets()), 0)
        elif text[at] == "*":
            self._repeat(None)
        elif text[at] == "|":
            self._add("|", 1)
            self._can_repeat = False
        elif text[at] in "^$":
            self._add(r"\A" if text[at] == "^" else r"\Z", 1)
        elif text.startswith(".*", at):
            self._add(".", 1)
        elif text[at] == "\\":
            self._escaped(text[at + 1 : at + 2])
        else:
            self._add(re.escape(text[at]), 1)

    def _add(self, part: str, length: int) -> None:
        self._parts.append(part)
        self.at += length
        self._can_repeat, self._is_repeated = True, False

    def _repeat(self, count: re.Match[str] | None) -> None:
        what = count[0] if count is not None else "*"
        if count is not None and max(int(count["least"]), int(count["most"] or 0)) > LARGEST_COUNT:
            raise ValueError(f"{what} repeats more than {LARGEST_COUNT} times")
        if count is not None and count["most"] and int(count["most"]) < int(count["least"]):
            raise ValueError(f"{what} has its bounds in the wrong order")
        if not self._can_repeat or self._is_repeated:
            raise ValueError(f"there is nothing before {what} to repeat")
        self._parts[-1] = f"(?:{self._parts[-1]}){what}"
        self.at += len(what)
        self._is_repeated = True

    def _escaped(self, letter: str) -> None:
        """Read an escape outside of brackets."""
        if letter in _ASSERTIONS:
            self._add(_ASSERTIONS[letter], 2)
        elif letter == "Q":
            literal, _, _ = self.text[self.at + 2 :].partition(r"\E")
            self.at = min(len(self.text), self.at + 4 + len(literal))
            self._is_repeated = False
            for each in literal:
                self._add(re.escape(each), 0)
        else:
            found = self._class()
            self._add(_written(_one(self._letter()) if found is None else found), 0)

    def _brackets(self) -> Ranges:
        """Read a class in brackets; Docker has checked before that they are closed."""
        self.at += 1
        is_negated = self.text.startswith("^", self.at)
        self.at += is_negated
        found = [*self._part_of_class()]
        while not self.text.startswith("]", self.at):
            found.extend(self._part_of_class())
        self.at += 1
        return _others(found) if is_negated else found

    def _part_of_class(self) -> Ranges:
        for read in (self._named, self._class):
            if (found := read()) is not None:
                return found
        first = last = self._letter()
        if self.text.startswith("-", self.at) and self.text[self.at + 1 : self.at + 2] not in ("", "]"):
            self.at += 1
            last = self._letter()
        if last < first:
            raise ValueError(f"{chr(first)}-{chr(last)} has its bounds in the wrong order")
        return ((first, last),)

    def _named(self) -> Ranges | None:
        end = self.text.find(":]", self.at + 2) if self.text.startswith("[:", self.at) else -1
        if end < 0:
            return None
        name = self.text[self.at + 2 : end]
        known = _BY_NAME.get(name.removeprefix("^"))
        if known is None:
            raise ValueError(f"there is no class [:{name}:]")
        self.at = end + 2
        return _others(known) if name.startswith("^") else known

    def _class(self) -> Ranges | None:
        r"""Read ``\d``, ``\pL`` and the like; return None and read nothing if there is something else."""
        if found := _CLASS_OF_UNICODE.match(self.text, self.at):
            self.at = found.end()
            return _of_unicode(found["kind"] == "P", found["letter"] or found["name"])
        letter = self.text[self.at + 1 : self.at + 2] if self.text.startswith("\\", self.at) else ""
        if letter.lower() not in _BY_LETTER:
            return None
        self.at += 2
        return _BY_LETTER[letter] if letter in _BY_LETTER else _others(_BY_LETTER[letter.lower()])

    def _letter(self) -> int:
        """Read one character, escaped or not."""
        if self.at >= len(self.text):
            raise ValueError("its brackets are not closed")
        letter = self.text[self.at]
        self.at += 1
        return ord(letter) if letter != "\\" else self._letter_behind_backslash()

    def _letter_behind_backslash(self) -> int:
        text, at = self.text, self.at
        letter = text[at : at + 1]
        if octal := _OCTAL.match(text, at):
            self.at = octal.end()
            return int(octal[0], 8)
        if (digits := _HEX.match(text, at)) and (code := int(digits["many"] or digits["two"], 16)) <= sys.maxunicode:
            self.at = digits.end()
            return code
        self.at += 1
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if not letter.isascii() or letter.isalnum() or not letter:
            raise ValueError(f"\\{letter} is not an escape that Go knows")
        return ord(letter)


def _one(letter: int) -> Ranges:
    return ((letter, letter),)


def _of_unicode(is_negated: bool, name: str) -> Ranges:
    is_negated ^= name.startswith("^")
    name = name.removeprefix("^")
    if name != "Any" and not (name[:1] in _CATEGORIES and name[1:] in ("", *_CATEGORIES[name[:1]])):
        raise ValueError(f"\\p{{{name}}} is not a Unicode category; Unicode scripts are not supported")
    known = _ANY if name == "Any" else _category(name)
    return _others(known) if is_negated else known


@cache
def _category(name: str) -> Ranges:
    import unicodedata  # imported only when a category is named

    found: list[tuple[int, int]] = []
    for code in range(sys.maxunicode + 1):
        category = unicodedata.category(chr(code))
        if not category.startswith(name) or category == "Cn":
            continue
        if found and found[-1][1] == code - 1:
            found[-1] = (found[-1][0], code)
        else:
            found.append((code, code))
    return found


def _others(ranges: Ranges) -> Ranges:
    """Return the characters that are in none of the ranges."""
    found: list[tuple[int, int]] = []
    at = 0
    for first, last in sorted(ranges):
        if at < first:
            found.append((at, first - 1))
        at = max(at, last + 1)
    return [*found, (at, sys.maxunicode)] if at <= sys.maxunicode else found


def _written(ranges: Ranges) -> str:
    if not ranges:
        return "(?!)"  # matches no character
    return "[" + "".join(rf"\U{first:08x}-\U{last:08x}" for first, last in ranges) + "]"
