"""Read untrusted values: labels, tags, annotations and comments, which anybody can write.

Each function returns a value that is safe to store, to compare and to put into a handle, or raises ValueError with the
reason as the end of a sentence: "has more than 9 digits". It takes a few milliseconds at most for any text.
"""

from __future__ import annotations

import logging
import math
import re
from collections import OrderedDict

__all__ = [
    "DEEPEST",
    "LONGEST_ID",
    "LONGEST_JSON",
    "LONGEST_TEXT",
    "MOST_DIGITS",
    "Once",
    "last_line",
    "read_float",
    "read_id",
    "read_json",
    "read_ns",
    "read_number",
    "read_session",
    "read_text",
    "shown",
    "well_formed",
]

LONGEST_ID = 256
LONGEST_TEXT = 1024
LONGEST_JSON = 32 * 1024
MOST_DIGITS = 9
DEEPEST = 16

_LATEST_NS = 253_370_764_800_000_000_000
"""The beginning of the last year of a datetime: any time before it can be shown in any time zone."""
_SHOWN = 60
_TOLD = 4096
_LONGEST_FLOAT = 32
# Everything except brackets outside of strings. An unclosed string extends to the end of the text.
_NO_BRACKETS = r'(?s)[^\[\]{}"]++|"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)'


def read_text(value: object, longest: int = LONGEST_TEXT) -> str:
    """Return a text of limited length that UTF-8 can encode."""
    if not isinstance(value, str):
        raise ValueError(f"is of type {type(value).__name__}, not str")
    if len(value) > longest:
        raise ValueError(f"has {len(value):,} characters, more than {longest:,}")
    if value != well_formed(value):
        raise ValueError("contains a lone surrogate, which UTF-8 cannot encode")
    return value


def read_id(value: object) -> str:
    """Return an id that is valid in a handle."""
    text = read_session(value)
    if not text:
        raise ValueError("is empty")
    return text


def read_session(value: object) -> str:
    """Return a session's name that is valid in a handle; it may be empty."""
    text = read_text(value, LONGEST_ID)
    if "/" in text:
        raise ValueError("contains a slash, which separates the parts of a handle")
    if not text.isprintable():
        raise ValueError("contains a character that cannot be printed")
    return text


def read_number(value: object) -> int:
    """Return a whole number that is not negative."""
    text = read_text(value, LONGEST_JSON)
    if len(text) > MOST_DIGITS:
        raise ValueError(f"has {len(text):,} characters, more than the {MOST_DIGITS} digits of a number")
    if not (text.isascii() and text.isdigit()):
        raise ValueError("is not a whole number")
    return int(text)


def read_ns(value: object) -> int:
    """Return a time in nanoseconds, from 1970 on, that a datetime can hold."""
    if not isinstance(value, int) or not 0 <= value < _LATEST_NS:
        raise ValueError("is not a time in nanoseconds")
    return value


def read_float(value: object) -> float:
    """Return a number; it may be infinite."""
    text = read_text(value, _LONGEST_FLOAT)
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise ValueError("is not a number")
    return number


def read_json(value: object) -> object:
    """Parse JSON with limits on length, depth and digits, and without NaN and infinities.

    Its strings may contain lone surrogates, which JSON can escape: see `well_formed`.
    """
    import json  # imported late: few users need it

    text = read_text(value, LONGEST_JSON)
    if not _is_flat_enough(text):
        raise ValueError(f"is nested more than {DEEPEST} deep, or its brackets do not match")
    try:
        parsed: object = json.loads(text, parse_int=_integer, parse_float=_finite, parse_constant=_finite)
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON ({error.msg} at character {error.pos})") from None
    return parsed


def well_formed(text: str) -> str:
    """Return a text with lone surrogates replaced, so that it can be encoded."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def last_line(data: bytes) -> str:
    """Return the last non-empty line, at most 500 characters; empty if there is none."""
    lines = data.decode(errors="replace").split("\n")
    return next((line.strip()[:500] for line in reversed(lines) if line.strip()), "")


def shown(value: object) -> str:
    """Return a text for a message: quoted, cut, and with control characters escaped."""
    text = value if isinstance(value, str) else type(value).__name__
    return ascii(text[:_SHOWN]) + ("..." if len(text) > _SHOWN else "")


class Once:
    """Logs each warning once.

    Args:
        log: The logger.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._told: OrderedDict[object, None] = OrderedDict()

    def warn(self, key: object, message: str, *args: object) -> None:
        """Warn, unless this key was used before; the oldest keys are forgotten."""
        if key in self._told:
            self._told.move_to_end(key)
            return
        self._told[key] = None
        if len(self._told) > _TOLD:
            self._told.popitem(last=False)
        self._log.warning(message, *args)


def _is_flat_enough(text: str) -> bool:
    """Return whether brackets are nested at most about `DEEPEST` deep, so that the parser does not overflow."""
    left, before = re.sub(_NO_BRACKETS, "", text), ""
    for _ in range(DEEPEST):
        left, before = left.replace("[]", "").replace("{}", ""), left
        if left == before:
            break
    return not left


def _integer(digits: str) -> int:
    if len(digits.removeprefix("-")) > 2 * MOST_DIGITS:
        raise ValueError(f"contains a number of more than {2 * MOST_DIGITS} digits")
    return int(digits)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("contains a number that is not finite")
    return number
