"""Parts of the standard library in C, without the Python modules around them, which took over half of the start.

Those modules make enums of the numbers of signals and sockets, and compile patterns for JSON. Here the numbers are
plain, and `accept` is a function; the rest is used as usual.
"""

from __future__ import annotations

import _socket as socket
from _heapq import heappop, heappush
from _weakref import ref

from . import TYPE_CHECKING

if TYPE_CHECKING:
    import signal
    from collections import deque
    from typing import Any
else:  # type checkers have no stubs of these
    import _signal as signal
    from _collections import deque

__all__ = ["accept", "deque", "dumps", "heappop", "heappush", "loads", "ref", "signal", "socket"]


class _Plain:
    """How the scanner reads: as `json.loads` does by default."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int, parse_constant = float, int, float


def _refuse(value: object) -> object:
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


_scan: Any
_chunks: Any
try:
    import _json

    _scan = _json.make_scanner(_Plain)  # type: ignore[arg-type]
    # Without a search for circles, which none of our messages has; see `json.encoder` for the order of the arguments.
    _chunks = _json.make_encoder(None, _refuse, _json.encode_basestring_ascii, None, ":", ",", False, False, True)
except (ImportError, AttributeError, TypeError):  # an interpreter that has none, or another one
    import json

    _scan, _chunks = json.JSONDecoder().raw_decode, json.JSONEncoder(separators=(",", ":")).iterencode


def accept(listening: socket.socket) -> socket.socket:
    """Accept a connection."""
    accepting: Any = listening  # type checkers do not know all that it has
    return socket.socket(fileno=accepting._accept()[0])


def dumps(value: object) -> bytes:
    """Return a value as JSON, without spaces, all of it ASCII."""
    return "".join(_chunks(value, 0)).encode()


def loads(line: bytes) -> Any:
    """Return the value of JSON in UTF-8; ValueError if it is none."""
    text = line.decode().strip(" \t\r\n")
    try:
        value, end = _scan(text, 0)
    except (StopIteration, SystemError):  # the latter because the class of its error is in `json`, which is not loaded
        value, end = None, -1
    if end != len(text):
        raise ValueError("it is not JSON")
    return value
