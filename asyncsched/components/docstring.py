"""Read a function's docstring: its summary, and what it says about each argument."""

from __future__ import annotations

import inspect
import re
from typing import NamedTuple

__all__ = ["Docstring", "parse_docstring"]

_SECTION = re.compile(r"(Args|Arguments|Parameters|Returns|Raises|Yields|Example|Examples|Note|Notes):\s*")
_ARGUMENT = re.compile(r"(\s*)\**(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_FIELD = re.compile(r"\s*:param\s+(?:[\w\[\], |]+\s+)?\**(\w+)\s*:\s*(.*)")


class Docstring(NamedTuple):
    """What a docstring says.

    Attributes:
        summary: All before the first section.
        arguments: The help of each argument, in one line.
    """

    summary: str
    arguments: dict[str, str]


def parse_docstring(text: str | None) -> Docstring:
    """Read a docstring in Google's style (``Args:``) or Sphinx's (``:param name:``)."""
    summary: list[str] = []
    arguments: dict[str, str] = {}
    section, name, depth = "", "", -1
    for line in inspect.cleandoc(text or "").splitlines():
        if match := _SECTION.fullmatch(line):
            section, name, depth = match[1], "", -1
        elif match := _FIELD.match(line):
            section, name, depth = "fields", match[1], 0
            arguments[name] = match[2]
        elif section in ("Args", "Arguments", "Parameters") and (match := _begins(line, depth)):
            depth, name = len(match[1]), match[2]
            arguments[name] = match[3]
        elif name and line.strip():
            arguments[name] = f"{arguments[name]} {line.strip()}".strip()
        elif not section:
            summary.append(line)
    return Docstring("\n".join(summary).strip(), arguments)


def _begins(line: str, depth: int) -> re.Match[str] | None:
    """Match the first line of an argument; a line further in than the first argument goes on with it."""
    match = _ARGUMENT.fullmatch(line)
    return match if match and depth in (-1, len(match[1])) else None
