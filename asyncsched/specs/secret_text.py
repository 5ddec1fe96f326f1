"""Secrets inside a text: an argument, a script, a URL.

Three forms are known, and each says by a name or by its place that what follows is secret: ``DB_PASSWORD=value``,
``--password=value`` or ``--password value``, and ``scheme://user:password@host``. What only names a secret, such as
``$DB_PASSWORD`` in a script, is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from asyncsched.specs.secret_names import is_secret_name, may_name_secrets

__all__ = ["follows_secret_option", "replaced", "secret_spans"]

_NAME = r"[A-Za-z_][A-Za-z0-9_.-]*"

_WHOLE = rf"(?s)[-+]{{0,2}}({_NAME})=(.*)"

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
    if (whole := re.fullmatch(_WHOLE, text)) and is_secret_name(whole[1]):
        return [] if text[0] in "-+" and _is_harmless(whole[2]) else [whole.span(2)]
    apart: list[tuple[int, int]] = []
    for start, end in sorted([*_named(text), *_in_urls(text)]):
        if not apart or start >= apart[-1][1]:
            apart.append((start, end))
    return apart


def _named(text: str) -> Iterator[tuple[int, int]]:
    if not may_name_secrets(text):  # long texts are common, and secrets in them are not
        return
    for found in re.finditer(_NAMED, text):
        if is_secret_name(found[1] or found[2]) and (value := re.compile(_VALUE).match(text, found.end())):
            start, end = value.span()
            if end - start >= 2 and value[0][0] == value[0][-1] and value[0][0] in "\"'":
                start, end = start + 1, end - 1
            if not _is_harmless(text[start:end]) and not _is_read_by_shell(text[start:end]):
                yield start, end


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
