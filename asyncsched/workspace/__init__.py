"""Workspaces: a user's files, and how they come to where an app runs.

- `asyncsched.workspace.ignore`: which files are left out: Docker's rules for ``.dockerignore``.
- `asyncsched.workspace.files`: reading a tree of files, on this machine or behind a URL; it blocks.
- `asyncsched.workspace.context`: `Context`: what a workspace holds, its archive as a stream, its digest.
- `asyncsched.workspace.hashing`: the hash that names what is built.
- `asyncsched.workspace.directory`: the files as a copy on this machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asyncsched import _lazy

if TYPE_CHECKING:
    from asyncsched.workspace.context import Context as Context
    from asyncsched.workspace.context import Entry as Entry
    from asyncsched.workspace.directory import DirWorkspace as DirWorkspace
    from asyncsched.workspace.hashing import workspace_hash as workspace_hash

_HOMES = {
    "Context": "asyncsched.workspace.context",
    "DirWorkspace": "asyncsched.workspace.directory",
    "Entry": "asyncsched.workspace.files",
    "workspace_hash": "asyncsched.workspace.hashing",
}

__all__ = ["Context", "DirWorkspace", "Entry", "workspace_hash"]

__getattr__ = _lazy.lazily(__name__, _HOMES)
