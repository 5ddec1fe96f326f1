"""Parts of `typing` that are cheap to import and to use.

``typing_extensions`` takes 2 ms to import, and `typing.NamedTuple` compiles the text of each annotation.
"""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING, TypeVar

__all__ = ["Doc", "NamedTuple", "override"]

if TYPE_CHECKING:
    from typing import NamedTuple  # noqa: TID251 - what it is for type checkers

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

    class _Text:
        """The annotation of a constructor's parameter: shown as it is written, and never evaluated."""

        __slots__ = ("text",)

        def __init__(self, text: str) -> None:
            self.text = text

        def __repr__(self) -> str:
            return self.text

    class _NamedTuples(type):
        """Makes a named tuple of each class whose base is `NamedTuple`.

        Annotations are texts, as everywhere here. `Generic` as a second base is for type checkers only, and what they
        refuse (other bases, a field without a default after one with a default) is not checked again.
        """

        def __new__(cls, name, bases, space):
            kinds = space.pop("__annotations__", {})
            defaults = [space.pop(field) for field in kinds if field in space]
            made = namedtuple(name, kinds, defaults=defaults, module=space["__module__"])
            made.__annotations__ = kinds
            made.__new__.__annotations__ = {field: _Text(kind) for field, kind in kinds.items()}
            for key, value in space.items():
                setattr(made, key, value)
            return made

    NamedTuple = type.__new__(_NamedTuples, "NamedTuple", (), {})
