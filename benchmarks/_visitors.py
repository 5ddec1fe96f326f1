"""Pages that only read: a program that opens many streams of one address, and tells how many bytes have come."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit


class Visitors:
    """Pages in a process of their own.

    Args:
        process: The process.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def received(self) -> int:
        """Return how many bytes all of them have received."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"\n")
        return int(await self._process.stdout.readline())


@asynccontextmanager
async def visiting(url: str, path: str, number: int) -> AsyncIterator[Visitors]:
    """Let so many pages read the stream of this path; what the URL itself answers may hold their cookie."""
    command = [sys.executable, "-m", __name__, url, path, str(number)]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    try:
        yield Visitors(process)
    finally:
        process.kill()
        await process.wait()


class _Page(asyncio.Protocol):
    """One stream, whose bytes are counted and dropped."""

    received = 0

    def data_received(self, data: bytes) -> None:
        _Page.received += len(data)


async def _visit(url: str, path: str, number: int) -> None:
    parts = urlsplit(url)
    head = f"Host: {parts.netloc}\r\nSec-Fetch-Site: same-origin\r\n"
    host, port = parts.hostname or "", parts.port or 80
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(f"GET {parts.path}?{parts.query} HTTP/1.1\r\n{head}\r\n".encode())
    answer = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    if cookie := re.search(rb"Set-Cookie: ([^;]+)", answer):
        head += f"Cookie: {cookie[1].decode()}\r\n"
    loop = asyncio.get_running_loop()
    for _ in range(number):
        transport, _ = await loop.create_connection(_Page, host, port)
        transport.write(f"GET {path} HTTP/1.1\r\n{head}\r\n".encode())
    asked = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(asked), sys.stdin)
    while await asked.readline():
        print(_Page.received, flush=True)


if __name__ == "__main__":
    asyncio.run(_visit(sys.argv[1], sys.argv[2], int(sys.argv[3])))
