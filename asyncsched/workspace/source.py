"""A workspace with its Dockerfile, ready to build images from; imports nothing that talks to Docker."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from asyncsched.workspace.context import Context
from asyncsched.workspace.dockerfile import NAMES, Dockerfile
from asyncsched.workspace.hashing import workspace_hash

__all__ = ["WorkspaceSource"]

_SET_ID = stat.S_ISUID | stat.S_ISGID


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceSource:
    """A workspace with its Dockerfile, ready to build images from.

    Attributes:
        context: The workspace's files.
        digest: The digest of the files.
        dockerfile: The Dockerfile.
    """

    context: Context
    digest: str
    dockerfile: Dockerfile

    @classmethod
    async def read(cls, workspace: str) -> WorkspaceSource:
        """Read a workspace and its Dockerfile; raise WorkspaceError if that fails."""
        context = await Context.read(workspace)
        dockerfile = await _dockerfile(context)
        dockerfile.check()
        return cls(context=context, digest=await context.digest(), dockerfile=dockerfile)

    def hash(self, image: str, platform: str | None, bases: Sequence[str]) -> str:
        """Return the workspace hash of an image, given the digests of the images that it starts from."""
        return workspace_hash(
            self.digest,
            dockerfile=self.dockerfile.text,
            build_args=self.dockerfile.arguments(self.build_args(image)),
            platform=platform,
            base=",".join(bases),
        )

    def build_args(self, image: str) -> dict[str, str]:
        """Return the build arguments for a base image."""
        return {"IMAGE": image, "WORKSPACE": self.context.workspace}

    async def is_copy(self) -> bool:
        """Return whether the image gets only the files, unchanged: builders strip setuid and setgid from files."""
        entries = self.context.entries
        return bool(self.dockerfile.below) and not await asyncio.to_thread(
            lambda: any(entry.kind == "file" and entry.mode & _SET_ID for entry in entries)
        )

    async def archive(self) -> AsyncGenerator[bytes]:
        """Yield the archive for a builder; close it (``aclosing``) if you leave it before its end."""
        extra = self.dockerfile.extra
        if self.dockerfile.is_hidden and all(entry.path != ".dockerignore" for entry in self.context.entries):
            extra[".dockerignore"] = f"{self.dockerfile.path}\n.dockerignore\n".encode()
        async with aclosing(self.context.tar(extra, below=self.dockerfile.below)) as pieces:
            async for piece in pieces:
                yield piece


async def _dockerfile(context: Context) -> Dockerfile:
    for name in NAMES:
        text = await context.read_file(name)
        if text is not None:
            is_hidden = all(entry.path != name for entry in context.entries)
            return Dockerfile(text=text, path=name, is_hidden=is_hidden)
    return Dockerfile.default()
