"""Exit codes of shells and containers: those above 128 tell the signal that ended the program."""

from __future__ import annotations

from asyncsched.specs.state import FailureCause

__all__ = ["BY_SIGNAL", "SIGKILL", "SIGTERM", "cause_of_code", "signal_name", "signal_of"]

BY_SIGNAL = 128
"""What such a code is more than the signal's number."""
SIGKILL, SIGTERM = 9, 15

# Signals of Linux, where programs run. Python knows those of the system that we run on, which may be another.
_SIGNALS = 64
_NAMES = (
    *("HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM"),
    *("TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF"),
    *("WINCH", "IO", "PWR", "SYS"),
)


def signal_of(code: int | None) -> int | None:
    """Return the signal that an exit code tells; None for one that tells none."""
    return code - BY_SIGNAL if code is not None and BY_SIGNAL < code <= BY_SIGNAL + _SIGNALS else None


def signal_name(number: int) -> str:
    """Return the name of a signal, such as ``SIGKILL``, or ``signal 40`` for one that has none."""
    return f"SIG{_NAMES[number - 1]}" if 0 < number <= len(_NAMES) else f"signal {number}"


def cause_of_code(code: int | None) -> FailureCause:
    """Return why a program failed that ended with this exit code."""
    if not code:
        return FailureCause.UNKNOWN
    return FailureCause.EXIT if signal_of(code) is None else FailureCause.SIGNAL
