"""Reading AWS's answers, where a part that does not apply is absent, null or empty, as it happens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

__all__ = ["Row", "part", "parts"]

Row: TypeAlias = Mapping[str, Any]


def part(row: Row, name: str) -> Row:
    """Return a structure inside an answer; empty where there is none."""
    return cast("Row", row.get(name) or {})


def parts(row: Row, name: str) -> Sequence[Row]:
    """Return a list of structures inside an answer; empty where there is none."""
    return cast("Sequence[Row]", row.get(name) or ())
