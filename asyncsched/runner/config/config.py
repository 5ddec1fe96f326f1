"""The configuration: layers of settings, of which the strongest wins.

From the weakest: the nearest ``.torchxconfig``, ``~/.torchxconfig``, ``~/.config/asyncsched/config.toml``, the nearest
``asyncsched.toml`` or ``pyproject.toml``, the environment. The command line overrides all of them. Of the TorchX files,
the one in the home directory wins, as in TorchX.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from asyncsched.errors import ConfigError
from asyncsched.runner.config.files import PROJECT, TORCHX_NAME, Search, shown
from asyncsched.runner.config.setting import Section, Setting, Settings
from asyncsched.runner.config.trust import ConfigFile, expanded, open_config
from asyncsched.schedulers.registry import get_default_scheduler_name, known_names, parameters_of, variables_of

if TYPE_CHECKING:
    from asyncsched.runner.config.toml_file import Table

__all__ = ["Config", "load_config"]

KINDS = ("scheduler", "component", "command")
PREFIX = "ASYNCSCHED_"

_LARGEST = 10**100 - 1
"""More than any setting takes, and less than what cannot be printed or converted to a float."""

_Layer = dict[Section, dict[str, Setting]]


class Config:
    """The configured settings, by section.

    Attributes:
        files: The files that were read, the strongest first.
        notes: Notes for the user about them.
        warnings: One line for each file, or part of one, that is not used, mostly because others may have written it.
    """

    def __init__(self, layers: Iterable[Mapping[Section, Settings]], environment: Mapping[str, str]) -> None:
        self._sections: dict[Section, dict[str, Setting]] = {}
        for layer in layers:
            for section, settings in layer.items():
                self._sections.setdefault(section, {}).update(settings)
        self._environment = environment
        self.files: list[str] = []
        self.notes: list[str] = []
        self.warnings: list[str] = []

    def __repr__(self) -> str:
        return f"<Config from {', '.join(self.files) or 'no file'}>"

    @property
    def names(self) -> dict[str, list[str]]:
        """The names of sections, by kind."""
        return {kind: sorted(name for each, name in self._sections if each == kind) for kind in KINDS}

    def check_names(self, kind: str, known: Iterable[str]) -> None:
        """Raise ConfigError for a section of this kind with an unknown name."""
        known = list(known)
        for (each, name), settings in self._sections.items():
            own = [setting for setting in settings.values() if not setting.foreign]
            if each == kind and name not in known and own:
                import difflib

                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean [{kind}.{near[0]}]?" if near else f"known are {', '.join(known)}"
                raise ConfigError(f"unknown section [{kind}.{name}] (from {own[0].origin})", fix=hint)

    def scheduler(self, name: str, others: Iterable[str] = ()) -> dict[str, Setting]:
        """Return the run options of a scheduler.

        Args:
            name: The scheduler's name.
            others: The names of all schedulers: ``ASYNCSCHED_LOCAL_DOCKER_ENV`` is not an option of a scheduler
                ``local``.
        """
        return {**self._section("scheduler", name), **self._from_environment(name, others)}

    def parameters(self) -> dict[str, dict[str, object]]:
        """Return the configured parameters of schedulers, by scheduler."""
        found: dict[str, dict[str, object]] = {}
        for name in known_names():
            if known := parameters_of(name):
                settings = self.scheduler(name, known_names())
                given = {key: _plain(settings[key]) for key in known if key in settings}
                found |= {name: given} if given else {}
        return found

    def component(self, name: str) -> dict[str, Setting]:
        """Return the defaults of a component's arguments."""
        return self._section("component", name)

    def command(self, name: str) -> dict[str, Setting]:
        """Return the defaults of a command's options."""
        return {**self._section("command", name), **self._from_environment(name, ())}

    def _section(self, kind: str, name: str) -> dict[str, Setting]:
        settings = self._sections.get((kind, name), {})
        for setting in settings.values():
            if isinstance(setting.value, ConfigError):
                raise setting.value
        return dict(settings)

    def _from_environment(self, name: str, others: Iterable[str]) -> dict[str, Setting]:
        prefix = _variable(name)
        longer = [_variable(other) for other in others if _variable(other).startswith(prefix) and other != name]
        kept = variables_of(name)
        return {
            variable.removeprefix(prefix).lower(): Setting(value, variable, is_text=True)
            for variable, value in self._environment.items()
            if variable.startswith(prefix) and not variable.startswith(tuple(longer)) and variable not in kept
        }


def _working_directory() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        what, why = "the working directory no longer exists", "it was removed, or moved, after it was entered"
        raise ConfigError(what, why=why, fix="change into a directory that exists, such as with cd") from error


def load_config(start: Path | None = None, environment: Mapping[str, str] | None = None) -> Config:
    """Read all configuration files for a directory.

    Args:
        start: The directory; the working directory by default. Its parents are searched too, up to the root of its
            repository or the home directory. Files that others may have written are not used, unless
            ``ASYNCSCHED_TRUST_CONFIG`` names them.
        environment: The environment; ``ASYNCSCHED_CONFIG`` names a file that is read instead of all others.

    Raises:
        ConfigError: A file cannot be read or has an unknown section, or the working directory no longer exists.
    """
    start = (start or _working_directory()).absolute()
    environment = os.environ if environment is None else environment
    layers: list[_Layer] = []
    files: list[str] = []
    notes: list[str] = []
    search = Search(start, environment)
    for file, is_torchx in _files(start, environment, search):
        name = shown(file.path, start, environment)
        if is_torchx:
            notes.append(f"{name} is read too; `asyncsched configure` writes a file of asyncsched's own")
        try:
            layer = _of_torchx(file, name) if is_torchx else _of_toml(file, name)
        except ConfigError as error:
            if not file.doubt:
                raise
            search.broken(file, error)  # a stranger's file is no reason to refuse the user's command
            continue
        layers.append(_safe(layer, file, search) if file.doubt else layer)
        files.insert(0, name)
    config = Config(layers, environment)
    config.files, config.notes, config.warnings = files, notes, search.warnings
    return config


