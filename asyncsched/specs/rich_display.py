"""Let a notebook show objects as HTML in place of their `repr`."""

from __future__ import annotations

__all__ = ["RichDisplay"]


class RichDisplay:
    """A base class for objects that a notebook shows as HTML; subclasses define `_repr_html_`."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        raise NotImplementedError

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}
