"""Tell whether a text may contain a secret in any form, for notes, which keep a text whole or leave it out.

To mask what is printed, `secret_text` finds the secret itself. This module parses no form, so that it misses none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from asyncsched.specs.secret_names import find_parts, is_secret_name
from asyncsched.specs.secret_text import user_spans

__all__ = ["LONGEST_TEXT", "may_hold_secret", "which_may_hold_secrets"]

LONGEST_TEXT = 128 * 1024
"""Longest text to search, in characters: Linux passes no longer argument or variable to a program."""

_MOST = 1000
"""Places to check in a text; a text with more counts as one with a secret."""

_AT_ONCE = 64
"""Texts to search at once."""

_LONGEST_NAME = 256
_LONGEST_OPTION = 64

_OF_NAMES = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_OF_WORDS = _OF_NAMES.removesuffix(".-")
# Patterns are compiled on first use, and cached by `re`, so that imports stay fast.
_REST_OF_NAME = rf"[A-Za-z0-9_.-]{{0,{_LONGEST_NAME}}}"

_GIVEN_A_VALUE = r"[\"'\\]{0,8}\s{0,16}[=:!]"
_OPERATOR = r"[\"'\\]{0,8}\s{0,16}(?:[^\w\s\"'$]{0,3}=|[:!~]|<<)"
_REFERENCE = rf"(?a)\$(?:\w++|\{{\w+\}})(?!{_OPERATOR})"
"""A reference that names a secret without giving it a value: ``$DB_PASSWORD``, but not ``$password = "x"``,
``$password ||= "x"`` or ``$password ~ "x"``."""

_COMPARED = "(?:eq|ne|[gl][te]|cmp|in|is|not|and|or|if|elif|unless|while|until|case|switch|match|for|select|return)"
_OF_OPTION = r"(?:\A|\s)(?!-(?:eq|ne|[gl][te])\s)--?\w[\w.-]*[ \t]+[\"']?\Z" r"|(?:\A|[\s;&|])-{0,2}\w[\w.-]*=[\"']?\Z"
"""The text before a reference that is the value of an option or of a variable."""
_OTHER = r"[\"']?\$(?:\w++|\{\w+\})[\"']?"
_OF_COMMAND = rf"(?:\A|[\n;&|(])[ \t]*(?!{_COMPARED}\b)[\w./-]+[ \t]+(?:{_OTHER}[ \t]+)*[\"']?\Z|\A[\"']?\Z"
_LAST = rf"[\"']?(?:[ \t]+{_OTHER})*(?:[ \t]+-|[ \t]*(?:\Z|[\n;&|)]))"
"""The text around a reference that is a whole text, or an argument of a command whose other arguments are references
and options."""

_COMMANDS = frozenset({"auth", "pass", "pw", "pwd"})
"""Common words in programs; they name a secret only where they get a value, or after dashes."""

_PHRASES = ("PRIVATE KEY", "BEARER ")

_ESCAPED_LETTER = r"\\(?:u00|x)[3-7][0-9A-Fa-f]"
"""An escaped letter of a name, as in JSON."""

_WITH_SPACES = r"[^\s/?#:]*:(?!\d{1,5}(?:[/?#\s]|\Z))[^\n]*\Z"
"""A user and a password in a URL, which may contain spaces; a port is not a password."""

_DIGEST = r"sha\d+:"


def may_hold_secret(text: str) -> bool:
    """Return whether a text contains the name of a secret, or credentials before an ``@``.

    A reference that only passes a secret on, such as ``login -p $DB_PASSWORD``, does not count. A text longer than
    `LONGEST_TEXT`, or with too many places to search quickly, always counts.
    """
    return len(text) > LONGEST_TEXT or _may_hold_secret(text)


def which_may_hold_secrets(texts: Sequence[str]) -> list[bool]:
    """Return the result of `may_hold_secret` for each of many texts."""
    which: list[bool] = []
    for start in range(0, len(texts), _AT_ONCE):
        some = texts[start : start + _AT_ONCE]
        which += map(may_hold_secret, some) if any(some) and may_hold_secret("\n".join(some)) else [False] * len(some)
    return which


def _may_hold_secret(text: str) -> bool:
    upper = text.upper()
    if re.search(_ESCAPED_LETTER, text) or any(phrase in upper for phrase in _PHRASES) or any(user_spans(text)):
        return True
    if _has_credentials(text) or upper.count("KEY") > _MOST:  # `find_parts` would skip most of them one by one
        return True
    return any(looked == _MOST or _is_named_at(text, at) for looked, at in enumerate(find_parts(text)))


def _is_named_at(text: str, at: int) -> bool:
    """Return whether the name around this place is that of a secret."""
    if _is_reference(text, at):
        return False
    before = text[max(0, at - _LONGEST_NAME) : at]
    begin = at - len(before) + len(before.rstrip(_OF_NAMES))
    rest = re.compile(_REST_OF_NAME).match(text, at)
    end = rest.end() if rest else at
    if end - begin > _LONGEST_NAME:
        return True
    name = text[begin:end].strip(".-")
    if name.lower() in _COMMANDS and text[begin] != "-":
        return re.compile(_GIVEN_A_VALUE).match(text, end) is not None
    return is_secret_name(name)


def _is_reference(text: str, at: int) -> bool:
    before = text[max(0, at - _LONGEST_NAME) : at].rstrip(_OF_WORDS)
    dollar = at - min(at, _LONGEST_NAME) + len(before.removesuffix("{")) - 1
    found = re.compile(_REFERENCE).match(text, dollar) if dollar >= 0 else None
    return found is not None and found.end() > at and _is_handed_over(text, dollar, found.end())


def _is_handed_over(text: str, start: int, end: int) -> bool:
    """Return whether a reference only passes a secret on, and is neither assigned to nor compared with a value."""
    begin = max(0, start - _LONGEST_OPTION)
    if re.compile(_OF_OPTION).search(text, begin, start):
        return True
    return (
        re.compile(_LAST).match(text, end) is not None
        and re.compile(_OF_COMMAND).search(text, begin, start) is not None
    )


def _has_credentials(text: str) -> bool:
    """Return whether a user and a password, or a token, may precede an ``@``, as in a URL."""
    pieces = text.split("@", _MOST)
    if len(pieces) > _MOST:
        return True
    for before, after in pairwise(pieces):
        if re.match(_WITH_SPACES, before.rpartition("://")[2]) and "://" in before:
            return True
        word = "" if before[-1:].isspace() else (before.split() or [""])[-1]
        _, is_url, user = ("", "", word) if "://" not in word else word.partition("://")
        if (is_url and "/" not in user) or (":" in user and not re.match(_DIGEST, after)):
            return True
    return False
