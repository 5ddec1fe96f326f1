"""Write log lines to stdout: fast, with a prefix that tells who wrote them."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import Callable
from contextlib import aclosing
from typing import TextIO

from asyncsched.cli.console import Console, to_json
from asyncsched.logs.line import LogLine, LogOrigin
from asyncsched.logs.stream import LogStream

__all__ = ["LinePrinter", "print_lines", "printer_for"]

FLUSH_AT = 512
"""So many lines are written at once; fewer where no more are there yet."""

# Of the sixteen colours those that can be read on light and on dark.
_COLORS = (36, 33, 35, 32, 34, 31, 96, 93, 95, 92, 94, 91)


class LinePrinter:
    """Writes lines; those that are ready at the same time go out together.

    Args:
        out: Where to.
        color: Whether prefixes have colours, one for each replica.
        timestamps: Whether each line begins with the time when it was written.
        several_apps: Whether a prefix names the app as well.
        as_json: Whether each line is a JSON object.
    """

    def __init__(
        self,
        out: TextIO,
        *,
        color: bool = False,
        timestamps: bool = False,
        several_apps: bool = False,
        as_json: bool = False,
    ) -> None:
        self._out = out
        self._color = color
        self._timestamps = timestamps
        self._several_apps = several_apps
        self._format: Callable[[LogLine], str] = self._as_json if as_json else self._prefixed
        self._prefixes: dict[tuple[str, str, int], str] = {}
        self._by_origin: dict[int, tuple[LogOrigin, str]] = {}
        self._unfinished: tuple[str, bool] | None = None
        self._waiting: list[str] = []
        self._redraws = out.isatty()

    def add(self, line: LogLine) -> bool:
        """Take a line, and return whether it is the first since the last flush."""
        self._waiting.append(self._format(line))
        return len(self._waiting) == 1

    @property
    def full(self) -> bool:
        """Whether enough is waiting to be written."""
        return len(self._waiting) >= FLUSH_AT

    def flush(self) -> None:
        """Write what is waiting.

        Raises:
            BrokenPipeError: Nobody reads any more.
        """
        text, self._waiting = "".join(self._waiting), []
        if text:
            self._out.write(text)
            self._out.flush()

    def finish(self) -> None:
        """Write what is waiting, and end a line that has no end."""
        if self._unfinished is not None:
            self._waiting.append("\n")
        self.flush()

    def _as_json(self, line: LogLine) -> str:
        return to_json(line.to_dict(), self._out) + "\n"

    def _prefixed(self, line: LogLine) -> str:
        who = prefix = self._prefix(line.source)
        if self._timestamps:
            prefix += f"{line.timestamp:%Y-%m-%dT%H:%M:%S.%fZ} " if line.timestamp else "- "
        if self._unfinished is None and line[-1:] == "\n" and "\r" not in line:
            return prefix + line
        return self._continued(who, prefix, line)

    def _continued(self, who: str, prefix: str, line: LogLine) -> str:
        """Write progress output: what returns to the line's beginning stays in its line, others' lines break it."""
        before, self._unfinished = self._unfinished, None
        if line.gap is not None:
            sys.stderr.write(f"{prefix}lines are missing here: {line.gap.reason}\n")
            self._unfinished = before
            return ""
        begin = prefix
        if before is not None:
            is_same = before[0] == who
            # "50%" + "\r60%", or "50%\r" + "60%": the same line drawn again.
            begin = ("" if line.startswith("\r") or not before[1] else prefix) if is_same else f"\n{prefix}"
        if line.partial:
            self._unfinished = who, line.endswith("\r")
        return begin + (self._redrawn(prefix, line) if self._redraws else line)

    @staticmethod
    def _redrawn(prefix: str, line: LogLine) -> str:
        """Repeat the prefix where a terminal returns to the beginning of the line and would write over it."""
        body = line.rstrip("\r\n")
        return body.replace("\r", f"\r{prefix}") + line[len(body) :]

    def _prefix(self, source: LogOrigin) -> str:
        known = self._by_origin.get(id(source))
        if known is None or known[0] is not source:
            known = self._by_origin[id(source)] = (source, self._new_prefix(source))
        return known[1]

    def _new_prefix(self, source: LogOrigin) -> str:
        who = (source.app_id if self._several_apps else "", source.role, source.replica)
        if who not in self._prefixes:
            text = f"{who[0]}/{who[1]}/{who[2]}" if who[0] else f"{who[1]}/{who[2]}"
            color = _COLORS[len(self._prefixes) % len(_COLORS)]
            self._prefixes[who] = f"\x1b[{color}m{text}\x1b[0m " if self._color else f"{text} "
        return self._prefixes[who]


async def print_lines(lines: LogStream, printer: LinePrinter) -> None:
    """Write all lines of a stream; ends early with whatever fails, such as BrokenPipeError when nobody reads any more.

    The loop is let go between two lines only where the stream waits. So what is ready at once is written at once: the
    flush that the first of several lines asks for runs when there are no more.
    """
    loop = asyncio.get_running_loop()
    broken: asyncio.Future[None] = loop.create_future()

    def flush() -> None:
        try:
            printer.flush()
        except Exception as error:  # noqa: BLE001 - nobody reads any more, the disk is full: it ends the command
            if not broken.done():
                broken.set_exception(error)

    async def copy() -> None:
        async with aclosing(lines):
            async for line in lines:
                if printer.add(line):
                    loop.call_soon(flush)
                elif printer.full:
                    printer.flush()
        printer.finish()

    copying = asyncio.create_task(copy())
    with _ReaderGone(loop, broken):
        try:
            await asyncio.wait([copying, broken], return_when=asyncio.FIRST_COMPLETED)
            if broken.done():
                broken.result()
            await copying
        finally:
            broken.cancel()
            copying.cancel()
            await asyncio.wait([copying])


class _ReaderGone:
    """Notices that the reader of a pipe has left, also while nothing is written: ``log -f | head -1``."""

    def __init__(self, loop: asyncio.AbstractEventLoop, broken: asyncio.Future[None]) -> None:
        self._loop = loop
        self._broken = broken
        self._fd = _pipe(sys.stdout)

    def __enter__(self) -> None:
        if self._fd is not None:
            # Nothing can be read from the writing end of a pipe: the selector reports its end only.
            self._loop.add_reader(self._fd, self._gone)

    def _gone(self) -> None:
        self._stop()
        if not self._broken.done():
            self._broken.set_exception(BrokenPipeError())

    def _stop(self) -> None:
        if self._fd is not None:
            self._loop.remove_reader(self._fd)
            self._fd = None

    def __exit__(self, *_: object) -> None:
        self._stop()


def _pipe(file: TextIO) -> int | None:
    fd = file.fileno()
    return fd if stat.S_ISFIFO(os.fstat(fd).st_mode) else None


def printer_for(console: Console, *, timestamps: bool = False, several_apps: bool = False) -> LinePrinter:
    """Return a printer to stdout as the common options ask for it."""
    return LinePrinter(
        sys.stdout,
        color=console.color,
        timestamps=timestamps,
        several_apps=several_apps,
        as_json=console.format != "table",
    )
