"""Compare and print dataclasses with shared code; generating both per class takes half of a dataclass's import time."""

from __future__ import annotations

from dataclasses import Field, fields
from reprlib import recursive_repr
from typing import TYPE_CHECKING, cast

from asyncsched._typing import override

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["Value"]


class Value:  # noqa: PLW1641 - mutable, so not hashable, as with `dataclass`
    """A base class for ``@dataclass(eq=False, repr=False)`` that compares and prints like other dataclasses.

    Two values are equal if they are of one class and all compared fields are equal. They cannot be hashed.
    """

    __slots__ = ()

    @override
    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return _compared(self) == _compared(other)

    @recursive_repr()
    def __repr__(self) -> str:
        shown = [f"{item.name}={getattr(self, item.name)!r}" for item in _fields(self) if item.repr]
        return f"{type(self).__qualname__}({', '.join(shown)})"


def _compared(value: object) -> tuple[object, ...]:
    return tuple([getattr(value, item.name) for item in _fields(value) if item.compare])


def _fields(value: object) -> tuple[Field[object], ...]:
    return fields(cast("DataclassInstance", value))
