"""Names for apps: unique, short, and accepted by every scheduler."""

from __future__ import annotations

import os
import re

__all__ = ["derive_id", "make_unique", "normalize_str"]

# Without vowels, so that no words appear, and without digits that look like letters.
_LETTERS = "bcdfghjklmnpqrstvwxz"
_LETTERS_AND_DIGITS = _LETTERS + "012345679"
# 20 * 29**13 is more than 64 bits.
_SUFFIX_LENGTH = 14
_LONGEST = 128
_UNSAFE = r"[^A-Za-z0-9._-]+"


def make_unique(name: str, string_length: int = 0) -> str:
    """Return the name with a random suffix that starts with a letter, such as ``train-x4c7wq0bnd1k2z``.

    Args:
        name: The start of the name. It is cut so that the result has at most 128 characters, and every character
            other than letters, digits, ``.``, ``_`` and ``-`` becomes ``-``.
        string_length: The suffix's length, at most 64; 0 means 14, which holds 64 random bits.
    """
    if not 0 <= string_length <= _LONGEST // 2:
        raise ValueError(f"string_length must be between 0 and {_LONGEST // 2}, got {string_length}")
    length = string_length or _SUFFIX_LENGTH
    # More random bits per character than needed, so that all characters are about equally likely.
    return _join(name, _suffix(int.from_bytes(os.urandom(2 * length)), length))


def derive_id(name: str, *parts: str) -> str:
    """Return an id like those of :func:`make_unique`, but always the same for the same arguments.

    Args:
        name: The start of the id.
        parts: What makes it unique, such as session and key.
    """
    from hashlib import sha256

    # The length before each part keeps ("ab", "c") apart from ("a", "bc").
    text = "".join(f"{len(part)}:{part}" for part in (name, *parts))
    digest = sha256(text.encode(errors="surrogatepass")).digest()
    return _join(name, _suffix(int.from_bytes(digest), _SUFFIX_LENGTH))


def _suffix(number: int, length: int) -> str:
    characters: list[str] = []
    for _ in range(length):
        alphabet = _LETTERS_AND_DIGITS if characters else _LETTERS
        number, index = divmod(number, len(alphabet))
        characters.append(alphabet[index])
    return "".join(characters)


def _join(name: str, suffix: str) -> str:
    safe = re.sub(_UNSAFE, "-", name).strip("-.")
    stem = safe[: _LONGEST - len(suffix) - 1].rstrip("-.")
    return f"{stem or 'app'}-{suffix}"


def normalize_str(data: str) -> str:
    """Return the name as Kubernetes and similar services accept it: lower case, ``[a-z0-9-]``, no leading ``-``."""
    return re.sub(r"[^a-z0-9-]", "", data.removeprefix("-").lower())
