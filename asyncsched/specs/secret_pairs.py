"""Values after a name and a colon: JSON, YAML, and the headers of a request."""

from __future__ import annotations

import re

from asyncsched.specs.secret_names import is_secret_name

__all__ = ["LONGEST_REFERENCE", "PAIR", "colon_value"]

PAIR = r"([A-Za-z_][A-Za-z0-9_.-]{0,255})(\\{0,4}[\"'])?([ \t]*:)([ \t]*)(?:[fFbBrRuU]{0,2}(\\{0,4}[\"']))?"

_HEADERS = frozenset({"authorization", "proxy-authorization"})
_SCHEME = r"[A-Za-z][\w-]*[ \t]+(?=\S)"
"""The scheme before the secret in such a header."""

_NO_VALUE = r"(?!\*\*\*$)[{\[|>&*!].*|(?:str|bytes|int|bool|float|object|Any|Optional|None)\b.*|\w+[.(\[]\w*.*[)\]]"
"""The start of a YAML structure, the type of a parameter in a program, or a call."""

_FILLED_IN = r"\{\{?[^{}]*\}?\}"
"""A placeholder that a program or a template fills in."""

_SCHEMES = frozenset({"bearer", "basic", "digest", "token", "negotiate"})

LONGEST_REFERENCE = 1024
"""Longest reference that only names a secret, in characters."""

_FURTHEST = 64
"""Characters before a name to search for the start of its line."""


def colon_value(found: re.Match[str] | None) -> tuple[int, int] | None:
    """Return the span of the value after a secret name and a colon, as `PAIR` finds them.

    A name without quotes counts only at the start of a line or after a quote, an equals sign, a brace or a comma,
    and with a space after its colon; elsewhere it is probably program code. ``Authorization`` counts everywhere.
    """
    if found is None:
        return None
    text, begin = found.string, found.start()
    name, quote, _, space, opening = found.groups()
    before = text[begin - 1] if begin else "\n"
    is_header = name.lower() in _HEADERS
    if not (is_header or (quote and before in "\"'") or (space and _stands_alone(text, begin, before))):
        return None
    if not is_secret_name(name):
        return None
    start = found.end()
    end = _closing(text, start, opening) if opening else _end(text, start, _stops(text, begin, before, quote))
    value = text[start:end].rstrip()
    if is_header:
        ahead = _scheme(value)
        start, value = start + ahead, value[ahead:]
    return None if _is_of_program(value, is_quoted=bool(opening)) else (start, start + len(value))


def _is_of_program(value: str, *, is_quoted: bool) -> bool:
    if len(value) > LONGEST_REFERENCE:
        return False
    pattern = _FILLED_IN if is_quoted else f"{_FILLED_IN}|{_NO_VALUE}"
    return re.fullmatch(pattern, value) is not None


def _scheme(value: str) -> int:
    """Return the length of the scheme before a header's secret, such as ``Bearer``."""
    if value.lower() in _SCHEMES:
        return len(value)
    found = re.match(_SCHEME, value)
    return found.end() if found else 0


def _stands_alone(text: str, begin: int, before: str) -> bool:
    if before in "\"'={" or text[max(0, begin - 2) : begin] in (", ", "{ "):
        return True
    line = text[max(0, begin - _FURTHEST) : begin].rpartition("\n")[2]
    return not line.strip(" \t-") and len(line) < _FURTHEST


def _closing(text: str, start: int, quote: str) -> int:
    """Return where a quoted value ends: at an unescaped quote, or at the end of its line or of the text."""
    at = text.find(quote, start)
    while at >= 0:
        slashes = text[max(start, at - 8) : at]
        count = len(slashes) - len(slashes.rstrip("\\"))
        if count == 0 or (len(quote) == 1 and count % 2 == 0):
            return at
        at = text.find(quote, at + 1)
    return len(text)


def _stops(text: str, begin: int, before: str, quote: str | None) -> str:
    """Return the characters that end a value without quotes."""
    if quote or before == "{" or text[max(0, begin - 2) : begin] in (", ", "{ "):
        return r",}\]\r\n"
    return rf"{before}\r\n" if before in "\"'" else r"\r\n"


def _end(text: str, start: int, stops: str) -> int:
    found = re.compile(f"[^{stops}]*").match(text, start)
    return found.end() if found else start
