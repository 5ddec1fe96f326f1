"""Whether UTF-8 can hold a text: no service takes another encoding."""

from __future__ import annotations

from asyncsched.specs.secret import reveal

__all__ = ["half_character"]


def half_character(text: str) -> str:
    """Say what of a text UTF-8 cannot hold; empty if it can hold all of it."""
    text = reveal(text)
    try:
        if not text.isascii():
            text.encode()
    except UnicodeEncodeError as error:
        return f"U+{ord(text[error.start]):04X} is half a character, or no byte of UTF-8"
    return ""
