"""Find secrets in a text: an argument, a script, a URL, a piece of JSON or YAML.

These forms are recognised by a name or by their position:

- ``DB_PASSWORD=value``, and ``--password=value`` or ``--password value``, also over a continued line;
- ``"password": "value"``, ``password: value`` and ``X-Api-Key: value``, as in JSON, YAML and headers;
- ``Authorization: Bearer value``;
- ``-u user:password``, as in curl, but not two numbers;
- ``login -p value``, as in docker;
- ``scheme://user:password@host``, and ``https://token@host``.

A reference that only names a secret, such as ``$DB_PASSWORD`` in a script, is not a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from asyncsched.specs.secret_names import find_parts, is_secret_name
from asyncsched.specs.secret_pairs import LONGEST_REFERENCE, PAIR, colon_value

__all__ = ["follows_login", "follows_secret_option", "gives_password", "replaced", "secret_spans", "user_spans"]

_NAME = r"[A-Za-z_][A-Za-z0-9_.-]*"

_WHOLE = rf"[-+]{{0,2}}({_NAME})"

_NAME_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_LONGEST_NAME = 256

# A keyword argument in program code, as in `f(1, token=x)`, is not masked.
_NAMED = rf"(?<![\w.-])(?<!\w\()(?<!, )(?:--?({_NAME})(?:=|(?:[ \t]|\\\r?\n)+(?!-))|({_NAME})=)"

_OPTION_ON_A_LINE = rf"--?({_NAME})()\s+(?!-)"
"""The start of a text that is an option and its value, as in lists of arguments in YAML."""

_VALUE = r"""(?:"[^"]*"|'[^']*'|\\.|[^\s;&|()])*"""

_URL = r"""(?<=[A-Za-z0-9])://([^\s/?#:@"']{0,512})(?::([^\s/?#"']{0,4096}))?@"""

_TOKEN = r"(?=.*\d)[\w~+=-]{12,}|\*\*\*"  # noqa: S105 - a pattern, not a password
"""The user of an https URL that is a token: long, with a digit, without a dot; or already masked."""

_USER_OPTION = r"(?<![\w-])(?:-u|--user|--proxy-user)"
_USER = r"(?!\d+:\d+(?![^\s\"']))[^\s:\"'-][^\s:\"']{0,255}:"
_OF_USER = rf"{_USER_OPTION}(?:[ \t]*=[ \t]*|[ \t]+|(?<=-u))[\"']?{_USER}([^\s\"']+)"
"""A user and a password; two numbers are those of a user and a group."""

_OF_LOGIN = (
    r"(?<![\w.-])login[ \t](?:(?:[^\n;&|]|\\\n){0,128}?[ \t])?-p(?:[ \t]*=[ \t]*|[ \t]+)"
    r"(?:\"([^\"]+)\"|'([^']+)'|(?!-)([^\s\"';&|()]+))"
)
_MOST_OF_LOGIN = 10
"""Arguments to search for the ``login`` before a ``-p``."""

_REFERENCE = r"\$\{\w+\}|\$\(\w+\)"
_SHELL_REFERENCE = rf"(?s){_REFERENCE}|\$\w*|\$\(.*\)|`.*"

_SETTINGS = frozenset({"", "true", "false", "none", "null"})
"""Values of switches, such as ``--use-auth-token=true``; they are not secret."""


def secret_spans(text: str) -> list[tuple[int, int]]:
    """Return the spans of secrets in a text, in order, without overlaps."""
    name, equals, value = text[:_LONGEST_NAME].partition("=")
    if equals and (whole := re.fullmatch(_WHOLE, name)) and is_secret_name(whole[1]):
        is_shown = text[0] in "-+" and len(text) <= _LONGEST_NAME and _is_harmless(value)
        return [] if is_shown else [(len(name) + 1, len(text))]
    apart: list[tuple[int, int]] = []
    for start, end in sorted([*_named(text), *user_spans(text), *_in_urls(text)]):
        if not apart or start >= apart[-1][1]:
            apart.append((start, end))
    return apart


