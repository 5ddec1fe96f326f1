"""Find configuration files, and read TOML so that each value knows its line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias, cast

from asyncsched.errors import ConfigError

__all__ = ["Table", "find_project_file", "find_upwards", "is_file", "read_toml", "shown", "user_file"]

Table: TypeAlias = dict[str, object]
KeyPath: TypeAlias = tuple[str, ...]

NAME = "asyncsched.toml"

MOST_LEVELS = 100
"""Levels on which values may be nested; what is configured needs four."""

_HEADER = re.compile(r"\s*\[([^\[\]]+)\]\s*(?:#.*)?")
_KEY = re.compile(r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*=""")


def find_project_file(start: Path) -> Path | None:
    """Return the nearest ``asyncsched.toml`` or ``pyproject.toml`` with ``[tool.asyncsched]``, in `start` or above."""
    for folder in (start, *start.parents):
        if is_file(folder / NAME):
            return folder / NAME
        project = folder / "pyproject.toml"
        if is_file(project) and _is_about_us(project):
            return project
    return None


def _is_about_us(project: Path) -> bool:
    """Tell whether a ``pyproject.toml`` has our table; one that says so and cannot be read is told by who reads it."""
    import tomllib

    try:
        text = project.read_text(encoding="utf-8")
        return "asyncsched" in text and "asyncsched" in tomllib.loads(text).get("tool", {})
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError):
        return "tool.asyncsched" in project.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def is_file(path: Path) -> bool:
    """Tell whether it is a file that may be looked at: somebody else's folder on the way is no mistake."""
    try:
        return path.is_file()
    except OSError:
        return False


def find_upwards(start: Path, name: str) -> Path | None:
    """Return the nearest file of this name from `start` upwards."""
    return next((folder / name for folder in (start, *start.parents) if is_file(folder / name)), None)


def user_file(environment: Mapping[str, str]) -> Path:
    """Return where the user's own file is, if there is one."""
    base = environment.get("XDG_CONFIG_HOME") or str(home(environment) / ".config")
    return Path(base) / "asyncsched" / "config.toml"


def home(environment: Mapping[str, str]) -> Path:
    """Return the user's home."""
    return Path(environment.get("HOME") or Path.home())


def shown(path: Path, start: Path, environment: Mapping[str, str]) -> str:
    """Write a path as a reader in `start` would: ``./asyncsched.toml``, ``../x``, ``~/.config/...``."""
    if path.is_relative_to(start):
        return f"./{path.relative_to(start)}"
    for level, parent in enumerate(start.parents[:3], 1):
        if path.parent == parent:
            return "../" * level + path.name
    mine = home(environment)
    return f"~/{path.relative_to(mine)}" if path.is_relative_to(mine) else str(path)


def read_toml(path: Path, name: str) -> tuple[Table, dict[KeyPath, int]]:
    """Return what a file configures, and the line of each key.

    Args:
        path: The file; of a ``pyproject.toml``, only ``[tool.asyncsched]`` counts.
        name: How to call it in an error.

    Raises:
        ConfigError: It cannot be read.
    """
    import tomllib

    try:
        text = path.read_text(encoding="utf-8")
        table: Table = tomllib.loads(text)
        _check_depth(table)
    except RecursionError as error:
        why = f"its values are nested on more than {MOST_LEVELS} levels"
        raise ConfigError(f"{name} cannot be read", why=why, fix="write them on fewer levels") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{name} cannot be read", why=str(error), fix="it has to be TOML") from error
    lines = dict(reversed([*_lines(text)]))  # of a key that seems to come twice, the first is the real one
    if path.name != "pyproject.toml":
        return table, lines
    tool = cast("dict[str, Table]", table.get("tool", {}))
    inside = {keys[2:]: line for keys, line in lines.items() if keys[:2] == ("tool", "asyncsched")}
    return tool.get("asyncsched", {}), inside


def _check_depth(table: Table) -> None:
    """Raise RecursionError, as the reader itself does, for what it can read and nobody after it can print."""
    level: list[object] = [table]
    for _ in range(MOST_LEVELS):
        inner = [[*cast("Table", each).values()] if isinstance(each, dict) else each for each in level]
        level = [item for each in inner if isinstance(each, list) for item in cast("list[object]", each)]
    if level:
        raise RecursionError


def _lines(text: str) -> Iterator[tuple[KeyPath, int]]:
    table: KeyPath = ()
    for number, line in enumerate(text.splitlines(), 1):
        if match := _HEADER.fullmatch(line):
            table = _key_path(match[1])
            yield table, number
        elif match := _KEY.match(line):
            yield (*table, *_key_path(match[1])), number


def _key_path(key: str) -> KeyPath:
    """Take a dotted key apart; TOML's own reader knows how its parts are quoted."""
    import tomllib

    try:
        node: object = tomllib.loads(f"{key} = 0")
    except (tomllib.TOMLDecodeError, RecursionError):
        return ()  # a line inside a text that only looks like a key
    path: list[str] = []
    while isinstance(node, dict):
        name, node = next(iter(cast("Table", node).items()))
        path.append(name)
    return tuple(path)
