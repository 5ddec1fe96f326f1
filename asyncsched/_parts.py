"""Classes that are written in several parts, which their users need not know."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import TypeVar

__all__ = ["whole"]

ClassT = TypeVar("ClassT", bound=type)


def whole(first: type) -> Callable[[ClassT], ClassT]:
    """Return a decorator for a class: it names the methods of its parts after the class.

    Python's error for a wrong call then names the class that the caller knows.

    Args:
        first: The base of all parts.
    """

    def name(cls: ClassT) -> ClassT:
        for part in cls.__mro__[1:]:
            if issubclass(part, first):
                for method in vars(part).values():
                    if isinstance(method, FunctionType):
                        method.__qualname__ = f"{cls.__name__}.{method.__name__}"
        return cls

    return name
