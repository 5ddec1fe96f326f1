"""Whether a secret is said again: in a text, or as a number."""

from __future__ import annotations

import re
from collections.abc import Iterable

from asyncsched.specs.secret import encodings, reveal, spellings

__all__ = ["Said"]

_MARKS = ("%", "\\", "&")
"""What stands in most spellings that differ from the secret itself: a text without it need not be searched for them."""

_DIGITS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"
_OTHERS_APART = bytes(byte if byte in _DIGITS else 32 for byte in range(256))
"""A table for `bytes.translate` that keeps the digits of base64 and makes every other byte a space."""

_WRAPPED = r"(?a)(?<=[\w+/-]{60})[ \t]*\r?\n[ \t]*"


class Said:
    """Finds secrets where they are said again.

    Args:
        secrets: The secrets; one that is too short to be looked for is left out.
        *others: What is found besides.
    """

    def __init__(self, secrets: Iterable[str], *others: Said) -> None:
        self._spelled: dict[str, list[str]] = {}
        self._encoded: list[str] = []
        self._numbers: set[float] = set()
        for secret in dict.fromkeys(secrets):
            self._add(secret)
        for other in others:
            for mark, texts in other._spelled.items():
                self._spelled.setdefault(mark, []).extend(texts)
            self._encoded += other._encoded
            self._numbers |= other._numbers
        self._shortest = min(map(len, self._encoded), default=0)

    def _add(self, secret: str) -> None:
        if spelled := _shortest(spellings(secret)):
            self._numbers |= _as_number(reveal(secret))
        for spelling in spelled:
            mark = next((mark for mark in _MARKS if mark in spelling), "")
            self._spelled.setdefault(mark, []).append(spelling)
        self._encoded += _shortest(encodings(secret))

    def is_in(self, text: str) -> bool:
        """Tell whether a secret is said in a text."""
        if any(mark in text and any(each in text for each in texts) for mark, texts in self._spelled.items()):
            return True
        if not self._encoded:
            return False
        whole = re.sub(_WRAPPED, "", text) if "\n" in text else text
        digits = whole.encode("ascii", "replace").translate(_OTHERS_APART).split()
        runs = b" ".join(run for run in digits if len(run) >= self._shortest).decode()
        return bool(runs) and any(each in runs for each in self._encoded)

    def is_number(self, number: float) -> bool:
        """Tell whether a number is a secret, or a secret stands in its digits."""
        return number in self._numbers or self.is_in(repr(number))


def _shortest(texts: Iterable[str]) -> list[str]:
    """Return of some texts those in which no other of them stands."""
    shortest: list[str] = []
    for text in sorted(texts, key=len):
        if not any(each in text for each in shortest):
            shortest.append(text)
    return shortest


def _as_number(secret: str) -> set[float]:
    try:
        return {float(secret)}
    except ValueError:
        return set()
