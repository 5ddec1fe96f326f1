"""Lay out rows as a table that fits a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from asyncsched.cli.control_sequences import visible

__all__ = ["cut", "table"]

GAP = "  "
NARROWEST = 6


def table(columns: Sequence[str], rows: Iterable[Mapping[str, object]], width: int | None) -> Iterator[str]:
    """Yield a header and one line for each row.

    Args:
        columns: The keys to show; their capitals are the header.
        rows: Values by key.
        width: The width to fit into: columns on the right are cut or left out; None cuts nothing.
    """
    cells = [[name.upper().replace("_", " ") for name in columns]]
    cells += [[_text(row.get(name)) for name in columns] for row in rows]
    widths = _fitting([max(map(len, column)) for column in zip(*cells, strict=True)], width)
    for line in cells:
        padded = (cut(cell, size).ljust(size) for cell, size in zip(line, widths, strict=False))
        yield GAP.join(padded).rstrip()


def cut(text: str, width: int) -> str:
    """Return the text in one line of at most so many characters; an ellipsis stands for what is left out."""
    text = visible(text, one_line=True)
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def _fitting(widths: Sequence[int], width: int | None) -> list[int]:
    """Give each column what it needs, from the left, as long as there is room for something of it."""
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
