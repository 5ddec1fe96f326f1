"""What a scheduler cannot tell of an app any more, because it was not written down."""

from __future__ import annotations

__all__ = ["NOT_KEPT", "NotKept"]

NOT_KEPT = "<NOT_KEPT>"
"""How such a value prints, and the variable of a described role that says what else of it was not kept."""


class NotKept(str):
    """Stands in a described role for a value that was not kept: a secret, or one that was too large.

    An app that holds one cannot be submitted again before it is replaced.

    Args:
        why: Why it was not kept, such as ``"a secret"``.
    """

    __slots__ = ("why",)
    why: str

    def __new__(cls, why: str) -> NotKept:  # noqa: D102 - the class says it
        self = super().__new__(cls, NOT_KEPT)
        self.why = why
        return self

    def __repr__(self) -> str:
        return f"NotKept({self.why!r})"

    def __copy__(self) -> NotKept:
        return self

    def __deepcopy__(self, memo: object) -> NotKept:
        return self

    def __reduce__(self) -> tuple[type[NotKept], tuple[str]]:
        return type(self), (self.why,)
