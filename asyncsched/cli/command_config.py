"""The configuration of verbs, and of the components that ``run`` launches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

import click

from asyncsched.errors import ComponentError, ConfigError, RunOptionError, UnknownSchedulerError

if TYPE_CHECKING:
    from asyncsched.components import Component
    from asyncsched.runner.config import Config, Setting
    from asyncsched.schedulers import SchedulerFactory

__all__ = ["check_commands", "check_components", "command_defaults", "component_defaults", "with_origin"]

_log = logging.getLogger("asyncsched.cli")

_OF_TORCHX = "torchx.components."


def command_defaults(command: str, options: Sequence[click.Option], warn: Callable[[str], None]) -> dict[str, object]:
    """Return the settings in ``[command.NAME]``, by click's names of the options.

    Args:
        command: The command.
        options: Its options.
        warn: Called with a warning for each file, and each wrong value, that others could have written.

    Raises:
        ConfigError: A section names no command, a name is not an option of this command (the message suggests one), or
            a value is invalid. The message says where it is written.
    """
    from asyncsched.runner.config import load_config

    config = load_config()
    for warning in config.warnings:
        warn(f"warning: {warning}")
    _check_sections(config)
    return _defaults(config, command, options, lambda text: warn(f"warning: {text}"))


def _check_sections(config: Config) -> None:
    from asyncsched.cli.main import VERBS

    if not VERBS.keys() >= {*config.names["command"]}:
        from asyncsched.cli.plugins import plugin_names

        config.check_names("command", [*VERBS, *plugin_names()])


def _defaults(
    config: Config, command: str, options: Iterable[click.Option], warn: Callable[[str], None] = _log.warning
) -> dict[str, object]:
    known = {_spelled(name): option for option in options for name in _names(option)}
    defaults: dict[str, object] = {}
    for name, setting in config.command(command).items():
        option = known.get(_spelled(name))
        if option is None and setting.foreign:
            setting.pass_over(name, f"the command {command}")
            continue
        try:
            if option is None or not option.name:
                raise _unknown(name, command, setting, known)
            defaults[option.name] = _checked(name, command, option, setting)
        except ConfigError as error:
            setting.refuse(error, warn)
    return defaults


def _checked(name: str, command: str, option: click.Option, setting: Setting) -> object:
    value = _as_typed(option, setting.value)
    try:
        if value is None:
            from asyncsched.specs.masking import repeated  # imported late: only a wrong value needs it

            wanted = "a list of strings" if option.multiple else "a single value"
            raise click.BadParameter(f"{repeated(setting.value)} is not {wanted}")
        read: object = option.type_cast_value(click.Context(click.Command(command)), value)
    except click.BadParameter as error:
        why = _without_secrets(error.message.rstrip("."), value)
        what = f"`{name}` of the command {command}: {why} (from {setting.origin})"
        raise ConfigError(what, fix=f"see asyncsched {command} --help") from None
    # `all = true` turns the option --any/--all off.
    return not read if f"--{name}" in option.secondary_opts else value


def _without_secrets(message: str, value: object) -> str:
    """Return the message of a type about a value, or about several, without those that may be secret."""
    from asyncsched.specs.masking import repeated

    for text in cast("list[object]", value) if isinstance(value, list) else [value]:
        if (told := repeated(text)) != repr(text):
            message = message.replace(repr(text), told).replace(str(text), told)
    return message


def _as_typed(option: click.Option, value: object) -> object:
    """Return a value as click gets it from a command line; None if nobody could type it."""
    if option.multiple:
        items = cast("list[object]", value) if isinstance(value, list) else [value]
        return [_typed(option, item) for item in items] if all(map(_is_typable, items)) else None
    if isinstance(value, bool) and option.is_flag:
        return value
    return _typed(option, value) if _is_typable(value) else None


def _is_typable(value: object) -> bool:
    return isinstance(value, str | int | float)


def _typed(option: click.Option, value: object) -> str:
    """Return a scalar as text; 1e3 is as good as 1000 where a whole number is wanted."""
    if isinstance(value, float) and value.is_integer() and isinstance(option.type, click.types.IntParamType):
        return str(int(value))
    return str(value)


def _names(option: click.Option) -> list[str]:
    return [name.lstrip("-") for name in (*option.opts, *option.secondary_opts, option.name or "")]


def _spelled(name: str) -> str:
    return name.replace("-", "_")


def _unknown(name: str, command: str, setting: Setting, known: Iterable[str]) -> ConfigError:
    import difflib

    near = difflib.get_close_matches(name, list(known), n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"see asyncsched {command} --help"
    return ConfigError(f"unknown option `{name}` for the command {command} (from {setting.origin})", fix=hint)


_WRITTEN_IN = {UnknownSchedulerError: "scheduler", ComponentError: "component", RunOptionError: "cfg"}


def with_origin(error: ValueError, command: str, configured: Collection[str]) -> ValueError:
    """Return the error with the place of the wrong value, if that comes from the configuration.

    Args:
        error: The command's error.
        command: The command.
        configured: The options with values from ``[command.NAME]``.
    """
    option = next((option for kind, option in _WRITTEN_IN.items() if isinstance(error, kind)), "")
    if not isinstance(error, ConfigError) or option not in configured or "(from " in error.what:
        return error
    from asyncsched.runner.config import load_config
    from asyncsched.runner.config.setting import from_origin

    return from_origin(error, load_config().command(command)[option].origin)


def check_commands(config: Config, schedulers: Mapping[str, SchedulerFactory]) -> None:
    """Raise ConfigError for mistakes in the sections of all commands; a command itself checks only its own."""
    from importlib import import_module

    from asyncsched.cli.main import VERBS
    from asyncsched.runner.config.setting import from_origin
    from asyncsched.schedulers.registry import find_factory

    _check_sections(config)
    for name in VERBS.keys() & config.names["command"]:
        command: click.Command = import_module(f"asyncsched.cli.{name}").command
        _defaults(config, name, [param for param in command.params if isinstance(param, click.Option)])
        if (setting := config.command(name).get("scheduler")) is not None:
            try:
                find_factory(str(setting.value), schedulers)
            except UnknownSchedulerError as error:
                raise from_origin(error, setting.origin) from None


def check_components(config: Config) -> None:
    """Raise ConfigError for sections of unknown components; the user's own components are not imported to check."""
    from asyncsched.components.finder import built_in_components, get_components, is_ours, plugin_names

    named = [name for name in config.names["component"] if is_ours(name)]
    if named and not {*named} <= built_in_components().keys():
        others = (name for name in config.names["component"] if not is_ours(name))
        config.check_names("component", dict.fromkeys([*get_components(), *plugin_names(), *others]))


