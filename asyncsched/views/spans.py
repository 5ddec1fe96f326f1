"""Format durations and ages."""

from __future__ import annotations

from datetime import datetime, timedelta

__all__ = ["ago", "short", "span"]

_UNITS = (("d", 86400), ("h", 3600), ("m", 60))


def span(time: timedelta) -> str:
    """Format a duration in its two largest units, such as ``3 min 20 s``."""
    seconds = _seconds(time)
    if seconds < 60:
        return f"{seconds} s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def short(time: timedelta | None) -> str:
    """Format a duration for a narrow column, in its largest unit: ``3m``. Empty for None."""
    if time is None:
        return ""
    seconds = _seconds(time)
    for unit, size in _UNITS:
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def ago(when: datetime | None, now: datetime) -> str:
    """Format an age in its largest unit: ``5m ago``. Empty for None."""
    return "" if when is None else f"{short(now - when)} ago"


def _seconds(time: timedelta) -> int:
    return max(int(time.total_seconds()), 0)
