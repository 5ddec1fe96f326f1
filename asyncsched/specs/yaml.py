"""Print plain data as YAML: what people read in a dry-run and in a status.

Only printing, and only dicts, lists and scalars: this needs no YAML library. What comes out is read back
unchanged by a YAML 1.1 reader.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

__all__ = ["to_yaml"]

_PLAIN = re.compile(r"(?!<<)[A-Za-z_/<(](?:[^:#]|:(?! )|(?<! )#)*(?<![: ])")
_OTHER_MEANING = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


def to_yaml(value: object, *, sort_keys: bool = False) -> str:
    """Return the value in YAML's block style, ending with a newline.

    Args:
        value: Dicts, lists and scalars; anything else is printed by ``str()``.
        sort_keys: Print the keys of every dict in alphabetical order.
    """
    return "".join(f"{line}\n" for line in _lines(value, sort_keys))


def _lines(value: object, sort_keys: bool) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key in sorted(value) if sort_keys else value:
            yield from _entry(key, value[key], sort_keys)
    elif isinstance(value, list) and value:
        for item in value:
            first, *rest = _lines(item, sort_keys)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)
    else:
        yield _scalar(value)


def _entry(key: object, value: object, sort_keys: bool) -> Iterator[str]:
    if isinstance(value, (dict, list)) and value:
        yield f"{_scalar(key)}:"
        indent = "  " if isinstance(value, dict) else ""
        yield from (f"{indent}{line}" for line in _lines(value, sort_keys))
    else:
        yield f"{_scalar(key)}: {_scalar(value)}"


def _scalar(value: object) -> str:
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
    # Without a dot YAML 1.1 takes 1e+20 for a string.
    return text.replace("e", ".0e", 1) if "." not in text else text


def _text(text: str) -> str:
    if not text.isprintable():
        from json import dumps  # A JSON string is a double-quoted YAML string.

        return dumps(text)
    if _PLAIN.fullmatch(text) and text.lower() not in _OTHER_MEANING:
        return text
    return "'" + text.replace("'", "''") + "'"
