"""Read a ``.torchxconfig``, so that who comes from TorchX need not write the same again.

Its sections are ``[<scheduler>]``, ``[component:<name>]`` and ``[cli:<command>]``; trackers are passed over.
"""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterator

from asyncsched.errors import ConfigError
from asyncsched.runner.config.files import text_of
from asyncsched.runner.config.setting import Section, Setting
from asyncsched.runner.config.trust import ConfigFile

__all__ = ["read_torchxconfig"]

_KINDS = {"component": "component", "cli": "command"}
_HEADER = re.compile(r"\s*\[(.+)\]\s*")
_KEY = re.compile(r"\s*([^\s=:#;]+)\s*[=:]")


def read_torchxconfig(file: ConfigFile, name: str) -> Iterator[tuple[Section, str, Setting]]:
    """Yield section, key and value; ``None`` stands for no value, so it is left out.

    Raises:
        ConfigError: It cannot be read.
    """
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # keeps capitals, as the documentation says
    try:
        text = text_of(file)
        parser.read_string(text)
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        why = " ".join(str(error).split())
        raise ConfigError(f"{name} cannot be read", why=why) from error
    lines = dict(reversed([*_lines(text)]))
    for title in parser.sections():
        kind, colon, rest = title.partition(":")
        section = (_KINDS.get(kind, ""), rest) if colon else ("scheduler", title)
        for key, value in parser.items(title) if section[0] else ():
            if value != "None":
                origin = f"{name}:{lines.get((title, key), 1)}"
                yield section, key, Setting(value, origin, is_text=True, foreign=True)


def _lines(text: str) -> Iterator[tuple[tuple[str, str], int]]:
    title = ""
    for number, line in enumerate(text.splitlines(), 1):
        if match := _HEADER.fullmatch(line):
            title = match[1]
        elif match := _KEY.match(line):
            yield (title, match[1]), number
