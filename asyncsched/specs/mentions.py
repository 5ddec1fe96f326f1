"""Whether a text may hold a secret at all, whatever its form: the question of a note, which keeps a text or leaves it.

What is printed needs `secret_text`, which finds the secret in a text. Here no form is parsed, so that none is missed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from asyncsched.specs.secret_names import find_parts, is_secret_name

__all__ = ["LONGEST_TEXT", "may_hold_secret", "which_may_hold_secrets"]

LONGEST_TEXT = 128 * 1024
"""Characters: Linux gives no program a longer argument or variable. A longer text is not looked through."""

_MOST = 1000
"""Places that are looked at in a text; one with more of them counts as one with a secret."""

_AT_ONCE = 64
"""Texts that are looked through as one."""

_LONGEST_NAME = 256

_OF_NAMES = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_OF_WORDS = _OF_NAMES.removesuffix(".-")
_REST_OF_NAME = re.compile(rf"[A-Za-z0-9_.-]{{0,{_LONGEST_NAME}}}")

_ASSIGNED = r"[\"'\\]{0,8}\s{0,16}[=:!]"
_GIVEN_A_VALUE = re.compile(_ASSIGNED)
_REFERENCE = re.compile(rf"(?a)\$(?:\w++|\{{\w+\}})(?!{_ASSIGNED})")
"""What only names a secret, and gives it no value: ``$DB_PASSWORD``, but not ``$password = "x"``."""

_COMMANDS = frozenset({"pass", "pwd"})
"""Words of programs, which are names of secrets where a value is given to them, or dashes stand before them."""

_PHRASES = ("PRIVATE KEY", "BEARER ")

_ESCAPED_LETTER = re.compile(r"\\(?:u00|x)[3-7][0-9A-Fa-f]")
"""A name may be spelled so, as in JSON."""

_DIGEST = re.compile(r"sha\d+:")


def may_hold_secret(text: str) -> bool:
    """Tell whether the name of a secret stands in a text, or credentials stand in it before an ``@``.

    A mere reference, such as ``$DB_PASSWORD``, does not count. A text of more than `LONGEST_TEXT` characters
    always does, and so does one with more places to look at than can be searched quickly.
    """
    return len(text) > LONGEST_TEXT or _may_hold_secret(text)


def which_may_hold_secrets(texts: Sequence[str]) -> list[bool]:
    """Tell of each of many texts what `may_hold_secret` does."""
    which: list[bool] = []
    for start in range(0, len(texts), _AT_ONCE):
        some = texts[start : start + _AT_ONCE]
        which += map(may_hold_secret, some) if may_hold_secret("\n".join(some)) else [False] * len(some)
    return which


def _may_hold_secret(text: str) -> bool:
    upper = text.upper()
    if _ESCAPED_LETTER.search(text) or any(phrase in upper for phrase in _PHRASES) or _has_credentials(text):
        return True
    if upper.count("KEY") > _MOST:  # most of which `find_parts` would pass over one by one
        return True
    return any(looked == _MOST or _is_named_at(text, at) for looked, at in enumerate(find_parts(text)))


def _is_named_at(text: str, at: int) -> bool:
    """Tell whether the name that this place belongs to is that of a secret."""
    if _is_reference(text, at):
        return False
    before = text[max(0, at - _LONGEST_NAME) : at]
    begin = at - len(before) + len(before.rstrip(_OF_NAMES))
    rest = _REST_OF_NAME.match(text, at)
    end = rest.end() if rest else at
    if end - begin > _LONGEST_NAME:
        return True
    name = text[begin:end].strip(".-")
    if name.lower() in _COMMANDS and text[begin] != "-":
        return _GIVEN_A_VALUE.match(text, end) is not None
    return is_secret_name(name)


def _is_reference(text: str, at: int) -> bool:
    before = text[max(0, at - _LONGEST_NAME) : at].rstrip(_OF_WORDS)
    dollar = at - min(at, _LONGEST_NAME) + len(before.removesuffix("{")) - 1
    found = _REFERENCE.match(text, dollar) if dollar >= 0 else None
    return found is not None and found.end() > at


def _has_credentials(text: str) -> bool:
    """Tell whether a user and a password, or a token, may stand before an ``@``, as in a URL."""
    pieces = text.split("@", _MOST)
    if len(pieces) > _MOST:
        return True
    for before, after in pairwise(pieces):
        word = "" if before[-1:].isspace() else (before.split() or [""])[-1]
        _, is_url, user = ("", "", word) if "://" not in word else word.partition("://")
        if (is_url and "/" not in user) or (":" in user and not _DIGEST.match(after)):
            return True
    return False
