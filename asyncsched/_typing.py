"""What `typing` has in newer versions of Python, without ``typing_extensions``, which takes 2 ms to import."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

__all__ = ["override"]

if TYPE_CHECKING:
    from typing_extensions import override
else:
    MethodT = TypeVar("MethodT")

    def override(method: MethodT) -> MethodT:
        """Say to type checkers that a method takes the place of an inherited one."""
        return method
