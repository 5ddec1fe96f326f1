"""Decode BuildKit's progress records: protobuf messages (`moby.buildkit.v1.StatusResponse`), as far as needed.

The format is moby/buildkit's ``api/services/control/control.proto``. Unknown fields are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Trace", "read_trace"]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_VERTEXES, _STATUSES, _LOGS = 1, 2, 3
"""Fields of a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A record about one step.

    Attributes:
        step: The step's digest.
        name: Its name, such as ``[2/2] RUN make``; empty in a record that has only output.
        started: Whether it has begun.
        completed: Whether it has ended.
        cached: Whether its result came from the cache.
        error: The reason of its failure.
        output: Its output.
        stream: The stream of the output: 1 is stdout, 2 is stderr.
        current: The bytes transferred so far.
        total: The bytes to transfer, if known.
    """

    step: str
    name: str = ""
    started: bool = False
    completed: bool = False
    cached: bool = False
    error: str = ""
    output: bytes = b""
    stream: int = 0
    current: int | None = None
    total: int | None = None


def read_trace(record: bytes) -> Iterator[Trace]:
    """Yield a record's traces in order; raise ValueError if the record is cut off or malformed."""
    for number, value in _fields(record):
        if isinstance(value, int):
            continue
        if number == _VERTEXES:
            yield _vertex(value)
        elif number == _STATUSES:
            yield _status(value)
        elif number == _LOGS:
            found = dict(_fields(value))
            stream = found.get(3)
            yield Trace(
                step=_text(found.get(1)), output=_raw(found.get(4)), stream=stream if isinstance(stream, int) else 0
            )


def _vertex(message: bytes) -> Trace:
    found = dict(_fields(message))  # its inputs repeat; only the last one stays
    return Trace(
        step=_text(found.get(1)),
        name=_text(found.get(3)),
        cached=bool(found.get(4)),
        started=5 in found,
        completed=6 in found,
        error=_text(found.get(7)),
    )


def _status(message: bytes) -> Trace:
    found = dict(_fields(message))
    current, total = found.get(4), found.get(5)
    return Trace(
        step=_text(found.get(2)),
        current=current if isinstance(current, int) else None,
        total=total if isinstance(total, int) else None,
        completed=8 in found,
    )


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and the value of each field; values with a length are bytes."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        if kind == _BYTES:
            size, at = _varint(message, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"field {number} has the unknown kind {kind}")
        if at + size > len(message):
            raise ValueError(f"field {number} is cut off")
        yield number, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message):
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number is longer than ten bytes")
    raise ValueError("a number is cut off")


def _text(value: int | bytes | None) -> str:
    return _raw(value).decode(errors="replace")


def _raw(value: int | bytes | None) -> bytes:
    return value if isinstance(value, bytes) else b""