def component_defaults(config: Config, component: Component) -> dict[str, object]:
    """Return the configured arguments of a component.

    Raises:
        ComponentError: An argument is unknown or invalid; the message says where it is written.
    """
    from asyncsched.components.arguments import convert
    from asyncsched.runner.config.setting import from_origin

    known = {parameter.name: parameter for parameter in component.parameters}
    defaults: dict[str, object] = {}
    for name, setting in _settings_of(config, component.name).items():
        if setting.foreign and name not in known:
            setting.pass_over(name, f"the component {component.name}")
            continue
        try:
            value = _words(setting) if name in known and known[name].shape == "rest" else setting.value
            defaults |= convert(component.name, component.parameters, {name: value})
        except ComponentError as error:
            raise from_origin(error, setting.origin) from None
    return defaults


def _settings_of(config: Config, component: str) -> dict[str, Setting]:
    settings = config.component(component)
    if not component.startswith(_OF_TORCHX):
        return settings
    short = config.component(component.removeprefix(_OF_TORCHX))  # as its own file calls it
    return {name: setting for name, setting in short.items() if setting.foreign} | settings


def _words(setting: Setting) -> object:
    """Return the arguments after a component's own; a string in a TorchX file is split as a shell would."""
    import shlex

    if not (setting.foreign and isinstance(setting.value, str)):
        return setting.value
    try:
        return shlex.split(setting.value)
    except ValueError as error:
        raise ComponentError(
            f"the arguments cannot be split into words (from {setting.origin})", why=str(error)
        ) from None
