"""Write log lines to stdout, fast, with a prefix that names their replica."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import TextIO

from asyncsched.cli.colors import REPLICAS, RESET
from asyncsched.cli.console import Console, to_json
from asyncsched.cli.control_sequences import Cleaner, visible
from asyncsched.cli.log_printer_footer import Footer
from asyncsched.cli.log_printer_prefix import prefix_of
from asyncsched.cli.times import local_time
from asyncsched.logs.line import LogLine, LogOrigin
from asyncsched.logs.stream import LogStream
from asyncsched.views.log_names import Names, Who

__all__ = ["LinePrinter", "print_lines", "printer_for"]

FLUSH_AT = 512
"""The maximum number of lines per write."""

FOOTER_EVERY = 0.1
"""Seconds between two updates of progress bars if nothing else is written."""


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class _Writer:
    """One stream of a replica, with its prefix and its cleaner of control sequences."""

    source: LogOrigin
    who: Who
    prefix: str
    cleaner: Cleaner | None

    @property
    def key(self) -> tuple[Who, str]:
        """The replica and the stream."""
        return self.who, self.source.stream.value

    @property
    def reset(self) -> str:
        """The sequence that turns off a colour that is still on."""
        return RESET if self.cleaner is not None and self.cleaner.is_colored else ""


class LinePrinter:
    """Writes lines; those that are ready at the same time are written together.

    On a terminal, only the colours of replicas' control sequences pass; a single replica without a prefix may also move
    the cursor within its own lines. Progress bars of several replicas are shown at the bottom, the latest of each.
    Output that is not a terminal gets the lines unchanged.

    Args:
        out: The stream to write to.
        color: Whether to colour prefixes, one colour per replica.
        timestamps: Whether to start each line with its time.
        names: The names for prefixes.
        as_json: Whether to write each line as a JSON object.
        raw: Whether to write lines unchanged to a terminal too.
        prefix: Whether to start each line with the replica's name.
        alone: Whether one replica writes all lines. This is no longer assumed once another one writes.
    """

    def __init__(
        self,
        out: TextIO,
        *,
        color: bool = False,
        timestamps: bool = False,
        names: Names | None = None,
        as_json: bool = False,
        raw: bool = False,
        prefix: bool = True,
        alone: bool = False,
    ) -> None:
        self._out = out
        self._color = color
        self._timestamps = timestamps
        self._names = names or Names()
        self._has_prefix = prefix
        self._moves = alone and not prefix
        self._format: Callable[[LogLine], str] = self._as_json if as_json else self._prefixed
        self._prefixes: dict[Who, tuple[str, str]] = {}
        self._writers: dict[int, _Writer] = {}  # by the identity of their origins, which are often shared
        self._cleaners: dict[LogOrigin, Cleaner] = {}
        self._unfinished: tuple[_Writer, bool] | None = None
        self._waiting: list[str] = []
        self._is_due = False  # whether the footer is to be drawn soon
        self._redraws = out.isatty()
        self._cleans = self._redraws and not raw
        self._footer = Footer() if self._cleans and not alone and not as_json else None

    def add(self, line: LogLine) -> float | None:
        """Add a line; return in how many seconds to call `flush`, or None if that is scheduled already."""
        if text := self._format(line):
            self._waiting.append(text)
            return 0.0 if len(self._waiting) == 1 else None
        if self._is_due or self._footer is None or not self._footer.has_changed:
            return None
        self._is_due = True
        return FOOTER_EVERY

    @property
    def full(self) -> bool:
        """Whether enough lines are buffered to be written."""
        return len(self._waiting) >= FLUSH_AT

    def flush(self) -> None:
        """Write the buffered lines.

        Raises:
            BrokenPipeError: The reader has gone.
        """
        text, self._waiting = "".join(self._waiting), []
        self._is_due = False
        if self._footer is not None and (text or self._footer.has_changed):
            text = f"{self._footer.erased()}{text}{self._footer.drawn()}"
        if text:
            self._out.write(text)
            self._out.flush()

    def finish(self) -> None:
        """Write the buffered lines, and end unfinished ones."""
        if self._unfinished is not None:
            self._waiting.append(f"{self._unfinished[0].reset}\n")
            self._unfinished = None
        if self._footer is not None:
            self._waiting += self._footer.take_all()
        self.flush()

    def tell(self, text: str) -> None:
        """Write a line of our own after the lines so far: to the terminal, or else to stderr."""
        if not self._redraws:
            self.flush()
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()
            return
        if self._unfinished is not None:
            text = f"{self._unfinished[0].reset}\n{text}"
            self._unfinished = None
        self._waiting.append(f"{text}\n")
        self.flush()

    def step_aside(self) -> None:
        """Erase the progress bars at the bottom, because something else is about to be written."""
        if self._footer is not None and (erased := self._footer.erased()):
            self._out.write(erased)
            self._out.flush()

    def _as_json(self, line: LogLine) -> str:
        return to_json(line.to_dict(), self._out) + "\n"

    def _prefixed(self, line: LogLine) -> str:
        writer = self._writers.get(id(line.source))
        if writer is None or writer.source is not line.source:
            writer = self._writers[id(line.source)] = self._new_writer(line.source)
        prefix = writer.prefix
        if self._timestamps:
            prefix += f"{local_time(line.timestamp, exact=not self._redraws)} "
        text = line if writer.cleaner is None else writer.cleaner.clean(line)
        is_drawn = self._footer is not None and self._footer.holds(writer.key)
        if self._unfinished is None and text[-1:] == "\n" and "\r" not in text and not is_drawn:
            return prefix + text
        if line.gap is not None:
            self.step_aside()
            sys.stderr.write(f"{writer.prefix}lines are missing here: {visible(line.gap.reason, one_line=True)}\n")
            return ""
        if self._footer is not None:
            before = self._broken_off()
            return before + self._footer.take(writer.key, prefix, text, writer.reset)
        return self._continued(writer, prefix, text) if text else ""

    def _broken_off(self) -> str:
        before, self._unfinished = self._unfinished, None
        return f"{before[0].reset}\n" if before is not None else ""

    def _continued(self, writer: _Writer, prefix: str, text: str) -> str:
        """Write progress output: text after a carriage return stays on its line, other replicas start another."""
        before, self._unfinished = self._unfinished, None
        begin = prefix
        if before is not None:
            is_same = before[0].who == writer.who
            # "50%" + "\r60%", or "50%\r" + "60%": the same line drawn again.
            again = "" if text.startswith("\r") or not before[1] else prefix
            begin = again if is_same else f"{before[0].reset}\n{prefix}"
        if not text.endswith("\n"):
            self._unfinished = writer, text.endswith("\r")
        return begin + (self._redrawn(prefix, text) if self._redraws else text)

    @staticmethod
    def _redrawn(prefix: str, line: str) -> str:
        """Repeat the prefix after each carriage return, because it would be overwritten."""
        body = line.rstrip("\r\n")
        return body.replace("\r", f"\r{prefix}") + line[len(body) :]

    def _new_writer(self, source: LogOrigin) -> _Writer:
        who = self._names.who(source)
        if who not in self._prefixes:
            self._prefixes[who] = self._new_prefix(who)
        if len(self._prefixes) > 1:
            self._keep_still()
        if self._cleans and source not in self._cleaners:
            self._cleaners[source] = Cleaner(moves=self._moves)
        name, color = self._prefixes[who]
        prefix = prefix_of(name, source.stream, color, is_drawn=self._redraws, width=self._names.width)
        return _Writer(source=source, who=who, prefix=prefix, cleaner=self._cleaners.get(source))

    def _keep_still(self) -> None:
        """Forbid cursor movement, because lines above the cursor may now be another replica's."""
        self._moves = False
        for cleaner in self._cleaners.values():
            cleaner.moves = False
        if self._cleans and self._footer is None:
            self._footer = Footer()

    def _new_prefix(self, who: Who) -> tuple[str, str]:
        if not self._has_prefix:
            return "", ""
        color = REPLICAS[len(self._prefixes) % len(REPLICAS)]
        return visible(self._names.of(who), one_line=True), color if self._color else ""


