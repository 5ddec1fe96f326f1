"""Ask the user at the terminal without blocking the loop."""

from __future__ import annotations

import asyncio
import os
import sys

from asyncsched.cli.console import Console

__all__ = ["can_ask", "confirm"]


def can_ask() -> bool:
    """Tell whether the user can be asked: stdin and stderr are a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


async def confirm(console: Console, question: str) -> bool:
    """Ask, and return whether the answer is yes; anything else means no."""
    console.say(f"{question} [y/N] ", end="")
    loop, fd = asyncio.get_running_loop(), sys.stdin.fileno()
    answer: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        loop.remove_reader(fd)
        data = os.read(fd, 1024)  # the terminal gives whole lines
        if not answer.done():
            answer.set_result(data.decode(errors="replace"))
        if not data.endswith(b"\n"):
            console.say("")

    loop.add_reader(fd, read)
    try:
        return (await answer).strip().lower() in ("y", "yes")
    except asyncio.CancelledError:
        console.say("")
        raise
    finally:
        loop.remove_reader(fd)
