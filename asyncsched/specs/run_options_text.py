r"""The text form of run options: ``queue=gpu,tags=a;b,env=A:1,B:2``.

``,`` or ``;`` separates pairs, and the items of a list or a dict. In a dict, ``:`` separates a name from its value. The
text after a separator belongs to the option before it, unless it has the form ``name=``. An item in quotes may contain
anything: ``'...'`` is taken literally, in ``"..."`` write ``\"`` for a quote and ``\\`` for a backslash.

Messages never repeat the text, because it may contain a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncsched.specs.run_options import CfgVal

__all__ = ["format_pairs", "pairs_of_torchx", "parse_value", "split_pairs"]

# Compiled on first use, which an import is not.
_PAIR = r"\s*([A-Za-z_][A-Za-z0-9_.-]*)\s*="
_VALUE_AND_NAME = r"(?s)(.+)[,;]([^,;]+)"
_QUOTED = r"""(?s)"((?:[^"\\]|\\.)*)"|'([^']*)'"""
_ESCAPE = r"""\\(["\\])"""
_NEEDS_NO_QUOTES = r"[A-Za-z0-9_./@%+*~:-]+"
_YES = ("1", "true", "yes", "on")
_NO = ("0", "false", "no", "off")


def split_pairs(text: str) -> list[tuple[str, str]]:
    """Return the names and the texts of the values, with their quotes.

    Raises:
        ValueError: The text does not start with ``name=``, or a quote is not closed.
    """
    pairs: list[tuple[str, int, int]] = []
    for start, end in _split(text, ",;"):
        if match := re.compile(_PAIR).match(text, start, end):
            pairs.append((match[1], match.end(), end))
        elif text[start:end].strip():
            if not pairs:
                raise ValueError("the text does not start with name=")
            name, value_start, _ = pairs[-1]
            pairs[-1] = name, value_start, end
    return [(name, text[start:end].strip()) for name, start, end in pairs]


def pairs_of_torchx(text: str) -> list[tuple[str, str]]:
    """Return the pairs as TorchX reads them; `split_pairs` reads texts with quotes, and those that TorchX refuses.

    TorchX ignores a ``=`` without a value, so in ``A=1,B=`` the value of A is ``1,B``. The value of a name extends to
    the last separator before the next name, including other separators.
    """
    parts = [part.strip() for part in text.split("=") if part.strip()]
    inner = [re.fullmatch(_VALUE_AND_NAME, part) for part in parts[1:-1]]
    if len(parts) < 2 or not all(inner) or '"' in text or "'" in text:
        return split_pairs(text)
    pairs = [(found[1].strip(), found[2].strip()) for found in inner if found]
    names, values = [parts[0], *(name for _, name in pairs)], [*(value for value, _ in pairs), parts[-1]]
    return [*zip(names, values, strict=True)]


def _split(text: str, separators: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each part; separators in quotes do not count."""
    start = position = 0
    may_open = True  # A quote opens only at the start of an item; the one in "it's" is a letter.
    while position < len(text):
        char = text[position]
        if may_open and char in "\"'":
            position = _end_of_quote(text, position)
            may_open = False
            continue
        if char in separators:
            yield start, position
            start = position + 1
        may_open = char in ",;:=" or (may_open and char.isspace())
        position += 1
    yield start, len(text)


def _end_of_quote(text: str, position: int) -> int:
    match = re.compile(_QUOTED).match(text, position)
    if match is None:
        raise ValueError(f"a {text[position]} is not closed")
    return match.end()


def parse_value(text: str, kind: type[object]) -> CfgVal:
    """Read the text of one value.

    Args:
        text: The text, with its quotes.
        kind: One of str, bool, int, float, list and dict.

    Raises:
        ValueError: The text is not a value of that type.
    """
    if kind is list:
        return [_unquote(item) for item in _items(text)]
    if kind is dict:
        return _parse_dict(text)
    value = _unquote(text.strip())
    if kind is bool:
        return _parse_bool(value)
    if kind is int:
        return int(value)
    return float(value) if kind is float else value


def _items(text: str) -> list[str]:
    parts = [text[start:end].strip() for start, end in _split(text, ",;")]
    return [part for part in parts if part]


def _unquote(item: str) -> str:
    if not item.startswith(('"', "'")):
        return item
    match = re.fullmatch(_QUOTED, item)
    if match is None:
        raise ValueError("an item continues after its closing quote")
    return re.sub(_ESCAPE, r"\1", match[1]) if match[1] is not None else match[2]


def _parse_bool(text: str) -> bool:
    if text.lower() not in _YES + _NO:
        raise ValueError(f"a bool must be one of {', '.join(_YES + _NO)}")
    return text.lower() in _YES


def _parse_dict(text: str) -> dict[str, str]:
    result: dict[str, str] = {}
    for item in _items(text):
        name, value = _parse_entry(item)
        if name in result:
            raise ValueError(f"`{name}` is given twice")
        result[name] = value
    return result


def _parse_entry(item: str) -> tuple[str, str]:
    (_, end), *more = _split(item, ":")
    if more:
        return _unquote(item[:end].strip()), _unquote(item[end + 1 :].strip())
    name, colon, value = _unquote(item).partition(":")  # The whole of it may be in quotes.
    if not colon:
        raise ValueError("an item is not of the form name:value")
    return name, value


def format_pairs(cfg: Mapping[str, CfgVal]) -> str:
    """Format options as a text that parses to the same options, without those that are None."""
    return ",".join(f"{name}={_format(value)}" for name, value in cfg.items() if value is not None)


def _format(value: CfgVal) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(_quote(item) for item in value)
    if isinstance(value, dict):
        return ",".join(f"{_quote(name, colon=False)}:{_quote(item)}" for name, item in value.items())
    return _quote(value) if isinstance(value, str) else repr(value)


def _quote(text: str, *, colon: bool = True) -> str:
    if re.fullmatch(_NEEDS_NO_QUOTES, text) and (colon or ":" not in text):
        return str(text)
    escaped = str(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
