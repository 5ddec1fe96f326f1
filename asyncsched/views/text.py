"""A table of apps as text, with one line per app."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from unicodedata import category

from asyncsched.views.apps import AppView

__all__ = ["one_line", "text_table", "written_out"]


def text_table(views: Sequence[AppView], now: datetime, notes: Iterable[str] = ()) -> str:
    """Return a table of apps, one line per app, without empty columns.

    Args:
        views: The apps.
        now: The present time, for ages.
        notes: Notes below the table.
    """
    cells = [("APP", "STATE", "REPLICAS", "AGE", "REASON"), *(_cells(view, now) for view in views)]
    used = [column for column in zip(*cells, strict=True) if any(column[1:]) or column[0] in ("APP", "STATE")]
    widths = [max(map(len, column)) for column in used]
    lines = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in zip(*used, strict=True)]
    return "\n".join([*lines, *map(one_line, notes)])


def _cells(view: AppView, now: datetime) -> tuple[str, ...]:
    return one_line(view.handle), view.word, str(view.tally), view.age(now), one_line(view.reason)


def one_line(text: str) -> str:
    """Return a text in one line, with terminal control characters escaped."""
    return written_out(" ".join(text.split()))


def written_out(text: str) -> str:
    """Return a text with control characters escaped; tabs and all kinds of spaces stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\t" or category(c) == "Zs" else ascii(c)[1:-1] for c in text)
