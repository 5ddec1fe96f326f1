"""The Dockerfile of a workspace, as far as it has to be understood: what it starts from, and what it asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from asyncsched.errors import WorkspaceError

__all__ = ["NAMES", "Dockerfile"]

NAMES = ("Dockerfile.asyncsched", "Dockerfile.torchx")
"""Its names in a workspace's root; the first that is there counts."""

_BELOW = "workspace"
_DEFAULT = f"ARG IMAGE\nFROM $IMAGE\nCOPY {_BELOW}/ .\n".encode()
_FROM = re.compile(r"FROM\s+(?:--\S+\s+)*(?P<image>\S+)(?:\s+AS\s+(?P<stage>\S+))?\s*$", re.IGNORECASE)
_ARG = re.compile(r"ARG\s+(?P<name>\w+)(?:=(?P<value>\S*))?", re.IGNORECASE)
_COPY_FROM = re.compile(r"COPY\s+(?:--\S+\s+)*?--from=(?P<image>\S+)", re.IGNORECASE)
_MOUNT_FROM = re.compile(r"--mount=\S*\bfrom=(?P<image>[^\s,]+)")
_VARIABLE = re.compile(r"\$(?:\{(?P<braced>\w+)(?::-(?P<default>[^}]*))?\}|(?P<bare>\w+))")
_SESSION = re.compile(r"--mount=\S*\btype=(?P<kind>secret|ssh)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dockerfile:
    """What an image is built by.

    Attributes:
        text: What it says.
        path: Where it stands in the archive that is sent.
        below: The directory of that archive that the workspace is in; empty for its root.
        is_hidden: Whether the workspace has it, and leaves it out of what images get.
    """

    text: bytes
    path: str
    below: str = ""
    is_hidden: bool = False

    @classmethod
    def default(cls) -> Dockerfile:
        """Return the one that lays the workspace over the image, in its working directory.

        The workspace stands in a directory beside it, so that it does not get into the image itself.
        """
        return cls(text=_DEFAULT, path="Dockerfile", below=_BELOW)

    @property
    def extra(self) -> dict[str, bytes]:
        """What is sent beside the workspace's files."""
        return {self.path: self.text} if self.below or self.is_hidden else {}

    def arguments(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return those of the build arguments that change what is built; the image's own name does not by default."""
        text = "" if self.below else self.text.decode(errors="replace")
        return {name: value for name, value in values.items() if re.search(rf"\b{name}\b", text)}

    def images(self, values: Mapping[str, str]) -> list[str]:
        """Return the images that it starts from, or copies from.

        Args:
            values: The build arguments.
        """
        known = dict(values)
        stages: set[str] = set()
        found: dict[str, None] = {}
        for line in self._instructions():
            if argument := _ARG.match(line):
                if argument["value"] is not None and not stages:
                    known.setdefault(argument["name"], _filled(argument["value"].strip("\"'"), known))
            elif start := _FROM.match(line):
                image = _filled(start["image"], known)
                if image.lower() not in stages:
                    found[image] = None
                stages.add((start["stage"] or f"stage {len(stages)}").lower())
            for copy in (*_COPY_FROM.finditer(line), *_MOUNT_FROM.finditer(line)):
                if copy["image"].lower() not in stages and not copy["image"].isdigit():
                    found[copy["image"]] = None
        return [image for image in found if image and image != "scratch"]

    def check(self) -> None:
        """Raise WorkspaceError if it asks for what only a session with `docker build` gives it."""
        for line in self._instructions():
            if asked := _SESSION.search(line):
                raise WorkspaceError(
                    f"{self.path} asks for --mount=type={asked['kind']}, which is not given to it",
                    why="secrets and SSH keys come over a session that only `docker build` has",
                    fix="build the image with `docker build`, and name it as the role's image",
                )

    def needs_buildkit(self) -> bool:
        """Return whether the classic builder would not understand it."""
        text = self.text.decode(errors="replace")
        return "--mount=" in text or "<<" in text or text.lower().startswith("# syntax")

    def _instructions(self) -> Iterator[str]:
        """Yield the instructions, each as one line, without comments."""
        lines = self.text.decode(errors="replace").splitlines()
        kept = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
        for line in re.sub(r"\\[ \t]*\n", " ", kept).splitlines():
            if line.strip():
                yield line.strip()


def _filled(text: str, values: Mapping[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        name = found["braced"] or found["bare"]
        return values.get(name) or found["default"] or ""

    return _VARIABLE.sub(value, text)
