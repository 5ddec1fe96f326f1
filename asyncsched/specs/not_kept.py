"""Placeholders for values of an app that were not stored, so that `describe` cannot return them."""

from __future__ import annotations

__all__ = ["NOT_KEPT", "NotKept"]

NOT_KEPT = "<NOT_KEPT>"
"""How such a value prints; also the variable of a described role that lists what else was not kept."""


class NotKept(str):
    """Replaces a value in a described role that was not kept: a secret, or a value that was too large.

    Replace it before you submit the app again.

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
