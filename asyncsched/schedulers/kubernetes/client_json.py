"""Parse lists of objects item by item: the tree of a page of five hundred pods would take twenty times its text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, cast

__all__ = ["as_object", "read_list"]

ItemT = TypeVar("ItemT")

_decode = json.JSONDecoder().raw_decode
_SPACE = re.compile(r"[ \t\n\r]*")


def read_list(text: str, read: Callable[[Mapping[str, Any]], ItemT | None]) -> tuple[list[ItemT], dict[str, Any]]:
    """Read a list's items one by one, and the list's other members.

    The interpreter can switch threads between two items; inside `json.loads` it cannot.

    Returns:
        What `read` returned for the items, without the Nones, and the list's members other than ``items``.

    Raises:
        ValueError: It is not JSON, or not an object.
    """
    items: list[ItemT] = []
    others: dict[str, Any] = {}
    at = _expect(text, 0, "{")
    if _peek(text, at) == "}":
        return items, others
    while True:
        name, at = _decode(text, _space(text, at))
        at = _space(text, _expect(text, at, ":"))
        if name == "items" and _peek(text, at) == "[":
            for item, end in _elements(text, at):
                at = end
                if isinstance(item, dict) and (made := read(cast("Mapping[str, Any]", item))) is not None:
                    items.append(made)
            at = _expect(text, at, "]")
        else:
            others[str(name)], at = _decode(text, at)
        at = _space(text, at)
        if _peek(text, at) != ",":
            _expect(text, at, "}")
            return items, others
        at += 1


def as_object(value: object) -> Mapping[str, Any]:
    """Return `value` if it is a JSON object, else an empty one."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _elements(text: str, at: int) -> Iterator[tuple[Any, int]]:
    """Yield each element of the array at `at`, and its end; the last end is just before the bracket."""
    at = _space(text, at + 1)
    if _peek(text, at) == "]":
        yield None, at
        return
    while True:
        item, at = _decode(text, _space(text, at))
        at = _space(text, at)
        yield item, at
        if _peek(text, at) != ",":
            return
        at += 1


def _space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _peek(text: str, at: int) -> str:
    return text[at : at + 1]


def _expect(text: str, at: int, sign: str) -> int:
    at = _space(text, at)
    if text[at : at + 1] != sign:
        raise json.JSONDecodeError(f"Expecting {sign!r}", text, at)
    return at + 1
