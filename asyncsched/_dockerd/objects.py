"""Read answers that arrive piece by piece: one JSON object per line."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any, Protocol

__all__ = ["read_objects"]

_CHUNK = 64 * 1024


class _Content(Protocol):
    async def read(self, n: int = -1, /) -> bytes: ...


async def read_objects(content: _Content) -> AsyncGenerator[dict[str, Any]]:
    """Yield the objects as they arrive; raise JSONDecodeError for a line that is not JSON.

    A line may have any length: an event carries all labels of its container, and the readers of aiohttp and asyncio
    refuse a line that is longer than their buffer.
    """
    pieces: list[bytes] = []  # of the incomplete line
    while chunk := await content.read(_CHUNK):
        first, *others = chunk.split(b"\n")
        pieces.append(first)
        for other in others:
            line = b"".join(pieces)
            pieces = [other]
            if line.strip():
                yield json.loads(line)
    if rest := b"".join(pieces).strip():
        yield json.loads(rest)
