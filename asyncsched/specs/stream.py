"""Which of a replica's outputs a log is read from."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Stream"]


class Stream(StrEnum):
    """An output of a replica."""

    STDOUT = "stdout"
    STDERR = "stderr"
    COMBINED = "combined"
