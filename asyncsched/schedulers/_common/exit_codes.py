"""Exit codes of shells and containers; those above 128 stand for the signal that ended the program."""

from __future__ import annotations

from asyncsched.specs.state import FailureCause

__all__ = ["BY_SIGNAL", "SIGKILL", "SIGTERM", "cause_of_code", "signal_name", "signal_of"]

BY_SIGNAL = 128
"""The difference between such a code and the signal's number."""
SIGKILL, SIGTERM = 9, 15

# The signals of Linux, where the programs run. Python knows the signals of this system, which may differ.
_SIGNALS = 64
_NAMES = (
    *("HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM"),
    *("TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF"),
    *("WINCH", "IO", "PWR", "SYS"),
)


def signal_of(code: int | None) -> int | None:
    """Return the signal that an exit code stands for; None if it stands for none."""
    return code - BY_SIGNAL if code is not None and BY_SIGNAL < code <= BY_SIGNAL + _SIGNALS else None


def signal_name(number: int) -> str:
    """Return the name of a signal, such as ``SIGKILL``, or ``signal 40`` if it has none."""
    return f"SIG{_NAMES[number - 1]}" if 0 < number <= len(_NAMES) else f"signal {number}"


def cause_of_code(code: int | None) -> FailureCause:
    """Return the cause of a program's failure from its exit code."""
    if not code:
        return FailureCause.UNKNOWN
    return FailureCause.EXIT if signal_of(code) is None else FailureCause.SIGNAL
