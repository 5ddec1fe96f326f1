"""Lay out rows as a table that fits a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import wrap

from asyncsched.cli.control_sequences import visible

__all__ = ["cut", "table"]

GAP = "  "
NARROWEST = 6
INDENT = 4


def table(
    columns: Sequence[str], rows: Iterable[Mapping[str, object]], width: int | None, *, wraps: bool = False
) -> Iterator[str]:
    """Yield a header and one line for each row.

    Args:
        columns: The keys to show; their capitals are the header.
        rows: Values by key.
        width: The width to fit into: columns on the right are cut or left out; None cuts nothing.
        wraps: Whether to show a text of the last column that would be cut below its row, wrapped.
    """
    cells = [[name.upper().replace("_", " ") for name in columns]]
    cells += [[_text(row.get(name)) for name in columns] for row in rows]
    widths = _fitting([max(map(len, column)) for column in zip(*cells, strict=True)], width)
    for line in cells:
        last = line[-1]
        if below := wraps and len(last) > (widths[-1] if len(widths) == len(line) else 0):
            line = [*line[:-1], ""]
        padded = (cut(cell, size).ljust(size) for cell, size in zip(line, widths, strict=False))
        yield GAP.join(padded).rstrip()
        if below:
            indent, room = " " * INDENT, max(width or 0, 2 * INDENT)
            yield from wrap(last, room, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def cut(text: str, width: int) -> str:
    """Return the text on one line of at most `width` characters, with an ellipsis if it was cut."""
    text = visible(text, one_line=True)
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def _fitting(widths: Sequence[int], width: int | None) -> list[int]:
    """Return column widths: as wide as needed, from the left, while there is room."""
    if width is None:
        return [*widths]
    fitting: list[int] = []
    left = width
    for needed in widths:
        if fitting and left < min(needed, NARROWEST):
            break
        fitting.append(min(needed, left))
        left -= fitting[-1] + len(GAP)
    return fitting


def _text(value: object) -> str:
    return "" if value is None else visible(" ".join(str(value).split()), one_line=True)
