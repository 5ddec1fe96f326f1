"""Answers that the daemon gives bit by bit: one JSON object per line, for as long as it lasts."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any, Protocol

__all__ = ["read_objects"]

_CHUNK = 64 * 1024


class _Content(Protocol):
    async def read(self, n: int = -1, /) -> bytes: ...


async def read_objects(content: _Content) -> AsyncGenerator[dict[str, Any]]:
    """Yield the objects as they come; raises JSONDecodeError for what is none.

    A line may be of any length: an event carries all labels of its container, and the readers of aiohttp and
    asyncio refuse a line that is longer than their buffer.
    """
    pieces: list[bytes] = []  # of the line that is not complete yet
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