def _named(text: str) -> Iterator[tuple[int, int]]:
    if "=" not in text and "-" not in text and ":" not in text:
        return
    begins = sorted({_begin(text, at) for at in find_parts(text)})
    if not begins:
        return  # before the patterns, which take milliseconds to compile
    named, pair = re.compile(_NAMED), re.compile(PAIR)
    done = 0
    for begin in begins:
        if begin < done:
            continue
        found = named.match(text, begin) or (re.match(_OPTION_ON_A_LINE, text) if begin == 0 else None)
        span = _after_name(text, found) if found else colon_value(pair.match(text, begin))
        if span and not _is_shown(text[slice(*span)]):
            done = span[1]
            yield span


def _is_shown(value: str) -> bool:
    return len(value) <= LONGEST_REFERENCE and (_is_harmless(value) or _is_read_by_shell(value))


def _after_name(text: str, found: re.Match[str]) -> tuple[int, int] | None:
    """Return the span of the value of a variable or an option, if its name is secret."""
    if not is_secret_name(found[1] or found[2]):
        return None
    value = re.compile(_VALUE).match(text, found.end())
    start, end = value.span() if value else (found.end(), found.end())
    if end - start >= 2 and text[start] == text[end - 1] and text[start] in "\"'":
        return start + 1, end - 1
    return start, end


def _begin(text: str, at: int) -> int:
    """Return the start of the name around a place in a text, with the dashes of an option."""
    before = text[max(0, at - _LONGEST_NAME) : at]
    return at - len(before) + len(before.rstrip(_NAME_CHARACTERS))


def user_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of passwords in ``-u user:password`` and ``login -p password``."""
    if "-u" in text or "-user" in text:
        found = (match.span(1) for match in re.finditer(_OF_USER, text))
        yield from (span for span in found if not _is_read_by_shell(text[slice(*span)]))
    if "login" in text and "-p" in text:
        given = (match.span(match.lastindex or 0) for match in re.finditer(_OF_LOGIN, text))
        yield from (span for span in given if not _is_read_by_shell(text[slice(*span)]))


def gives_password(option: object, value: object) -> bool:
    """Return whether an argument is ``user:password`` after an option that takes it."""
    if not isinstance(option, str) or not isinstance(value, str):
        return False
    return re.search(_USER_OPTION + r"\s*\Z", option[-20:]) is not None and re.match(_USER, value) is not None


def follows_login(items: Sequence[object], index: int) -> bool:
    """Return whether an argument is the password after ``login ... -p``."""
    value, before = items[index], items[max(0, index - _MOST_OF_LOGIN) : max(0, index - 1)]
    if not isinstance(value, str) or value.startswith("-") or _is_harmless(value):
        return False
    return index > 0 and items[index - 1] == "-p" and "login" in before


def _in_urls(text: str) -> Iterator[tuple[int, int]]:
    at = text.find("://")
    while at >= 0:
        if found := re.compile(_URL).match(text, at):
            if text[max(0, at - 5) : at].lower().endswith(("http", "https")) and re.fullmatch(_TOKEN, found[1]):
                yield found.span(1)
            if found[2] and not _is_read_by_shell(found[2]):
                yield found.span(2)
        at = text.find("://", at + 3)


def _is_read_by_shell(value: str) -> bool:
    return re.fullmatch(_SHELL_REFERENCE, value) is not None


def follows_secret_option(items: Sequence[object], index: int) -> bool:
    """Return whether an argument is the value of a secret option before it, as in ``--password value``."""
    option, value = items[index - 1] if index else None, items[index]
    if not isinstance(option, str) or not isinstance(value, str):
        return False
    if gives_password(option, value) or follows_login(items, index):
        return True
    named = re.fullmatch(rf"--?({_NAME})", option)
    return named is not None and is_secret_name(named[1]) and not value.startswith("-") and not _is_harmless(value)


def _is_harmless(value: str) -> bool:
    return value.lower() in _SETTINGS or re.fullmatch(_REFERENCE, value) is not None


def replaced(text: str, mask: str) -> str:
    """Return a text with every secret in it masked."""
    parts: list[str] = []
    done = 0
    for start, end in secret_spans(text):
        parts += [text[done:start], mask]
        done = end
    return "".join([*parts, text[done:]])