def _safe(layer: _Layer, file: ConfigFile, search: Search) -> _Layer:
    """Return the usable part of a file in the working directory that others may have written."""
    from asyncsched.runner.config.safe import is_safe  # few have such a file

    unsafe = {  # a dict keeps their order
        (section, name): None
        for section, settings in layer.items()
        for name, setting in settings.items()
        if not is_safe(section, name) or isinstance(setting.value, ConfigError)
    }
    search.left_out(file, (f"{kind}.{of}.{name}" for (kind, of), name in unsafe))
    return {
        section: {
            name: setting._replace(doubted=True) for name, setting in settings.items() if (section, name) not in unsafe
        }
        for section, settings in layer.items()
    }


def _files(start: Path, environment: Mapping[str, str], search: Search) -> list[tuple[ConfigFile, bool]]:
    """Return the existing files, weakest first, and whether each is a TorchX file."""
    if chosen := environment.get(f"{PREFIX}CONFIG"):
        file = _file_of(start, chosen, f"{PREFIX}CONFIG")
        return [(file, file.path.name == TORCHX_NAME)]
    own = search.project_file()
    exclusive = environment.get("TORCHXCONFIG")  # whatever it is called
    torchx = [_file_of(start, exclusive, "TORCHXCONFIG")] if exclusive else search.torchx_files()
    found = [*((file, True) for file in torchx), (search.user_file(), False), (own, False)]
    return [(file, is_torchx) for file, is_torchx in found if file is not None]


def _file_of(start: Path, path: str, variable: str) -> ConfigFile:
    file = open_config(start / expanded(path, variable))
    if file is None or file.no_file:
        raise ConfigError(f"no file {path}", why=f"{variable} names it", fix="correct or unset the variable")
    return file


def _of_torchx(file: ConfigFile, name: str) -> _Layer:
    layer: _Layer = {}
    from asyncsched.runner.config.torchx import read_torchxconfig  # few have such a file

    for section, key, setting in read_torchxconfig(file, name):
        layer.setdefault(section, {})[key] = setting
    return layer


def _of_toml(file: ConfigFile, name: str) -> _Layer:
    from asyncsched.runner.config.toml_file import read_toml  # most commands run without such a file

    table, lines = read_toml(file, name, is_project=file.path.name == PROJECT)
    layer: _Layer = {}
    for kind, named in table.items():
        place = f"{name}:{lines.of(kind)}"
        if kind not in KINDS or not isinstance(named, dict):
            raise _unknown_section(kind, place)
        for keys, settings in _named(kind, cast("Table", named), place):
            section = (kind, ".".join(keys))
            layer[section] = {
                key: _setting(key, value, f"{name}:{lines.of(kind, *keys, key)}") for key, value in settings.items()
            }
    return layer


def _setting(name: str, value: object, origin: str) -> Setting:
    if _is_huge(value):
        raise ConfigError(f"`{name}` has an integer of more than 100 digits (from {origin})")
    return Setting(value, origin)


def _is_huge(value: object) -> bool:
    if isinstance(value, dict):
        value = [*cast("Table", value).values()]
    if isinstance(value, list):
        return any(map(_is_huge, cast("list[object]", value)))
    return isinstance(value, int) and abs(value) > _LARGEST


def _named(kind: str, table: Table, place: str) -> Iterator[tuple[tuple[str, ...], Table]]:
    """Yield the tables of a kind; a component may be written ``[component."utils.echo"]`` or without quotes."""
    for name, settings in table.items():
        if not isinstance(settings, dict):
            what = f"`{name}` stands in [{kind}] itself (from {place})"
            raise ConfigError(what, fix=f"put it into [{kind}.NAME], such as {_EXAMPLES[kind]}")
        inner = cast("Table", settings)
        if kind == "component" and "." not in name and all(isinstance(value, dict) for value in inner.values()):
            for function, arguments in inner.items():
                yield (name, function), cast("Table", arguments)
        else:
            yield (name,), inner


_EXAMPLES = {
    "scheduler": f"[scheduler.{get_default_scheduler_name()}]",
    "component": '[component."utils.echo"]',
    "command": "[command.run]",
}


def _unknown_section(name: str, place: str) -> ConfigError:
    import difflib

    near = difflib.get_close_matches(name, KINDS, n=1)
    hint = f"did you mean [{near[0]}.NAME]?" if near else f"there are {', '.join(_EXAMPLES.values())}"
    return ConfigError(f"unknown section [{name}] (from {place})", fix=hint)


def _plain(setting: Setting) -> object:
    """Return a parameter's value; a string with commas is a list."""
    value: object = setting.value
    return value.split(",") if setting.is_text and isinstance(value, str) and "," in value else value


def _variable(name: str) -> str:
    """Return the prefix of environment variables for a scheduler or a command."""
    return f"{PREFIX}{''.join(char if char.isalnum() else '_' for char in name).upper()}_"
