"""Commands that installed packages bring: entry points in the group ``asyncsched.commands``.

Looking for entry points costs as much as starting the whole program (importlib.metadata brings the e-mail parser with
it), so a package is only asked when its file of entry points mentions the group.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    import click

    from asyncsched.errors import ConfigError

__all__ = ["load_plugin", "plugin_names"]

GROUP = "asyncsched.commands"


def plugin_names() -> list[str]:
    """Return the names of the commands that packages bring; none of them is imported."""
    return sorted({entry.name for entry in _entries()})


def load_plugin(name: str) -> click.Command | None:
    """Return the command of this name, if a package brings one.

    Raises:
        ConfigError: It cannot be loaded, or is no command.
    """
    import click

    entry = next((entry for entry in _entries() if entry.name == name), None)
    if entry is None:
        return None
    try:
        command: object = entry.load()
    except Exception as error:
        raise _broken(entry, f"{type(error).__name__}: {error}") from error
    if not isinstance(command, click.Command):
        raise _broken(entry, f"it is {command!r} and no click command")
    return command


def _broken(entry: EntryPoint, why: str) -> ConfigError:
    from asyncsched.errors import ConfigError

    what = f"the command {entry.name} cannot be loaded from {entry.value}"
    return ConfigError(what, why=why, fix="repair or remove the package that brings it")


def _entries() -> list[EntryPoint]:
    if not any(_mentions_group(folder) for folder in sys.path):
        return []
    from importlib.metadata import entry_points

    return list(entry_points(group=GROUP))


def _mentions_group(folder: str) -> bool:
    try:
        names = [name for name in os.listdir(folder or ".") if name.endswith((".dist-info", ".egg-info"))]  # noqa: PTH208
    except OSError:
        return False  # a zip file, or nothing at all: packages with commands are installed into folders
    return any(_file_mentions_group(os.path.join(folder, name, "entry_points.txt")) for name in names)  # noqa: PTH118


def _file_mentions_group(path: str) -> bool:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib alone costs 4 ms
            return GROUP.encode() in file.read()
    except OSError:
        return False
