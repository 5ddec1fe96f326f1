"""Convert texts with macros between TorchX's syntax and ours.

TorchX replaces macros with `string.Template`: ``$$`` is a dollar sign, ``$app_id`` and ``${app_id}`` are the macro, and
anything else is kept. Here macros are written only as ``${app_id}``, ``$${`` is a ``${`` that is not a macro, and any
other ``$$`` is kept. Most texts can be written in both ways; the others are refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from string import Template

from asyncsched._typing import NamedTuple

__all__ = ["NAMES", "OLD_NAMES", "as_our_literal", "as_ours", "as_their_literal", "as_theirs"]

NAMES = frozenset({"img_root", "app_id", "replica_id", "rank0_env"})
"""The macros that every TorchX has."""
OLD_NAMES = NAMES | {"base_img_root"}
"""The macros of TorchX up to 0.7, and ours."""


class _Piece(NamedTuple):
    """A part of a text: literal text for the program, or a macro's name."""

    text: str
    is_macro: bool = False


def as_ours(text: str, names: Collection[str]) -> str:
    """Convert a text of TorchX's to our syntax.

    A shell's ``$`` before a variable's name (``$$${rank0_env}``) becomes ``${${rank0_env}}``, the same to a shell.

    Args:
        text: The text, with TorchX's macros.
        names: The macros that TorchX knows.

    Raises:
        ValueError: The text cannot be written in our syntax.
    """
    return _write_ours(_in_braces(_merged(_read_theirs(text, names)))) if "$" in text else text


def as_our_literal(text: str) -> str:
    """Convert a text in which TorchX does not replace macros to our syntax.

    Raises:
        ValueError: The text cannot be written in our syntax.
    """
    return _write_ours([_Piece(text)]) if "$" in text else text


def as_theirs(text: str, names: Collection[str]) -> str:
    """Convert one of our texts to TorchX's syntax.

    Args:
        text: The text, with our macros.
        names: The macros that TorchX knows.

    Raises:
        ValueError: The text has a macro that TorchX does not know.
    """
    return _write_theirs(_merged(_read_ours(text)), names) if "$" in text else text


def as_their_literal(text: str) -> str:
    """Convert one of our texts for a place where TorchX does not replace macros.

    Raises:
        ValueError: The text has a macro.
    """
    pieces = _merged(_read_ours(text))
    if any(piece.is_macro for piece in pieces):
        raise ValueError("TorchX does not replace macros here")
    return "".join(piece.text for piece in pieces)


def _read_theirs(text: str, names: Collection[str]) -> Iterator[_Piece]:
    end = 0
    for found in Template.pattern.finditer(text):
        yield _Piece(text[end : found.start()])
        name = found["named"] or found["braced"]
        yield _Piece(name, is_macro=True) if name in names else _Piece("$" if found["escaped"] else found[0])
        end = found.end()
    yield _Piece(text[end:])


_OURS = re.compile(rf"\$\$(?P<escape>\{{)?|\$\{{(?P<name>{'|'.join(sorted(OLD_NAMES))})\}}")


def _read_ours(text: str) -> Iterator[_Piece]:
    end = 0
    for found in _OURS.finditer(text):
        yield _Piece(text[end : found.start()])
        name = found["name"]
        yield _Piece(name, is_macro=True) if name else _Piece("${" if found["escape"] else "$$")
        end = found.end()
    yield _Piece(text[end:])


def _merged(pieces: Iterable[_Piece]) -> list[_Piece]:
    """Return the pieces without empty ones, with adjacent texts joined."""
    merged: list[_Piece] = []
    for piece in pieces:
        if merged and not piece.is_macro and not merged[-1].is_macro:
            merged[-1] = _Piece(merged[-1].text + piece.text)
        elif piece.text:
            merged.append(piece)
    return merged


def _in_braces(pieces: list[_Piece]) -> list[_Piece]:
    """Write a shell's ``$NAME`` as ``${NAME}`` if a macro gives the name."""
    result = [*pieces]
    for number, piece in enumerate(pieces):
        before = result[number - 1].text if number and not pieces[number - 1].is_macro else ""
        after = pieces[number + 1] if number + 1 < len(pieces) else _Piece("")
        # A letter after it would become part of the name.
        ends = not after.is_macro and not re.match(r"(?a)\w", after.text)
        if piece == ("rank0_env", True) and _dollars_at_end(before) % 2 and ends:
            result[number - 1] = _Piece(before + "{")
            result[number + 1 : number + 2] = [_Piece("}" + after.text)]
    return result


def _dollars_at_end(text: str) -> int:
    return len(text) - len(text.rstrip("$"))


_WOULD_BE_MACRO = re.compile(rf"(\$+)(?=\{{(?:{'|'.join(sorted(OLD_NAMES))})\}})")


def _write_ours(pieces: list[_Piece]) -> str:
    result = ""
    for text, is_macro in pieces:
        result += f"${{{text}}}" if is_macro else _WOULD_BE_MACRO.sub(r"$\1", text)
    if _merged(_read_ours(result)) != pieces:
        raise ValueError("a $ cannot be written before ${ here")
    return result


_WOULD_BE_READ = re.compile(rf"\$\$+|\$(?=\{{?(?:{'|'.join(sorted(OLD_NAMES))}))|\$\Z")


def _write_theirs(pieces: list[_Piece], names: Collection[str]) -> str:
    result = ""
    for text, is_macro in pieces:
        if is_macro and text not in names:
            raise ValueError(f"this TorchX has no macro {text}")
        result += f"${{{text}}}" if is_macro else _WOULD_BE_READ.sub(r"\g<0>\g<0>", text)
    return result
