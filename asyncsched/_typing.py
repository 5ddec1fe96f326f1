"""Parts of `typing` in newer versions of Python, without ``typing_extensions``, which takes 2 ms to import."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

__all__ = ["Doc", "override"]

if TYPE_CHECKING:
    from typing_extensions import Doc, override
else:
    MethodT = TypeVar("MethodT")

    def override(method: MethodT) -> MethodT:
        """Mark a method that overrides an inherited one, for type checkers."""
        return method

    class Doc:
        """The documentation of a field, in its annotation."""

        def __init__(self, documentation: str, /) -> None:
            self.documentation = documentation

        def __repr__(self) -> str:
            return f"Doc({self.documentation!r})"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Doc) and self.documentation == other.documentation

        def __hash__(self) -> int:
            return hash(self.documentation)
