"""Find configuration files, and tell which of them are not used."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from asyncsched.errors import ConfigError
from asyncsched.runner.config.trust import (
    TRUST_VARIABLE,
    ConfigFile,
    open_config,
    trusted_owners,
    trusted_paths,
)

__all__ = ["PROJECT", "TORCHX_NAME", "Search", "home", "shown"]

NAME = "asyncsched.toml"
PROJECT = "pyproject.toml"
TORCHX_NAME = ".torchxconfig"

MOST_NAMED = 10
"""Left-out settings that a warning names."""

_HARMLESS = "settings that run no code and send nothing elsewhere"

MOST_TOLD = 300
"""Characters of the error in a stranger's file that a warning repeats."""


class Search:
    """Searches for files from a folder upwards, to the root of its repository or the user's home directory.

    Args:
        start: The working directory.
        environment: The environment, for the home directory and the trusted files.

    Attributes:
        warnings: A line for each file that others may have written.
    """

    def __init__(self, start: Path, environment: Mapping[str, str]) -> None:
        self._start = start
        self._environment = environment
        self._owners = trusted_owners(start)
        self._trusted = trusted_paths(start, environment)
        self.warnings: list[str] = []

    def project_file(self) -> ConfigFile | None:
        """Return the nearest ``asyncsched.toml`` or ``pyproject.toml`` with ``[tool.asyncsched]``."""
        return self._nearest(NAME, PROJECT)

    def torchx_files(self) -> tuple[ConfigFile | None, ConfigFile | None]:
        """Return the nearest TorchX file and that in the home directory."""
        mine = home(self._environment)
        near = self._nearest(TORCHX_NAME, beside=mine)
        if mine is None or self._start in _spellings(mine):
            return near, None
        return near, self._home_file(mine / TORCHX_NAME)

    def user_file(self) -> ConfigFile | None:
        """Return the user's own file, ``config.toml``."""
        mine, base = home(self._environment), self._environment.get("XDG_CONFIG_HOME")
        folder = Path(base) if base else mine and mine / ".config"
        return self._home_file(folder / "asyncsched" / "config.toml") if folder else None

    def _home_file(self, path: Path) -> ConfigFile | None:
        """Return a file in the home directory, unless others may have written it."""
        # Where users have no numbers, nobody but its owner is expected to write into a home.
        file = self._open(path, trusted_owners(home(self._environment)) or None)
        if file is None or not (file.no_file or file.doubt):
            return file
        (self._no_file if file.no_file else self._not_used)(file)
        return None

    def _nearest(self, *names: str, beside: Path | None = None) -> ConfigFile | None:
        for folder in self._folders():
            if folder != self._start and folder in _spellings(beside):
                return None  # its files are read on their own
            for name in names:
                file = self._open(folder / name, self._owners)
                if file is not None and file.no_file:
                    if folder == self._start and name != PROJECT:
                        self._no_file(file)
                    continue
                is_used = file is not None and (not file.doubt or folder == self._start)
                if file is None or (name == PROJECT and not _is_about_us(file, parse=is_used)):
                    continue
                if is_used:
                    return file
                self._not_used(file)
        return None

    def _no_file(self, file: ConfigFile) -> None:
        self.warnings.append(f"{self._shown(file)} is not used: {file.no_file}")

    def _not_used(self, file: ConfigFile) -> None:
        self.warnings.append(f"{self._shown(file)} is not used: {file.doubt}; {_allow(file)}")

    def _folders(self) -> Iterator[Path]:
        last = _spellings(home(self._environment))
        for folder in (self._start, *self._start.parents):
            yield folder
            if folder in last or os.path.lexists(folder / ".git"):
                return

    def _open(self, path: Path, owners: Collection[int] | None) -> ConfigFile | None:
        """Read a file; what the user trusts is read by the path that was compared, as links may change meanwhile."""
        for place in self._resolved(path) if self._trusted else ():
            if any(trusted in (place, *place.parents) for trusted in self._trusted):
                file = open_config(place)
                return file and replace(file, path=path)
        return open_config(path, owners)

    @staticmethod
    def _resolved(path: Path) -> tuple[Path, Path]:
        """Return the paths of a name and of what it links to."""
        return Path(os.path.realpath(path.parent)) / path.name, Path(os.path.realpath(path))

    def left_out(self, file: ConfigFile, names: Iterable[str]) -> None:
        """Add a warning about the unused parts of a file in the working directory."""
        distinct = [*dict.fromkeys(names)]
        without = ", ".join(_in_short(name) for name in distinct[:MOST_NAMED])
        if len(distinct) > MOST_NAMED:
            without += f" and {len(distinct) - MOST_NAMED:,} more"
        told = f"is used without {without}" if without else f"is used, but only for {_HARMLESS}"
        self.warnings.append(f"{self._shown(file)} {told}: {file.doubt}; {_allow(file)}")

    def broken(self, file: ConfigFile, error: ConfigError) -> None:
        """Add a warning about an unusable file in the working directory that others may have written."""
        told = _in_short(f"{error.what}: {error.why}" if error.why else error.what, MOST_TOLD)
        self.warnings.append(f"{self._shown(file)} is not used: {told}; {file.doubt}")

    def _shown(self, file: ConfigFile) -> str:
        return shown(file.path, self._start, self._environment)


def _spellings(folder: Path | None) -> set[Path]:
    return set() if folder is None else {folder, Path(os.path.realpath(folder))}


def _in_short(text: str, most: int = 100) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _allow(file: ConfigFile) -> str:
    return f"{TRUST_VARIABLE}={file.path} allows it"


def _is_about_us(project: ConfigFile, *, parse: bool) -> bool:
    """Tell whether a ``pyproject.toml`` has our table; errors in the file are reported when it is read."""
    data = project.data.replace(b"\0", b"")  # as UTF-16, which is an error, each letter has a zero beside it
    if b"asyncsched" not in data:
        return False
    if not parse or project.error is not None:
        return b"tool.asyncsched" in data  # parsing an untrusted file would already trust it
    from asyncsched.runner.config.toml_file import parse_toml

    try:
        tool = parse_toml(data.decode(errors="replace"), is_doubted=bool(project.doubt)).get("tool")
        return isinstance(tool, dict) and "asyncsched" in tool
    except (ValueError, RecursionError, MemoryError):
        return b"tool.asyncsched" in data


def home(environment: Mapping[str, str]) -> Path | None:
    """Return the user's home; None if nobody knows it, as in a container that runs as any user."""
    try:
        return Path(environment.get("HOME") or Path.home())
    except RuntimeError:
        return None


def shown(path: Path, start: Path, environment: Mapping[str, str]) -> str:
    """Format a path for a reader in `start`: ``./asyncsched.toml``, ``../x``, ``~/.config/...``."""
    if path.is_relative_to(start):
        return f"./{path.relative_to(start)}"
    for level, parent in enumerate(start.parents[:3], 1):
        if path.parent == parent:
            return "../" * level + path.name
    mine = home(environment)
    return f"~/{path.relative_to(mine)}" if mine is not None and path.is_relative_to(mine) else str(path)
