"""The progress of pulling, building or pushing an image."""

from __future__ import annotations

__all__ = ["ImageProgress"]


class ImageProgress:
    """The progress of pulling, building or pushing an image.

    Attributes:
        image: The image's name.
        status: The daemon's word for it, such as "Downloading" or "Pull complete"; for a build, a line of its output.
        layer: The layer; empty for the whole image.
        current: Bytes so far, if the daemon reports it.
        total: Bytes in all, if the daemon reports it.
    """

    __slots__ = ("current", "image", "layer", "status", "total")

    def __init__(
        self, *, image: str, status: str, layer: str = "", current: int | None = None, total: int | None = None
    ) -> None:
        self.image = image
        self.status = status
        self.layer = layer
        self.current = current
        self.total = total

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"
