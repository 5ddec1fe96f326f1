"""How far the pull, the build or the push of an image has come."""

from __future__ import annotations

__all__ = ["ImageProgress"]


class ImageProgress:
    """How far the pull, the build or the push of an image has come.

    Attributes:
        image: The image's name.
        status: The daemon's word for it, such as "Downloading" or "Pull complete"; of a build, a line of its output.
        layer: The layer that it is said of; empty when it is said of the whole image.
        current: Bytes so far, where the daemon says.
        total: Bytes in all, where the daemon says.
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
