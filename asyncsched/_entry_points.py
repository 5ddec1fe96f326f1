"""The entry points of installed packages, by group.

Only a package whose file of entry points mentions the group is loaded: importing importlib.metadata (which imports the
e-mail parser) costs as much as everything that a local job needs, and most installations have no plugins.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["entry_points_of"]


def entry_points_of(group: str) -> list[EntryPoint]:
    """Return the entry points of a group, sorted by name, without loading them."""
    if not any(_mentions(folder, group.encode()) for folder in sys.path):
        return []
    from importlib.metadata import entry_points

    return sorted(entry_points(group=group), key=lambda entry: entry.name)


def _mentions(folder: str, group: bytes) -> bool:
    try:
        names = [name for name in os.listdir(folder or ".") if name.endswith((".dist-info", ".egg-info"))]  # noqa: PTH208
    except NotADirectoryError:
        return True  # perhaps a zip file: let importlib.metadata look into it
    except OSError:
        return False
    return any(_file_mentions(os.path.join(folder, name, "entry_points.txt"), group) for name in names)  # noqa: PTH118


def _file_mentions(path: str, group: bytes) -> bool:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib alone costs 4 ms
            return group in file.read()
    except OSError:
        return False
