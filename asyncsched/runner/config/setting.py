"""A configured value and its origin."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar

from asyncsched._typing import NamedTuple
from asyncsched.errors import ConfigError

__all__ = ["Section", "Setting", "Settings", "from_origin"]

_log = logging.getLogger("asyncsched.runner")

ErrorT = TypeVar("ErrorT", bound=ConfigError)


class Setting(NamedTuple):
    """One value.

    Attributes:
        value: The value as in its file; a string if the file has only strings.
        origin: Where it is set, such as ``./asyncsched.toml:7``.
        is_text: Whether `value` must still be converted to the wanted type.
        foreign: Whether the file was written for another program, so that unknown names are not errors.
        shared: Whether it applies to all sections, even those that do not know the name.
        doubted: Whether others may have written it.
    """

    value: object
    origin: str
    is_text: bool = False
    foreign: bool = False
    shared: bool = False
    doubted: bool = False

    def pass_over(self, name: str, what: str) -> None:
        """Warn that a name in another program's file is unknown to `what`."""
        if not self.shared:
            _log.warning("%s: %s has no option %s; it is passed over", self.origin, what, name)

    def refuse(self, error: ConfigError, warn: Callable[[str], None] = _log.warning) -> None:
        """Raise the error of this setting, or warn that it is left out: a stranger's mistake stops no command."""
        if not self.doubted:
            raise error
        warn(f"{error.what}: it is left out, as others may have written it")


Settings: TypeAlias = Mapping[str, Setting]
"""The settings of one section by name."""

Section: TypeAlias = tuple[str, str]
"""What a section is for: ``("component", "utils.echo")``."""


def from_origin(error: ErrorT, origin: str) -> ErrorT:
    """Return the same error with the origin of the value."""
    told = type(error)(f"{error.what} (from {origin})", why=error.why, fix=error.fix)
    told.__cause__ = error
    return told
