"""Secrets inside a text: an argument, a script, a URL.

Three forms are known, and each says by a name or by its place that what follows is secret: ``DB_PASSWORD=value``,
``--password=value`` or ``--password value``, and ``scheme://user:password@host``. What only names a secret, such as
``$DB_PASSWORD`` in a script, is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from asyncsched.specs.secret_names import find_parts, is_secret_name

__all__ = ["follows_secret_option", "replaced", "secret_spans"]

_NAME = r"[A-Za-z_][A-Za-z0-9_.-]*"

_WHOLE = rf"[-+]{{0,2}}({_NAME})"

_NAME_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_LONGEST_NAME = 256

# A keyword argument of a program in a script, as in `f(1, token=x)`, is left alone.
_NAMED = rf"(?<![\w.-])(?<!\w\()(?<!, )(?:--?({_NAME})(?:=|[ \t]+(?!-))|({_NAME})=)"

_VALUE = r"""(?:"[^"]*"|'[^']*'|\\.|[^\s;&|()])*"""

_URL = r"""(?<=[A-Za-z0-9])://[^\s/?#:@"']{0,512}:([^\s/?#"']{1,4096})@"""

_REFERENCE = r"\$\{\w+\}|\$\(\w+\)"
_SHELL_REFERENCE = rf"(?s){_REFERENCE}|\$\w*|\$\(.*\)|`.*"

_SETTINGS = frozenset({"", "true", "false", "none", "null"})
"""What follows an option that is a switch, such as ``--use-auth-token=true``."""


def secret_spans(text: str) -> list[tuple[int, int]]:
    """Return where secrets stand in a text, in order and apart."""
    name, equals, value = text[:_LONGEST_NAME].partition("=")
    if equals and (whole := re.fullmatch(_WHOLE, name)) and is_secret_name(whole[1]):
        is_shown = text[0] in "-+" and len(text) <= _LONGEST_NAME and _is_harmless(value)
        return [] if is_shown else [(len(name) + 1, len(text))]
    apart: list[tuple[int, int]] = []
    for start, end in sorted([*_named(text), *_in_urls(text)]):
        if not apart or start >= apart[-1][1]:
            apart.append((start, end))
    return apart


def _named(text: str) -> Iterator[tuple[int, int]]:
    if "=" not in text and "-" not in text:
        return
    named, read = re.compile(_NAMED), re.compile(_VALUE)
    for begin in sorted({_begin(text, at) for at in find_parts(text)}):
        found = named.match(text, begin)
        if found and is_secret_name(found[1] or found[2]) and (value := read.match(text, found.end())):
            start, end = value.span()
            if end - start >= 2 and value[0][0] == value[0][-1] and value[0][0] in "\"'":
                start, end = start + 1, end - 1
            if not _is_harmless(text[start:end]) and not _is_read_by_shell(text[start:end]):
                yield start, end


def _begin(text: str, at: int) -> int:
    """Return where the name begins that a place in a text belongs to, with the dashes of an option."""
    before = text[max(0, at - _LONGEST_NAME) : at]
    return at - len(before) + len(before.rstrip(_NAME_CHARACTERS))


def _in_urls(text: str) -> Iterator[tuple[int, int]]:
    url, at = re.compile(_URL), text.find("://")
    while at >= 0:
        if (found := url.match(text, at)) and not _is_read_by_shell(found[1]):
            yield found.span(1)
        at = text.find("://", at + 3)


def _is_read_by_shell(value: str) -> bool:
    return re.fullmatch(_SHELL_REFERENCE, value) is not None


def follows_secret_option(items: Sequence[object], index: int) -> bool:
    """Tell whether an argument is the value of the one before it, as in ``--password value``."""
    option, value = items[index - 1] if index else None, items[index]
    if not isinstance(option, str) or not isinstance(value, str):
        return False
    named = re.fullmatch(rf"--?({_NAME})", option)
    return named is not None and is_secret_name(named[1]) and not value.startswith("-") and not _is_harmless(value)


def _is_harmless(value: str) -> bool:
    return value.lower() in _SETTINGS or re.fullmatch(_REFERENCE, value) is not None


def replaced(text: str, mask: str) -> str:
    """Return a text with a mask for each secret in it."""
    for start, end in reversed(secret_spans(text)):
        text = text[:start] + mask + text[end:]
    return text
