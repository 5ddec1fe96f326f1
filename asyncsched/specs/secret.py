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

    Values are found as they are and as JSON, a Python literal or a URL would write them. A plain string
    shorter than four characters is left alone; a :class:`Secret` of any length is replaced.
    """
    known = {spelling for secret in secrets for spelling in spellings(secret)}
    if not known:
        return text
    # The longest first: a secret may contain another one.
    longest_first = sorted(known, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, longest_first)), MASK, text)


def spellings(secret: str) -> Iterator[str]:
    """Yield how a secret is written: as it is, and as JSON, a Python literal or a URL has it."""
    value = reveal(secret)
    if not value or (len(value) < SHORTEST_UNDECLARED and not isinstance(secret, Secret)):
        return
    yield value
    if value.isalnum() and value.isascii():
        return
    from json import dumps
    from urllib.parse import quote, quote_plus

    yield dumps(value)[1:-1]
    yield dumps(value, ensure_ascii=False)[1:-1]
    yield repr(value)[1:-1]
    encoded = value.encode(errors="surrogatepass")
    yield quote(encoded)
    yield quote(encoded, safe="")
    yield quote_plus(encoded)
