"""Read a function's docstring: the summary, and the help of each argument."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Iterable

from asyncsched._typing import NamedTuple

__all__ = ["Docstring", "parse_docstring"]

_OF_ARGUMENTS = ("Args", "Arguments", "Parameters", "Keyword Args", "Keyword Arguments", "Other Parameters")
_OF_OTHERS = (
    *("Attributes", "Example", "Examples", "Note", "Notes", "Raises", "References", "Return", "Returns"),
    *("See Also", "Todo", "Warning", "Warnings", "Yield", "Yields"),
)
_TITLES = frozenset((*_OF_ARGUMENTS, *_OF_OTHERS))

# Compiled when a docstring needs them: most have one style.
_GOOGLE = r"(\s*)[\\*]*(\w+)\s*(?:\(.*?\))?\s*:\s*(.*)"
_NUMPY = r"([\\*]*\w+(?:\s*,\s*[\\*]*\w+)*)\s*(?::.*)?"
_FIELD = r"[:@]param\s+(?:[^:]*\s)?[\\*]*(\w+)\s*:\s*(.*)"
_OTHER_FIELD = r"[:@](?:type|returns?|rtype|raises?|except(?:ion)?|yields?|keyword|var)\b"


class Docstring(NamedTuple):
    """A parsed docstring.

    Attributes:
        summary: Everything before the first section.
        arguments: The help of each argument, in one line.
    """

    summary: str
    arguments: dict[str, str]


def parse_docstring(text: str | None) -> Docstring:
    """Read a docstring in the style of Google (``Args:``), NumPy (underlined), Sphinx or Epytext (``:param name:``)."""
    reader = _Reader()
    lines = inspect.cleandoc(text or "").splitlines()
    for line, following in itertools.zip_longest(lines, lines[1:], fillvalue=""):
        reader.read(line, following)
    return Docstring("\n".join(reader.summary).strip(), reader.arguments)


class _Reader:
    """Reads the lines of a docstring in order."""

    def __init__(self) -> None:
        self.summary: list[str] = []
        self.arguments: dict[str, str] = {}
        self._style = ""  # of the current section; empty before the first one
        self._names: tuple[str, ...] = ()  # the arguments that the next line may continue
        self._depth = -1
        self._after_blank = False

    def read(self, line: str, following: str) -> None:
        """Read a line; the following one may underline it."""
        title = line.strip().removesuffix(":")
        is_title = title in _TITLES and not line[:1].isspace()
        field = line.lstrip() if line.lstrip().startswith((":", "@")) else ""
        if is_title and _is_underline(following):
            self._open("numpy" if title in _OF_ARGUMENTS else "other")
        elif is_title and line.rstrip().endswith(":"):
            self._open("google" if title in _OF_ARGUMENTS else "other")
        elif field and (match := re.match(_FIELD, field)):
            self._open("fields")
            self._begin([match[1]], match[2])
        elif field and re.match(_OTHER_FIELD, field):
            self._open("fields")
        elif not self._begins(line):
            self._go_on(line)
        self._after_blank = not line.strip()

    def _open(self, style: str) -> None:
        self._style, self._names, self._depth = style, (), -1

    def _begin(self, names: Iterable[str], text: str) -> None:
        self._names = tuple(names)
        self.arguments |= dict.fromkeys(self._names, text)

    def _begins(self, line: str) -> bool:
        """Read the first line of an argument; in Google's style a deeper line continues the argument before."""
        if self._style == "google" and (match := re.fullmatch(_GOOGLE, line)) and self._depth in (-1, len(match[1])):
            self._depth = len(match[1])
            self._begin([match[2]], match[3])
            return True
        if self._style == "numpy" and (match := re.fullmatch(_NUMPY, line)):
            self._begin(re.findall(r"\w+", match[1]), "")
            return True
        return False

    def _go_on(self, line: str) -> None:
        if not self._style:
            self.summary.append(line)
        elif line.strip() and self._is_outside(line):
            self._open("other")
        elif line.strip():
            self.arguments |= {name: f"{self.arguments[name]} {line.strip()}".strip() for name in self._names}

    def _is_outside(self, line: str) -> bool:
        """Return whether a line is indented less than an argument's help."""
        if line[0].isspace() or _is_underline(line):
            return False
        return self._depth > 0 if self._style == "google" else self._style == "fields" and self._after_blank


def _is_underline(line: str) -> bool:
    dashes = line.rstrip()
    return len(dashes) >= 3 and not dashes.strip("-")