async def print_lines(lines: LogStream, printer: LinePrinter) -> None:
    """Write all lines of a stream; stop at an error, such as BrokenPipeError if the reader has gone.

    The loop runs between two lines only if the stream waits. So the flush that is scheduled with the first of several
    available lines runs after the last of them, and all are written at once.
    """
    loop = asyncio.get_running_loop()
    broken: asyncio.Future[None] = loop.create_future()

    def flush() -> None:
        try:
            printer.flush()
        except Exception as error:  # noqa: BLE001 - the reader has gone, or the disk is full: this ends the command
            if not broken.done():
                broken.set_exception(error)

    async def copy() -> None:
        async with aclosing(lines):
            async for line in lines:
                delay = printer.add(line)
                if delay is not None:
                    loop.call_later(delay, flush) if delay else loop.call_soon(flush)
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
            with suppress(Exception):  # the first error is already being raised
                printer.finish()  # also if cancelled, so that later output starts on a new line without a colour


class _ReaderGone:
    """Notices when the reader of a pipe has gone, even while nothing is written: ``log -f | head -1``."""

    def __init__(self, loop: asyncio.AbstractEventLoop, broken: asyncio.Future[None]) -> None:
        self._loop = loop
        self._broken = broken
        self._fd = _pipe(sys.stdout)

    def __enter__(self) -> None:
        if self._fd is not None:
            # The writing end of a pipe becomes readable only when the reader has gone.
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


def printer_for(
    console: Console,
    *,
    timestamps: bool = False,
    names: Names | None = None,
    raw: bool = False,
    prefix: bool = True,
    alone: bool = False,
) -> LinePrinter:
    """Return a printer to stdout, configured by the common options."""
    printer = LinePrinter(
        sys.stdout,
        color=console.color,
        timestamps=timestamps,
        names=names,
        as_json=console.format != "table",
        raw=raw,
        prefix=prefix,
        alone=alone,
    )
    console.before_saying = printer.step_aside
    return printer
