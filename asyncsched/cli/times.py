"""Times and durations on the command line."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import click

__all__ = ["duration", "local_time", "moment", "spent"]

_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw]?)")


def duration(text: str) -> float:
    """Parse a duration into seconds: ``30``, ``90s``, ``1h30m``."""
    seconds = _seconds(text)
    if seconds is None:
        raise click.BadParameter(f"{text!r} is not a time; write 30, 90s, 5m, 1h30m or 2d")
    return seconds


def moment(text: str) -> datetime | timedelta:
    """Parse a time: ``5m`` (ago), or an ISO date and time, local unless it has a time zone."""
    seconds = _seconds(text)
    try:
        return datetime.fromisoformat(text) if seconds is None else timedelta(seconds=seconds)
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{text!r} is not a time; write 5m for five minutes ago, or 2030-12-31T23:59"
        ) from None


def spent(seconds: float) -> str:
    """Format a duration: ``12 s``, ``3 min 20 s``, ``2 h 5 min``."""
    minutes, left = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {left} s" if minutes else f"{left} s"


def local_time(when: datetime | None, *, exact: bool) -> str:
    """Format a time in the local time zone, ``-`` for None.

    Args:
        when: The time.
        exact: Whether to include the UTC offset and microseconds, for programs.
    """
    if when is None:
        return "-"
    here = when.astimezone()
    return (
        here.isoformat(timespec="microseconds") if exact else f"{here:%Y-%m-%d %H:%M:%S}.{here.microsecond // 1000:03}"
    )


def _seconds(text: str) -> float | None:
    if not re.fullmatch(f"(?:{_PART.pattern})+", text):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
