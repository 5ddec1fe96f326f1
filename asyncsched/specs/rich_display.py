"""How objects of ours tell a notebook that they look better than their `repr`."""

from __future__ import annotations

__all__ = ["RichDisplay"]


class RichDisplay:
    """What a notebook shows in place of the `repr`: each class says how it looks by `_repr_html_`."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        raise NotImplementedError

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}
