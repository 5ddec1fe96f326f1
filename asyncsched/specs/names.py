"""Names for apps that are unique, short, and safe wherever a scheduler puts them."""

from __future__ import annotations

import os
import re

__all__ = ["derive_id", "make_unique", "normalize_str"]

# No vowels, so that no word comes out, and none of the digits that are taken for a letter.
_LETTERS = "bcdfghjklmnpqrstvwxz"
_LETTERS_AND_DIGITS = _LETTERS + "012345679"
# 20 * 29**13 is more than 64 bits.
_SUFFIX_LENGTH = 14
_LONGEST = 128
_UNSAFE = r"[^A-Za-z0-9._-]+"


def make_unique(name: str, string_length: int = 0) -> str:
    """Return the name with a random suffix that starts with a letter, such as ``train-x4c7wq0bnd1k2z``.

    Args:
        name: Cut so that the result has at most 128 characters; what is not a letter, a digit, ``.``, ``_``
            or ``-`` becomes ``-``.
        string_length: The suffix's length, at most 64; 0 means 14, which holds 64 random bits.
    """
    if not 0 <= string_length <= _LONGEST // 2:
        raise ValueError(f"a suffix of {string_length} characters is not between 1 and {_LONGEST // 2}")
    length = string_length or _SUFFIX_LENGTH
    # Eight bits more per character than needed, so that no character is likelier than another.
    return _join(name, _suffix(int.from_bytes(os.urandom(2 * length)), length))


def derive_id(name: str, *parts: str) -> str:
    """Return an id of the form of :func:`make_unique` that is always the same for the same arguments.

    Args:
        name: What the id begins with.
        parts: What makes it unique, such as session and key.
    """
    from hashlib import sha256

    # With its length before it, no part runs into the next.
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
    """Return what Kubernetes and its kin accept of a name: no leading ``-``, lower case, ``[a-z0-9-]``."""
    return re.sub(r"[^a-z0-9-]", "", data.removeprefix("-").lower())
