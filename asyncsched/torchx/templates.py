"""Texts with macros, from TorchX's form to ours and back.

TorchX fills macros in with `string.Template`: ``$$`` is a dollar sign, ``$app_id`` and ``${app_id}`` are the macro, and
what is neither stays as it is. Ours are written ``${app_id}`` only, ``$${`` is a ``${`` that is not a macro, and any
other ``$$`` stays. So most texts can be written in both forms, and some cannot: those are refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from string import Template
from typing import NamedTuple

__all__ = ["NAMES", "OLD_NAMES", "as_our_literal", "as_ours", "as_their_literal", "as_theirs"]

NAMES = frozenset({"img_root", "app_id", "replica_id", "rank0_env"})
"""The macros that every TorchX knows."""
OLD_NAMES = NAMES | {"base_img_root"}
"""Those of TorchX's releases up to 0.7, and ours."""


class _Piece(NamedTuple):
    """A part of a text, as it is meant: what reaches the program as it stands, or a macro's name."""

    text: str
    is_macro: bool = False


def as_ours(text: str, names: Collection[str]) -> str:
    """Return how a text of TorchX's is written here.

    A shell's ``$`` before a variable's name (``$$${rank0_env}``) becomes ``${${rank0_env}}``, the same to a shell.

    Args:
        text: The text, with macros as TorchX writes them.
        names: The macros that TorchX knows.

    Raises:
        ValueError: It cannot be written here.
    """
    return _write_ours(_in_braces(_merged(_read_theirs(text, names)))) if "$" in text else text


def as_our_literal(text: str) -> str:
    """Return how a text is written here that TorchX does not search for macros.

    Raises:
        ValueError: It cannot be written here.
    """
    return _write_ours([_Piece(text)]) if "$" in text else text


def as_theirs(text: str, names: Collection[str]) -> str:
    """Return how a text of ours is written for TorchX.

    Args:
        text: The text, with macros as they are written here.
        names: The macros that TorchX knows.

    Raises:
        ValueError: It holds a macro that TorchX does not know.
    """
    return _write_theirs(_merged(_read_ours(text)), names) if "$" in text else text


def as_their_literal(text: str) -> str:
    """Return what a text of ours is where TorchX does not search for macros.

    Raises:
        ValueError: It holds a macro.
    """
    pieces = _merged(_read_ours(text))
    if any(piece.is_macro for piece in pieces):
        raise ValueError("TorchX fills in no macro at this place")
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
    """Return the pieces without empty ones, and texts that follow each other as one."""
    merged: list[_Piece] = []
    for piece in pieces:
        if merged and not piece.is_macro and not merged[-1].is_macro:
            merged[-1] = _Piece(merged[-1].text + piece.text)
        elif piece.text:
            merged.append(piece)
    return merged


def _in_braces(pieces: list[_Piece]) -> list[_Piece]:
    """Write a shell's ``$NAME`` as ``${NAME}``, where a macro gives the name."""
    result = [*pieces]
    for number, piece in enumerate(pieces):
        before = result[number - 1].text if number and not pieces[number - 1].is_macro else ""
        after = pieces[number + 1] if number + 1 < len(pieces) else _Piece("")
        # A letter behind it would belong to the name.
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
        raise ValueError("there is no way to write a $ before ${ here")
    return result


_WOULD_BE_READ = re.compile(rf"\$\$+|\$(?=\{{?(?:{'|'.join(sorted(OLD_NAMES))}))|\$\Z")


def _write_theirs(pieces: list[_Piece], names: Collection[str]) -> str:
    result = ""
    for text, is_macro in pieces:
        if is_macro and text not in names:
            raise ValueError(f"this TorchX has no macro {text}")
        result += f"${{{text}}}" if is_macro else _WOULD_BE_READ.sub(r"\g<0>\g<0>", text)
    return result
