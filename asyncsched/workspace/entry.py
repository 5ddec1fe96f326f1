"""What a workspace holds, as a listing of it tells."""

from __future__ import annotations

from typing import Literal

from asyncsched._typing import NamedTuple

__all__ = ["Entry"]


class Entry(NamedTuple):
    """A file, directory or link of a workspace.

    Attributes:
        path: Its path from the workspace's root, with slashes.
        kind: Its kind; a link is never followed.
        mode: Its permissions, such as 0o755.
        size: The size of a file in bytes; 0 for others.
        target: A link's target, as it is written.
    """

    path: str
    kind: Literal["file", "directory", "link"]
    mode: int
    size: int = 0
    target: str = ""
