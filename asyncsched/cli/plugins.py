"""Commands of installed packages: entry points in the group ``asyncsched.commands``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asyncsched._entry_points import entry_points_of

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    import click

    from asyncsched.errors import ConfigError

__all__ = ["load_plugin", "plugin_names"]

GROUP = "asyncsched.commands"


def plugin_names() -> list[str]:
    """Return the names of the commands of packages, without importing them."""
    return sorted({entry.name for entry in entry_points_of(GROUP)})


def load_plugin(name: str) -> click.Command | None:
    """Return the command with this name, if a package has one.

    Raises:
        ConfigError: It cannot be loaded, or is not a command.
    """
    import click

    entry = next((entry for entry in entry_points_of(GROUP) if entry.name == name), None)
    if entry is None:
        return None
    try:
        command: object = entry.load()
    except (Exception, SystemExit) as error:
        raise _broken(entry, f"{type(error).__name__}: {error}") from error
    if not isinstance(command, click.Command):
        raise _broken(entry, f"it is {command!r} and not a click command")
    return command


def _broken(entry: EntryPoint, why: str) -> ConfigError:
    from asyncsched.errors import ConfigError

    what = f"the command {entry.name} cannot be loaded from {entry.value}"
    return ConfigError(what, why=why, fix="repair or remove the package that provides it")
