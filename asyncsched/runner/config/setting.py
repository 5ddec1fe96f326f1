"""A configured value and its origin."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias, TypeVar

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
    """

    value: object
    origin: str
    is_text: bool = False
    foreign: bool = False
    shared: bool = False

    def pass_over(self, name: str, what: str) -> None:
        """Warn that a name in another program's file is unknown to `what`."""
        if not self.shared:
            _log.warning("%s: %s has no option %s; it is passed over", self.origin, what, name)


Settings: TypeAlias = Mapping[str, Setting]
"""The settings of one section by name."""

Section: TypeAlias = tuple[str, str]
"""What a section is for: ``("component", "utils.echo")``."""


def from_origin(error: ErrorT, origin: str) -> ErrorT:
    """Return the same error with the origin of the value."""
    told = type(error)(f"{error.what} (from {origin})", why=error.why, fix=error.fix)
    told.__cause__ = error
    return told
