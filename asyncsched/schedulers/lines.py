"""Small functions for lines of text, from the TorchX documents."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TypeVar

__all__ = ["filter_regex", "split_lines", "split_lines_iterator"]

LineT = TypeVar("LineT", bound=str)


def filter_regex(regex: str, data: Iterable[LineT]) -> Iterator[LineT]:
    """Iterate over the lines that match a regular expression (`re.search`).

    Raises:
        re.error: It is not a valid regular expression.
    """
    search = re.compile(regex).search
    return (line for line in data if search(line))


def split_lines(text: str) -> list[str]:
    r"""Return the lines of a text, each with its ``\n``; only ``\n`` ends a line, and the last may have none."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def split_lines_iterator(chunks: Iterable[str]) -> Iterator[str]:
    """Iterate over the lines of each text; a line that continues in the next text comes in two pieces."""
    for chunk in chunks:
        yield from split_lines(chunk)
