"""Read the times before log lines: RFC 3339 with nanoseconds."""

from __future__ import annotations

from datetime import datetime, timedelta

__all__ = ["StampReader"]

_NS = 1_000_000_000
_FULL = 30  # 2006-01-02T15:04:05.000000000Z


class StampReader:
    """Parses stamps into nanoseconds since the epoch; use one for each connection.

    It caches the last second, because thousands of lines may have the same. A stamp has up to nine fraction digits, and
    ``Z`` or an offset.
    """

    __slots__ = ("_end", "_second", "_text")

    def __init__(self) -> None:
        self._text: str | bytes = ""
        self._end: str | bytes = "Z"
        self._second = 0

    def ns(self, stamp: str | bytes) -> int:
        """Return the time; raise ValueError if the text is not one."""
        if len(stamp) == _FULL and stamp[:19] == self._text and stamp[29:] == self._end:
            return self._second + int(stamp[20:29])
        second, ns = _read(stamp.decode("ascii") if isinstance(stamp, bytes) else stamp)
        if stamp[-1:] in ("Z", b"Z"):
            self._text, self._end, self._second = stamp[:19], stamp[-1:], second
        return second + ns

    def split(self, line: str) -> tuple[int, str]:
        """Return the time before a line, and the text after the space that follows it."""
        stamp, _, text = line.partition(" ")
        return self.ns(stamp), text


def _read(stamp: str) -> tuple[int, int]:
    """Return the seconds, in nanoseconds, and the fraction separately, because a datetime has only microseconds."""
    whole, zone = stamp[:19], stamp[19:]
    fraction = ""
    if zone.startswith("."):
        fraction = zone[1:].rstrip("Zz") if zone[-1:] in ("Z", "z") else zone[1:-6]
        zone = zone[1 + len(fraction) :]
        if not (fraction.isascii() and fraction.isdecimal() and len(fraction) <= 9):
            raise ValueError(f"not a time of RFC 3339: {stamp!r}")
    when = datetime.fromisoformat(whole + zone.upper())
    offset = when.utcoffset()
    if offset is None or len(whole) != 19:
        raise ValueError(f"not a time of RFC 3339 with its offset: {stamp!r}")
    since_epoch = when.replace(tzinfo=None) - offset - datetime(1970, 1, 1)  # noqa: DTZ001 - both are UTC by now
    return since_epoch // timedelta(seconds=1) * _NS, int(fraction.ljust(9, "0")) if fraction else 0
