"""Read a ``.torchxconfig`` as TorchX does, so that TorchX users can keep their files.

Its sections are ``[<scheduler>]``, ``[component:<name>]`` and ``[cli:<command>]``; trackers are ignored.
``%(name)s`` is the value of that name in the section or in ``[DEFAULT]``, and ``%%`` is a percent sign.
"""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterator

from asyncsched.errors import ConfigError
from asyncsched.runner.config.files import text_of
from asyncsched.runner.config.setting import Section, Setting
from asyncsched.runner.config.trust import ConfigFile
from asyncsched.specs.run_options import CfgVal, runopt
from asyncsched.specs.run_options_text import parse_value

__all__ = ["parse_torchx", "read_torchxconfig"]

_KINDS = {"component": "component", "cli": "command"}
_HEADER = re.compile(r"\s*\[(.+)\]\s*")
_KEY = re.compile(r"\s*([^\s=:#;]+)\s*[=:]")


def read_torchxconfig(file: ConfigFile, name: str) -> Iterator[tuple[Section, str, Setting]]:
    """Yield section, key and value.

    A value that refers to a missing one is yielded as a ConfigError, to be raised when it is used, as in TorchX.
    ``None`` means no value: an option then has its default, even if weaker files set it.

    Raises:
        ConfigError: It cannot be read.
    """
    parser = configparser.ConfigParser()
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # keeps capitals, as the documentation says
    text = text_of(file, name)
    try:
        parser.read_string(text)
    except configparser.Error as error:
        why = " ".join(str(error).split())
        raise ConfigError(f"{name} cannot be read", why=why) from error
    lines = dict(reversed([*_lines(text)]))
    for title in parser.sections():
        kind, colon, rest = title.partition(":")
        section = (_KINDS.get(kind, ""), rest) if colon else ("scheduler", title)
        for key in parser.options(title) if section[0] else ():
            line = lines.get((title, key))
            origin = f"{name}:{line or lines.get((parser.default_section, key), 1)}"
            value = _value(parser, title, key, origin)
            if value != "None":
                yield section, key, Setting(value, origin, is_text=True, foreign=True, shared=line is None)
            elif section[0] == "scheduler":
                yield section, key, Setting(None, origin, foreign=True, shared=line is None)


def _value(parser: configparser.ConfigParser, title: str, key: str, origin: str) -> str | ConfigError:
    try:
        return parser.get(title, key)
    except configparser.InterpolationError as error:
        why = " ".join(str(error).split())
        return ConfigError(f"`{key}` of [{title}] cannot be read (from {origin})", why=why, fix="write %% for a %")


def parse_torchx(text: str, opt: runopt) -> CfgVal:
    """Return the value of a string as TorchX reads it: quotes are kept, and lists are split at commas and semicolons.

    Raises:
        ValueError: The string is not a value of the option's type.
    """
    kind = getattr(opt.opt_type, "__origin__", opt.opt_type)
    if kind is str:
        return text
    items = text.replace(";", ",").split(",")
    if kind is list:
        return [item for item in items if item]
    if kind is dict:
        pairs = [item.partition(":") for item in items]
        if not all(colon for _, colon, _ in pairs):
            raise ValueError("an item is not of the form name:value")
        return {name: value for name, _, value in pairs}
    return parse_value(text, kind)


def _lines(text: str) -> Iterator[tuple[tuple[str, str], int]]:
    title = ""
    for number, line in enumerate(text.splitlines(), 1):
        if match := _HEADER.fullmatch(line):
            title = match[1]
        elif match := _KEY.match(line):
            yield (title, match[1]), number
