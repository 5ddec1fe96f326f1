"""Workspaces: send a user's files to where an app runs.

- `asyncsched.workspace.ignore`: which files to leave out, by Docker's rules for ``.dockerignore``.
- `asyncsched.workspace.go_regex`: the regular expressions that these rules use.
- `asyncsched.workspace.entry`: a file, directory or link of a workspace.
- `asyncsched.workspace.files`: read a tree of files, on this machine or behind a URL; it blocks.
- `asyncsched.workspace.context`: `Context`, a workspace's entries, its archive as a stream and its digest.
- `asyncsched.workspace.hashing`: the hash that names a built image or copy.
- `asyncsched.workspace.directory`: copy the files on this machine (`asyncsched.workspace.copying` writes them).
- `asyncsched.workspace.source`: a workspace's files with their Dockerfile (`asyncsched.workspace.dockerfile`).
- `asyncsched.workspace.image`: lay the files over an image (`asyncsched.workspace.base_images`) and name the result
  (`asyncsched.workspace.image_names`).
- `asyncsched.workspace.docker`: workspaces for backends that run containers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asyncsched import _lazy

if TYPE_CHECKING:
    from asyncsched.specs.image_progress import ImageProgress as ImageProgress
    from asyncsched.workspace.context import Context as Context
    from asyncsched.workspace.directory import DirWorkspace as DirWorkspace
    from asyncsched.workspace.docker import DockerWorkspaceMixin as DockerWorkspaceMixin
    from asyncsched.workspace.docker import ImageWorkspaces as ImageWorkspaces
    from asyncsched.workspace.docker import build_workspace_image as build_workspace_image
    from asyncsched.workspace.entry import Entry as Entry
    from asyncsched.workspace.hashing import workspace_hash as workspace_hash

_HOMES = {
    "ImageProgress": "asyncsched.specs.image_progress",
    "Context": "asyncsched.workspace.context",
    "DirWorkspace": "asyncsched.workspace.directory",
    "DockerWorkspaceMixin": "asyncsched.workspace.docker",
    "Entry": "asyncsched.workspace.entry",
    "ImageWorkspaces": "asyncsched.workspace.docker",
    "build_workspace_image": "asyncsched.workspace.docker",
    "workspace_hash": "asyncsched.workspace.hashing",
}

__all__ = [
    "Context",
    "DirWorkspace",
    "DockerWorkspaceMixin",
    "Entry",
    "ImageProgress",
    "ImageWorkspaces",
    "build_workspace_image",
    "workspace_hash",
]

__getattr__ = _lazy.lazily(__name__, _HOMES)
__dir__ = _lazy.names_in(__name__, _HOMES)
