"""Check that a text can be encoded as UTF-8, the only encoding that services accept."""

from __future__ import annotations

from asyncsched.specs.secret import reveal

__all__ = ["half_character"]


def half_character(text: str) -> str:
    """Return why UTF-8 cannot encode a text; empty if it can."""
    text = reveal(text)
    try:
        if not text.isascii():
            text.encode()
    except UnicodeEncodeError as error:
        return f"U+{ord(text[error.start]):04X} is a lone surrogate, which UTF-8 cannot encode"
    return ""
