"""Values that must not be shown, and the only ways to see them.

A :class:`Secret` is a string whose *content* is ``***``: whatever prints, formats, joins or serializes it
can only pass on the mask. Environment values whose names look secret, and passwords in URLs, are masked in the same
way wherever an environment is printed. The true values come out of :meth:`Secret.reveal` and :func:`revealed_env`,
which are for the request that is sent, and of everything printed inside :func:`show_secrets`.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

from asyncsched.specs.secret_names import is_secret_name
from asyncsched.specs.secret_text import replaced

__all__ = [
    "MASK",
    "Secret",
    "encodings",
    "masked_env",
    "redact",
    "reveal",
    "revealed",
    "revealed_env",
    "show_secrets",
    "showing_secrets",
    "spellings",
]

MASK = "***"
# Scrubbing every "1" because some TOKEN_COUNT is 1 would leave nothing to read.
SHORTEST_UNDECLARED = 4

_SHORTEST_ENCODED = 6
"""Characters of a secret that is looked for in base64 and hexadecimal digits; of fewer those are a common word."""

_showing: ContextVar[bool] = ContextVar("asyncsched_show_secrets", default=False)


class Secret(str):
    """A string that prints as ``***`` everywhere; only :meth:`reveal` gives its value.

    Two secrets are equal if their values are; a secret never equals a plain string. Copies and pickles
    keep the value, so a pickle is as secret as the value itself.

    Whatever is made *from* a secret holds the mask, so make the whole of an argument secret:
    ``Secret(f"--password={value}")``, not ``f"--password={Secret(value)}"``.
    """

    __slots__ = ("_value",)
    _value: str

    def __new__(cls, value: str) -> Secret:  # noqa: D102 - the class says it
        self = super().__new__(cls, MASK)
        self._value = reveal(value)
        return self

    def reveal(self) -> str:
        """Return the value itself, for the request that is sent and for nothing else."""
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

    # str brings its own, which would compare the masks.
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
    """Print secrets in clear inside this block, in this task or thread only."""
    token = _showing.set(True)
    try:
        yield
    finally:
        _showing.reset(token)


def showing_secrets() -> bool:
    """Tell whether the caller is inside :func:`show_secrets`."""
    return _showing.get()


def reveal(value: str) -> str:
    """Return the value of a secret, and any other string as it is."""
    return value.reveal() if isinstance(value, Secret) else value


def masked_env(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment as it may be printed: secrets as ``***``, unless inside :func:`show_secrets`."""
    if showing_secrets():
        return revealed_env(env)
    return {name: MASK if is_secret_name(name) else replaced(str(value), MASK) for name, value in env.items()}


def revealed_env(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment as it is sent: every value a plain string."""
    return {name: reveal(value) for name, value in env.items()}


def revealed(value: object) -> Any:
    """Return a copy of nested data in which every secret stands as its value: for what is sent only."""
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, Mapping):
        return {key: revealed(item) for key, item in cast("Mapping[str, object]", value).items()}
    if isinstance(value, (list, tuple)):
        return [revealed(item) for item in cast("Sequence[object]", value)]
    return value


def redact(text: str, secrets: Iterable[str]) -> str:
    """Replace known secret values in a text that somebody else wrote, such as a vendor's message.

    Values are found as they are, and as encodings such as JSON and base64 write them. A plain string shorter than four
    characters is left alone; a :class:`Secret` of any length is replaced.
    """
    known = {spelling for secret in secrets for each in (spellings, encodings) for spelling in each(secret)}
    if not known:
        return text
    # The longest first: a secret may contain another one.
    longest_first = sorted(known, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, longest_first)), MASK, text)


def spellings(secret: str) -> Iterator[str]:
    """Yield how a secret is written: as it is, and as JSON, a shell, a Python literal, a URL, HTML or YAML has it.

    JSON is known with ``\\/`` for ``/``, too, and within a text of JSON.
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
    """Yield what stands in base64 and in hexadecimal digits of a secret, and of any text that has the secret in it."""
    value = reveal(secret)
    if len(value) < _SHORTEST_ENCODED:
        return
    from base64 import b64encode

    encoded = value.encode(errors="surrogatepass")
    yield b64encode(encoded).decode().rstrip("=")
    for before in range(3):
        # What a byte before or after has a part in is left out.
        first, end = (0, 2, 3)[before], (before + len(encoded)) * 8 // 6
        within = b64encode(b"_" * before + encoded).decode()[first:end]
        yield within
        yield within.replace("+", "-").replace("/", "_")
    yield encoded.hex()
    yield encoded.hex().upper()
    if value != (stripped := value.strip()):
        yield from encodings(stripped)
