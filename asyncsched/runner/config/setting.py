"""A configured value, and where it comes from."""

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
        value: The value as its file has it; a text where the file knows texts only.
        origin: Where it is written, such as ``./asyncsched.toml:7``.
        is_text: Whether `value` has still to be read as the type that is wanted.
        foreign: Whether the file was written for another program, so that names which we do not know are no fault.
        shared: Whether it stands where every section finds it, also those that do not know the name.
    """

    value: object
    origin: str
    is_text: bool = False
    foreign: bool = False
    shared: bool = False

    def pass_over(self, name: str, what: str) -> None:
        """Warn that a name of another program's file is none of `what`."""
        if not self.shared:
            _log.warning("%s: %s has no option %s; it is passed over", self.origin, what, name)


Settings: TypeAlias = Mapping[str, Setting]
"""The settings of one section by name."""

Section: TypeAlias = tuple[str, str]
"""What a section is for: ``("component", "utils.echo")``."""


def from_origin(error: ErrorT, origin: str) -> ErrorT:
    """Return the same error, which says where the value came from."""
    told = type(error)(f"{error.what} (from {origin})", why=error.why, fix=error.fix)
    told.__cause__ = error
    return told
