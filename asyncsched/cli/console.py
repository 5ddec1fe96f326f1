"""Where output goes: data to stdout in the chosen format, all else to stderr."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import TextIO

__all__ = ["Console", "Format", "to_json"]

Format: TypeAlias = Literal["table", "json", "jsonl"]


class Console:
    """What the options that every verb has say, and the ways to print.

    Attributes:
        format: What data is printed as.
        debug: Whether tracebacks are shown.
        plain: Whether colours are refused.
    """

    def __init__(self) -> None:
        self.format: Format = "table"
        self.debug = False
        self.plain = False

    @property
    def color(self) -> bool:
        """Whether stdout takes colours: a terminal, and nobody has said no (see no-color.org)."""
        refused = self.plain or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        return not refused and sys.stdout.isatty()

    @property
    def width(self) -> int | None:
        """The width of the terminal; None if stdout is none, and nothing must be cut."""
        if not sys.stdout.isatty():
            return None
        import shutil

        return shutil.get_terminal_size().columns

    def print(self, text: str, *, verbatim: bool = False) -> None:
        """Write data to stdout at once.

        Args:
            text: What others have named or written may be in it: control characters are shown, and not obeyed.
            verbatim: It is a program for a file, which only a terminal must not obey.
        """
        if not verbatim or sys.stdout.isatty():
            from asyncsched.cli.control_sequences import visible

            text = visible(text)
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        sys.stdout.flush()

    def say(self, text: str) -> None:
        """Write what is no data to stderr; where that cannot be written, the exit code has to do."""
        from asyncsched.cli.control_sequences import visible

        try:
            sys.stderr.write(visible(text) + "\n")
            sys.stderr.flush()
        except OSError:
            _forget(sys.stderr)

    def print_json(self, value: object) -> None:
        """Write one JSON document, or one line of JSON lines."""
        self.print(to_json(value, sys.stdout, indent=2 if self.format == "json" else None))

    def print_rows(self, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
        """Write rows: as a table with these columns, as one JSON list, or as a line of JSON each."""
        if self.format == "jsonl":
            for row in rows:
                self.print_json(row)
        elif self.format == "json":
            self.print_json([*rows])
        else:
            from asyncsched.cli.table import table

            for line in table(columns, rows, self.width):
                self.print(line)

    def forget_stdout(self) -> None:
        """Let what the interpreter still writes at its end go nowhere: the reader has left."""
        _forget(sys.stdout)


def _forget(stream: TextIO) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def to_json(value: object, out: TextIO, indent: int | None = None) -> str:
    """Return a JSON document that stays one in the encoding of `out`."""
    import json
    import re

    # What UTF-8 cannot hold are surrogates, and the stream writes them as JSON does. Of other encodings that is not so.
    is_unicode = (out.encoding or "utf-8").lower().replace("_", "-") == "utf-8"
    text = json.dumps(value, indent=indent, ensure_ascii=not is_unicode)
    # JSON has no need to hide these, but a terminal obeys them.
    return text if text.isascii() else re.sub("[\x80-\x9f]", lambda match: f"\\u{ord(match[0]):04x}", text)
