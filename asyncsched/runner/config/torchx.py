"""Read a ``.torchxconfig`` as TorchX does, so that TorchX users can keep their files.

Its sections are ``[<scheduler>]``, ``[component:<name>]`` and ``[cli:<command>]``; trackers are ignored.
``%(name)s`` is the value of that name in the section or in ``[DEFAULT]``, and ``%%`` is a percent sign.
"""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterator

from asyncsched.errors import ConfigError
from asyncsched.runner.config.setting import Section, Setting
from asyncsched.runner.config.trust import LARGEST, LARGEST_DOUBTED, ConfigFile, text_of
from asyncsched.specs.run_options import CfgVal, runopt
from asyncsched.specs.run_options_text import parse_value

__all__ = ["parse_torchx", "read_torchxconfig"]

_KINDS = {"component": "component", "cli": "command"}
_HEADER = re.compile(r"\s*\[(.+)\]\s*")
_KEY = re.compile(r"\s*([^\s=:#;]+)\s*[=:]")
_REFERENCE = re.compile(r"%%|%\(([^)]+)\)s")

_MOST_BLANKS = 1000
"""Blanks in a row within a line: the parser's time grows with their square."""

_MANY_BLANKS = rf"\S[^\S\n]{{{_MOST_BLANKS + 1}}}"


def read_torchxconfig(file: ConfigFile, name: str) -> Iterator[tuple[Section, str, Setting]]:
    """Yield section, key and value.

    A value that refers to a missing one is yielded as a ConfigError, to be raised when it is used, as in TorchX; so is
    one with a reference in a file that others may have written. ``None`` means no value: an option then has its
    default, even if weaker files set it.

    Raises:
        ConfigError: It cannot be read.
    """
    parser = configparser.ConfigParser()
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # keeps capitals, as the documentation says
    text = text_of(file, name)
    if blanks := re.search(_MANY_BLANKS, text):
        number = text.count("\n", 0, blanks.start()) + 1
        raise ConfigError(f"{name} cannot be read", why=f"line {number} has more than {_MOST_BLANKS} blanks in a row")
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise ConfigError(f"{name} cannot be read", why=_why(error)) from None
    lines = dict(reversed([*_lines(text)]))
    lengths = _Lengths(parser)
    left = LARGEST_DOUBTED if file.doubt else LARGEST
    for title in parser.sections():
        kind, colon, rest = title.partition(":")
        section = (_KINDS.get(kind, ""), rest) if colon else ("scheduler", title)
        for key in parser.options(title) if section[0] else ():
            line = lines.get((title, key))
            origin = f"{name}:{line or lines.get((parser.default_section, key), 1)}"
            left -= len(key) + lengths.of(title, key)
            if left < 0:
                why = "with references and [DEFAULT] filled in, its settings are longer than a whole file may be"
                raise ConfigError(
                    f"{name} cannot be read", why=why, fix="write fewer references, or a smaller [DEFAULT]"
                )
            value = _value(parser, title, key, origin, is_doubted=bool(file.doubt))
            if value != "None":
                yield section, key, Setting(value, origin, is_text=True, foreign=True, shared=line is None)
            elif section[0] == "scheduler":
                yield section, key, Setting(None, origin, foreign=True, shared=line is None)


class _Lengths:
    """The lengths of values with their references filled in, found without filling them in.

    Few references to references make a value of any length.
    """

    def __init__(self, parser: configparser.ConfigParser) -> None:
        self._parser = parser
        self._known: dict[tuple[str, str, int], int] = {}

    def of(self, title: str, key: str, levels: int = configparser.MAX_INTERPOLATION_DEPTH) -> int:
        """Return the length of a value, with as many levels of references as the parser fills in."""
        if levels < 0:
            return 0  # the parser refuses it
        known = self._known.get((title, key, levels))
        if known is None:
            text = self._parser.get(title, key, raw=True, fallback="")
            names = [name for name in _REFERENCE.findall(text) if name] if "%" in text else []
            known = len(text) + sum(self.of(title, name, levels - 1) for name in names)
            self._known[title, key, levels] = known
        return known


def _value(
    parser: configparser.ConfigParser, title: str, key: str, origin: str, *, is_doubted: bool
) -> str | ConfigError:
    text = parser.get(title, key, raw=True)
    if "%" not in text:
        return text
    if is_doubted:
        return ConfigError(f"`{key}` of [{title}] refers to other values (from {origin})")
    try:
        return parser.get(title, key)
    except configparser.InterpolationError as error:
        what = f"`{key}` of [{title}] cannot be read (from {origin})"
        return ConfigError(what, why=_why(error), fix="write %% for a %")


def _why(error: configparser.Error) -> str:
    """Return the parser's reason without the line or the value that it repeats, which may hold a secret."""
    if isinstance(error, configparser.MissingSectionHeaderError):
        return f"line {error.lineno} is before the first [section]"
    if isinstance(error, configparser.ParsingError):
        lines = [line for line, _ in error.errors]
        more = f", and {len(lines) - 1:,} more" if len(lines) > 1 else ""
        return f"line {lines[0]} is neither `name = value` nor a [section]{more}"
    if isinstance(error, configparser.InterpolationMissingOptionError):
        return f"it refers to {error.reference}, which there is not"
    if isinstance(error, configparser.InterpolationDepthError):
        return "its references refer to themselves, or to too many others"
    if isinstance(error, configparser.InterpolationSyntaxError):
        return "a % is followed by neither % nor (name)s"
    return " ".join(str(error).split())


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
