"""Write and read the JSON lines of a supervisor's socket."""

from __future__ import annotations

from . import TYPE_CHECKING
from .bare import dumps

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def encode(message: Mapping[str, object]) -> bytes:
    """Return a message as a line, without spaces, because the owner recognises events by their first bytes."""
    return dumps(message) + b"\n"


class Lines:
    """Splits incoming data into whole lines."""

    def __init__(self) -> None:
        self._left = bytearray()

    def cut(self, data: bytes) -> Iterator[bytes]:
        """Yield the lines that end in `data`, without their newlines; the rest is kept."""
        start = len(self._left)
        self._left += data
        while (end := self._left.find(b"\n", start)) >= 0:
            line = bytes(self._left[:end])
            del self._left[: end + 1]
            start = 0
            yield line

    def __len__(self) -> int:
        return len(self._left)
