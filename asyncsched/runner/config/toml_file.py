"""Read a configuration file in TOML, within bounds, so that each value knows its line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias, cast

from asyncsched.errors import ConfigError
from asyncsched.runner.config.trust import ConfigFile, text_of
from asyncsched.specs.to_plain import MOST_LEVELS, check_depth

__all__ = ["KeyLines", "Table", "parse_toml", "read_toml"]

Table: TypeAlias = dict[str, object]
KeyPath: TypeAlias = tuple[str, ...]

MOST_DOTS_DOUBTED = 16
"""Dots in a key of a file that others may have written."""

MOST_ASKED = 4
"""Parts of the longest key whose line is asked for, such as ``component.utils.sh.args``."""

_HEADER = r"\s*\[([^\[\]]+)\]\s*(?:#.*)?"
_KEY = r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*="""
_PLAIN_KEY = r"[A-Za-z0-9_-]+(?:[ \t]*\.[ \t]*[A-Za-z0-9_-]+)*"

_PART = r"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"?|'[^'\n]*+'?)"""
_TOKEN = rf"""(?s)#[^\n]*+|\"\"\"(?:[^\\]|\\.)*?(?:\"\"\"|\Z)|'''.*?(?:'''|\Z)|{_PART}(?:[ \t]*+\.[ \t]*+{_PART})*+"""
"""A comment, a text on several lines, or a key; every other value has fewer dots. It never goes back far."""


class _LongKeyError(ValueError):
    """A key has too many dots: the parser's time and memory grow with the square of their number."""


class KeyLines:
    """The lines of the keys in a text, which are found when one is asked for.

    Args:
        text: The text.
        inside: The table in which the keys are.
    """

    def __init__(self, text: str, inside: KeyPath = ()) -> None:
        self._text = text
        self._inside = inside
        self._found: dict[KeyPath, int] | None = None

    def of(self, *keys: str) -> int:
        """Return the first line that sets a key or one below it; 1 if none seems to."""
        if self._found is None:
            self._found = self._find()
        return self._found.get(keys, 1)

    def _find(self) -> dict[KeyPath, int]:
        found: dict[KeyPath, int] = {}
        skipped = len(self._inside)
        for path, line in _lines(self._text):
            if path[:skipped] == self._inside:
                inner = path[skipped : skipped + MOST_ASKED]
                for end in range(len(inner) + 1):
                    found.setdefault(inner[:end], line)  # if a key seems to occur twice, the first is the real one
        return found


def read_toml(file: ConfigFile, name: str, *, is_project: bool = False) -> tuple[Table, KeyLines]:
    """Return the settings in a file, and the lines of their keys.

    Args:
        file: The file.
        name: Its name in error messages.
        is_project: Whether it is a ``pyproject.toml``, of which only ``[tool.asyncsched]`` counts.

    Raises:
        ConfigError: It cannot be read.
    """
    import tomllib

    text = text_of(file, name)
    what = f"{name} cannot be read"
    try:
        table = parse_toml(text, is_doubted=bool(file.doubt))
        check_depth(table)
    except RecursionError as error:
        why = f"its values are nested on more than {MOST_LEVELS} levels"
        raise ConfigError(what, why=why, fix="write them on fewer levels") from error
    except MemoryError as error:
        raise ConfigError(what, why="there is not enough memory for it", fix="make it smaller") from error
    except _LongKeyError as error:
        raise ConfigError(what, why=str(error), fix="write them on fewer levels") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(what, why=str(error), fix="it has to be TOML") from error
    except ValueError as error:  # Python reads no decimal integer of more than 4,300 digits
        raise ConfigError(what, why="an integer in it has too many digits") from error
    if not is_project:
        return table, KeyLines(text)
    lines = KeyLines(text, ("tool", "asyncsched"))
    ours = cast("Table", table.get("tool", {})).get("asyncsched", {})
    if not isinstance(ours, dict):
        what = f"`tool.asyncsched` is not a table (from {name}:{lines.of()})"
        raise ConfigError(what, fix="write sections such as [tool.asyncsched.command.run]")
    return cast("Table", ours), lines


def parse_toml(text: str, *, is_doubted: bool) -> Table:
    """Return the table in a text.

    Raises:
        ValueError: It is not TOML, an integer has too many digits, or a key has too many dots.
        RecursionError: It is nested too deeply.
        MemoryError: There is not enough memory.
    """
    import tomllib

    most = MOST_DOTS_DOUBTED if is_doubted else MOST_LEVELS
    if line := _line_of_long_key(text, most):
        raise _LongKeyError(f"its values are nested on more than {most} levels by the dots in line {line}")
    return tomllib.loads(text)


def _line_of_long_key(text: str, most: int) -> int:
    """Return the line of the first key with more dots than these; 0 if there is none."""
    if all(line.count(".") <= most for line in text.split("\n")):
        return 0
    for found in re.finditer(_TOKEN, text):
        if found[0].count(".") > most and not found[0].startswith(("#", '"""', "'''")):
            dots = re.sub(_PART, "", found[0]).count(".")
            if dots > most:
                return text.count("\n", 0, found.start()) + 1
    return 0


def _lines(text: str) -> Iterator[tuple[KeyPath, int]]:
    table: KeyPath = ()
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.fullmatch(_HEADER, line):
            table = _key_path(match[1])
            yield table, number
        elif match := re.match(_KEY, line):
            yield (*table, *_key_path(match[1])), number


def _key_path(key: str) -> KeyPath:
    """Split a dotted key; the TOML parser handles quoted parts."""
    if re.fullmatch(_PLAIN_KEY, key := key.strip()):
        return tuple(part.strip() for part in key.split("."))
    import tomllib

    try:
        node: object = tomllib.loads(f"{key} = 0")
    except (tomllib.TOMLDecodeError, RecursionError):
        return ()  # a line inside a string that only looks like a key
    path: list[str] = []
    while isinstance(node, dict):
        name, node = next(iter(cast("Table", node).items()))
        path.append(name)
    return tuple(path)
