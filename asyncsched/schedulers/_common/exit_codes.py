"""Exit codes of containers: those above 128 tell the signal that ended the program."""

from __future__ import annotations

from asyncsched.specs.state import FailureCause

__all__ = ["cause_of_code", "signal_of"]


def signal_of(code: int | None) -> int | None:
    """Return the signal that an exit code tells; None for one that tells none."""
    return code - 128 if code is not None and 128 < code < 160 else None


def cause_of_code(code: int | None) -> FailureCause:
    """Return why a program failed that ended with this exit code."""
    if not code:
        return FailureCause.UNKNOWN
    return FailureCause.EXIT if signal_of(code) is None else FailureCause.SIGNAL
