"""Secrets: values that print as ``***``.

A :class:`Secret` is a string whose *content* is ``***``: printing, formatting, joining or serializing it gives only the
mask. When an environment is printed, values with secret names and passwords in URLs are masked too. To get the real
values, use :meth:`Secret.reveal` and :func:`revealed_env` (for the request that is sent), or print inside
:func:`show_secrets`.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

from asyncsched.specs.secret_names import is_secret_name

__all__ = [
    "MASK",
    "Secret",
    "encodings",
    "masked_env",
    "masked_text",
    "redact",
    "reveal",
    "revealed",
    "revealed_env",
    "show_secrets",
    "showing_secrets",
    "spellings",
]

MASK = "***"
# Masking every "1" because some TOKEN_COUNT is 1 would make texts unreadable.
SHORTEST_UNDECLARED = 4

_SHORTEST_ENCODED = 6
"""Shortest secret, in characters, to search for in base64 and hexadecimal; the encoding of a shorter one is common."""

_showing: ContextVar[bool] = ContextVar("asyncsched_show_secrets", default=False)


class Secret(str):
    """A string that prints as ``***`` everywhere; only :meth:`reveal` gives its value.

    Two secrets are equal if their values are; a secret never equals a plain string. Copies and pickles
    keep the value, so keep pickles secret too.

    A string made *from* a secret contains the mask, so make the whole argument secret:
    ``Secret(f"--password={value}")``, not ``f"--password={Secret(value)}"``.
    """

    __slots__ = ("_value",)
    _value: str

    def __new__(cls, value: str) -> Secret:  # noqa: D102 - the class says it
        self = super().__new__(cls, MASK)
        self._value = reveal(value)
        return self

    def reveal(self) -> str:
        """Return the value itself; use it only for the request that is sent."""
        return self._value

    def __str__(self) -> str:
        return self._value if showing_secrets() else MASK

    def __repr__(self) -> str:
        return repr(str(self))

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._value == other._value

    # str has its own method, which would compare the masks.
    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        return type(self), (self._value,)


@contextmanager
def show_secrets() -> Generator[None]:
    """Print secrets in clear text inside this block, in this task or thread only."""
    token = _showing.set(True)
    try:
        yield
    finally:
        _showing.reset(token)


def showing_secrets() -> bool:
    """Return whether the caller is inside :func:`show_secrets`."""
    return _showing.get()


def reveal(value: str) -> str:
    """Return the value of a secret, or any other string unchanged."""
    return value.reveal() if isinstance(value, Secret) else value


def masked_text(text: str) -> str:
    """Return a text with ``***`` in place of each secret that is found in it."""
    from asyncsched.specs.secret_text import replaced  # loaded with the first scheduler

    return replaced(text, MASK)


def masked_env(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for printing: secrets are ``***``, unless inside :func:`show_secrets`."""
    if showing_secrets():
        return revealed_env(env)
    return {name: MASK if is_secret_name(name) else masked_text(str(value)) for name, value in env.items()}


def revealed_env(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for sending: every value is a plain string."""
    return {name: reveal(value) for name, value in env.items()}


def revealed(value: object) -> Any:
    """Return a copy of nested data with the value of every secret; use it only for what is sent."""
    if type(value) in (str, int):  # most of it; to ask whether a value is a mapping takes several times longer
        return value
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, Mapping):
        return {key: revealed(item) for key, item in cast("Mapping[str, object]", value).items()}
    if isinstance(value, (list, tuple)):
        return [revealed(item) for item in cast("Sequence[object]", value)]
    return value


def redact(text: str, secrets: Iterable[str]) -> str:
    """Mask known secret values in a text from elsewhere, such as a vendor's message.

    Values are also found in encodings such as JSON and base64. A plain string shorter than four characters is not
    masked; a :class:`Secret` of any length is.
    """
    known = {spelling for secret in secrets for each in (spellings, encodings) for spelling in each(secret)}
    if not known:
        return text
    # Longest first, because a secret may contain another one.
    longest_first = sorted(known, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, longest_first)), MASK, text)


def spellings(secret: str) -> Iterator[str]:
    """Yield the spellings of a secret: plain, and as in JSON, a shell, a Python literal, a URL, HTML or YAML.

    JSON includes ``\\/`` for ``/``, and JSON inside a JSON string.
    """
    value = reveal(secret)
    if not value or (len(value) < SHORTEST_UNDECLARED and not isinstance(secret, Secret)):
        return
    yield value
    if value.isalnum() and value.isascii():
        return
    if value != (stripped := value.strip()):
        yield from spellings(stripped)
    from html import escape
    from json import dumps
    from shlex import quote as quote_shell
    from urllib.parse import quote, quote_plus

    yield quote_shell(value).strip("'")
    yield re.sub(r"[^\w@%+=:,./-]", r"\\\g<0>", value)
    for in_json in (dumps(value)[1:-1], dumps(value, ensure_ascii=False)[1:-1]):
        yield in_json
        yield in_json.replace("/", r"\/")
        yield dumps(in_json)[1:-1]
    yield repr(value)[1:-1]
    encoded = value.encode(errors="surrogatepass")
    for in_url in (quote(encoded), quote(encoded, safe=""), quote_plus(encoded)):
        yield in_url
        yield re.sub("%..", lambda found: found[0].lower(), in_url)
    yield value.replace("'", "''")
    in_html = escape(value, quote=False)
    yield in_html
    yield in_html.replace('"', "&quot;").replace("'", "&#x27;")
    yield in_html.replace('"', "&#34;").replace("'", "&#39;")
    yield in_html.replace('"', "&quot;").replace("'", "&#39;")


def encodings(secret: str) -> Iterator[str]:
    """Yield the base64 and hexadecimal digits that any encoding of a text with the secret contains."""
    value = reveal(secret)
    if len(value) < _SHORTEST_ENCODED:
        return
    from base64 import b64encode

    encoded = value.encode(errors="surrogatepass")
    yield b64encode(encoded).decode().rstrip("=")
    for before in range(3):
        # Leave out the digits that also depend on a neighbouring byte.
        first, end = (0, 2, 3)[before], (before + len(encoded)) * 8 // 6
        within = b64encode(b"_" * before + encoded).decode()[first:end]
        yield within
        yield within.replace("+", "-").replace("/", "_")
    yield encoded.hex()
    yield encoded.hex().upper()
    if value != (stripped := value.strip()):
        yield from encodings(stripped)
