"""Find known secrets in texts and numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable

from asyncsched.specs.secret import encodings, reveal, spellings

__all__ = ["Said"]

_MARKS = ("%", "\\", "&")
"""Characters of most escaped spellings: a text without them need not be searched for those."""

_DIGITS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"
_OTHERS_APART = bytes(byte if byte in _DIGITS else 32 for byte in range(256))
"""A table for `bytes.translate` that keeps the digits of base64 and makes every other byte a space."""

_WRAPPED = r"(?a)(?<=[\w+/-]{60})[ \t]*\r?\n[ \t]*"


class Said:
    """Finds known secrets in texts and numbers.

    Args:
        secrets: The secrets; those too short to search for are left out.
        *others: Other finders, whose secrets are added.
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
        """Return whether a text contains a secret."""
        if any(mark in text and any(each in text for each in texts) for mark, texts in self._spelled.items()):
            return True
        if not self._encoded:
            return False
        whole = re.sub(_WRAPPED, "", text) if "\n" in text else text
        digits = whole.encode("ascii", "replace").translate(_OTHERS_APART).split()
        runs = b" ".join(run for run in digits if len(run) >= self._shortest).decode()
        return bool(runs) and any(each in runs for each in self._encoded)

    def is_number(self, number: float) -> bool:
        """Return whether a number is a secret, or contains one in its digits."""
        return number in self._numbers or self.is_in(repr(number))


def _shortest(texts: Iterable[str]) -> list[str]:
    """Return the texts that contain none of the others."""
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
