"""How far the pull, the build or the push of an image has come."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ImageProgress"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageProgress:
    """How far the pull, the build or the push of an image has come.

    Attributes:
        image: The image's name.
        status: The daemon's word for it, such as "Downloading" or "Pull complete"; of a build, a line of its output.
        layer: The layer that it is said of; empty when it is said of the whole image.
        current: Bytes so far, where the daemon says.
        total: Bytes in all, where the daemon says.
    """

    image: str
    status: str
    layer: str = ""
    current: int | None = None
    total: int | None = None
