"""Print plain data as YAML, for dry-runs and statuses.

It only prints, and only dicts, lists and scalars, so it needs no YAML library. A YAML 1.1 reader reads the output back
unchanged.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncsched.specs.to_plain import Plain

__all__ = ["to_yaml"]

_PLAIN = re.compile(r"(?!<<)[A-Za-z_/<(](?:[^:#]|:(?! )|(?<! )#)*(?<![: ])")
_SHORT = {'"': '"', "\\": "\\", "\n": "n", "\t": "t"}
_OTHER_MEANING = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


def to_yaml(value: Plain, *, sort_keys: bool = False) -> str:
    """Return the value in YAML's block style, ending with a newline.

    Args:
        value: Dicts, lists and scalars.
        sort_keys: Print the keys of every dict in alphabetical order.
    """
    return "".join(f"{line}\n" for line in _lines(value, sort_keys))


def _lines(value: Plain, sort_keys: bool) -> Iterator[str]:
    """Yield the lines of a value; the caller indents the lines of a block."""
    if isinstance(value, dict) and value:
        for key in sorted(value) if sort_keys else value:
            yield from _entry(key, value[key], sort_keys)
    elif isinstance(value, list) and value:
        for item in value:
            first, *rest = _lines(item, sort_keys)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)
    elif isinstance(value, str) and (block := _block(value)):
        yield from block
    else:
        yield _scalar(value)


def _entry(key: str, value: Plain, sort_keys: bool) -> Iterator[str]:
    lines = _lines(value, sort_keys)
    if isinstance(value, (dict, list)) and value:
        yield f"{_scalar(key)}:"
        indent = "  " if isinstance(value, dict) else ""
        yield from (f"{indent}{line}" for line in lines)
    else:
        yield f"{_scalar(key)}: {next(lines)}"
        yield from lines


def _block(text: str) -> list[str]:
    """Return a text of several lines, such as a script, as a literal block; empty if YAML would read it differently."""
    body = text.removesuffix("\n")
    lines = body.split("\n")
    if len(lines) == 1 or text.startswith((" ", "\n")) or body.endswith("\n"):
        return []
    if not all(line.isprintable() for line in lines):
        return []
    return ["|-" if body == text else "|", *(f"  {line}" for line in lines)]


def _scalar(value: Plain) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, (dict, list)):
        return "{}" if isinstance(value, dict) else "[]"
    return _text(str(value))


def _float(value: float) -> str:
    if not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    text = repr(value)
    # YAML 1.1 reads 1e+20, which has no dot, as a string.
    return text.replace("e", ".0e", 1) if "." not in text else text


def _text(text: str) -> str:
    if not text.isprintable():
        return f'"{"".join(map(_escape, text))}"'
    if _PLAIN.fullmatch(text) and text.lower() not in _OTHER_MEANING:
        return text
    return "'" + text.replace("'", "''") + "'"


def _escape(char: str) -> str:
    if char in _SHORT:
        return f"\\{_SHORT[char]}"
    return char if char.isprintable() else f"\\U{ord(char):08x}"
