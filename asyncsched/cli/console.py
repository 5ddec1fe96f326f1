"""Output: data to stdout in the chosen format, everything else to stderr."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TextIO

    from asyncsched.specs.state import AppState

__all__ = ["Console", "Format", "to_json"]

Format: TypeAlias = Literal["table", "json", "jsonl"]


class Console:
    """The common options of all verbs, and the methods to print.

    Attributes:
        format: The output format of data.
        debug: Whether tracebacks are shown.
        plain: Whether to print without colours.
        before_saying: Called before writing to stderr, to remove what is drawn on the screen.
    """

    def __init__(self) -> None:
        self.format: Format = "table"
        self.debug = False
        self.plain = False
        self.before_saying: Callable[[], None] = _nothing

    @property
    def color(self) -> bool:
        """Whether to use colours: stdout is a terminal, and they are not turned off (see no-color.org)."""
        return self._takes_colors(sys.stdout)

    def _takes_colors(self, out: TextIO) -> bool:
        refused = self.plain or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        return not refused and out.isatty()

    @property
    def width(self) -> int | None:
        """The width of the terminal; None if stdout is not a terminal, so that nothing is cut."""
        if not sys.stdout.isatty():
            return None
        import shutil

        return shutil.get_terminal_size().columns

    def print(self, text: str, *, verbatim: bool = False) -> None:
        """Write data to stdout at once.

        Args:
            text: The text. Control characters are made visible, as it may contain what others wrote.
            verbatim: Whether to keep control characters if stdout is not a terminal.
        """
        if not verbatim or sys.stdout.isatty():
            from asyncsched.cli.control_sequences import visible

            text = visible(text)
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        sys.stdout.flush()

    def print_painted(self, lines: Iterable[str]) -> None:
        """Write lines with our own colours, in which other control characters are already visible."""
        for line in lines:
            sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def say_painted(self, lines: Iterable[str]) -> None:
        """Write such lines to stderr, after flushing stdout."""
        sys.stdout.flush()
        self._say("".join(f"{line}\n" for line in lines))

    def say(self, text: str, *, end: str = "\n") -> None:
        """Write a message to stderr; errors are ignored, the exit code must suffice then."""
        from asyncsched.cli.control_sequences import visible

        self._say(visible(text) + end)

    def _say(self, text: str) -> None:
        self.before_saying()
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:
            _forget(sys.stderr)

    def print_state(self, before: str, state: AppState, after: str) -> None:
        """Write a line with a state to stdout, in colour on a terminal."""
        sys.stdout.write(self._with_state(before, state, after, sys.stdout))
        sys.stdout.flush()

    def say_state(self, before: str, state: AppState, after: str) -> None:
        """Write a line with a state to stderr, as `print_state` does."""
        self._say(self._with_state(before, state, after, sys.stderr))

    def _with_state(self, before: str, state: AppState, after: str, out: TextIO) -> str:
        from asyncsched.cli.colors import painted, state_color
        from asyncsched.cli.control_sequences import visible

        word = painted(str(state), state_color(state) if self._takes_colors(out) else "")
        return f"{visible(before, one_line=True)}{word}{visible(after)}\n"

    def print_json(self, value: object) -> None:
        """Write one JSON document, or one line of JSON lines."""
        self.print(to_json(value, sys.stdout, indent=2 if self.format == "json" else None))

    def print_rows(self, columns: Sequence[str], rows: Iterable[Mapping[str, object]], *, wraps: bool = False) -> None:
        """Write rows: as a table with these columns, as one JSON list, or as a line of JSON each.

        Args:
            columns: The columns of the table.
            rows: What is told, by the names of columns or fields.
            wraps: Whether no text of the table's last column is cut.
        """
        if self.format == "jsonl":
            for row in rows:
                self.print_json(row)
        elif self.format == "json":
            self.print_json([*rows])
        else:
            from asyncsched.cli.table import table

            for line in table(columns, rows, self.width, wraps=wraps):
                self.print(line)

    def forget_stdout(self) -> None:
        """Discard what the interpreter still writes to stdout at exit, because the reader has gone."""
        _forget(sys.stdout)

    def forget_terminal(self) -> None:
        """Discard all further output, because the terminal was closed."""
        _forget(sys.stdout)
        _forget(sys.stderr)


def _nothing() -> None:
    """Do nothing."""


def _forget(stream: TextIO) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def to_json(value: object, out: TextIO, indent: int | None = None) -> str:
    """Return a JSON document that is valid in the encoding of `out`."""
    import json
    import re

    from asyncsched.cli.control_sequences import NOT_IN_JSON

    # What UTF-8 cannot hold are surrogates, and the stream writes them as JSON does. Of other encodings that is not so.
    is_unicode = (out.encoding or "utf-8").lower().replace("_", "-") == "utf-8"
    text = json.dumps(value, indent=indent, ensure_ascii=not is_unicode)
    # JSON does not require these to be escaped, but terminals obey them.
    return text if text.isprintable() else re.sub(NOT_IN_JSON, lambda match: f"\\u{ord(match[0]):04x}", text)
