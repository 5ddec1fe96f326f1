"""Packages whose names are imported on their first use, so that one module can be used without the others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module

__all__ = ["lazily", "names_in"]


def lazily(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Return the ``__getattr__`` (PEP 562) of a package.

    Args:
        package: The package's name.
        homes: The module that each public name is defined in.
    """

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)  # the next look-up does not reach this function
        return value

    return get


def names_in(package: str, homes: Mapping[str, str]) -> Callable[[], list[str]]:
    """Return the ``__dir__`` of such a package, which also lists names that have not been used yet."""
    return lambda: sorted({*vars(sys.modules[package]), *homes})
