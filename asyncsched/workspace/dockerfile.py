"""Read a workspace's Dockerfile, as far as needed: the images it starts from, and the builder it needs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from asyncsched.errors import WorkspaceError

__all__ = ["NAMES", "Dockerfile"]

NAMES = ("Dockerfile.asyncsched", "Dockerfile.torchx")
"""The file names to look for in a workspace's root; the first that exists is used."""

_BELOW = "workspace"
_DEFAULT = f"ARG IMAGE\nFROM $IMAGE\nCOPY {_BELOW}/ .\n".encode()
_FROM = re.compile(r"FROM\s+(?:--\S+\s+)*(?P<image>\S+)(?:\s+AS\s+(?P<stage>\S+))?\s*$", re.IGNORECASE)
_ARG = re.compile(r"ARG\s+(?P<words>.*)", re.IGNORECASE | re.DOTALL)
_ASSIGNED = re.compile(r"""(?P<name>\w+)(?:=(?P<value>(?:"[^"]*"|'[^']*'|\S)*))?(?:\s+|$)""")
_COPY_FROM = re.compile(r"COPY\s+(?:--\S+\s+)*?--from=(?P<image>\S+)", re.IGNORECASE)
_MOUNT_FROM = re.compile(r"--mount=\S*\bfrom=(?P<image>[^\s,]+)")
_SESSION = re.compile(r"--mount=\S*\btype=(?P<kind>secret|ssh)\b")
_DIRECTIVE = re.compile(r"#\s*(?P<name>[A-Za-z]\w*)\s*=\s*(?P<value>\S.*?)\s*$")
_HEREDOC = re.compile(r"""<<(?P<tabs>-?)(?P<quote>["']?)(?P<end>\w+)(?P=quote)""")
_MAY_HAVE_HEREDOC = re.compile(r"(?:ONBUILD\s+)?(?:RUN|COPY|ADD)\s", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dockerfile:
    """The Dockerfile that an image is built with.

    Attributes:
        text: Its content.
        path: Its path in the archive that is sent to the builder.
        below: The directory of that archive that holds the workspace; empty for its root.
        is_hidden: Whether it comes from the workspace, and the ignore file leaves it out.
    """

    text: bytes
    path: str
    below: str = ""
    is_hidden: bool = False

    @classmethod
    def default(cls) -> Dockerfile:
        """Return the default, which copies the workspace into the image's working directory.

        The workspace is in a directory of the archive, so that the Dockerfile beside it does not get into the image.
        """
        return cls(text=_DEFAULT, path="Dockerfile", below=_BELOW)

    @property
    def extra(self) -> dict[str, bytes]:
        """The files to send in addition to the workspace's."""
        return {self.path: self.text} if self.below or self.is_hidden else {}

    def arguments(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return the build arguments that change the result: those that are declared; none in the default file."""
        declared: set[str] = set()
        for line in () if self.below else self._instructions():
            if arguments := _ARG.match(line):
                declared.update(each["name"] for each in _ASSIGNED.finditer(arguments["words"]))
        return {name: value for name, value in values.items() if name in declared}

    def images(self, values: Mapping[str, str]) -> list[str]:
        """Return the images that it starts from or copies from.

        Args:
            values: The build arguments.
        """
        known = dict(values)
        stages: set[str] = set()
        found: dict[str, None] = {}
        escape = self._escape()
        for line in self._instructions():
            if arguments := _ARG.match(line):
                for each in _ASSIGNED.finditer(arguments["words"]) if not stages else ():
                    if each["value"] is not None:
                        known.setdefault(each["name"], _filled(each["value"], known, escape))
            elif start := _FROM.match(line):
                image = _filled(start["image"], known, escape)
                if image.lower() not in stages:
                    found[image] = None
                stages.add((start["stage"] or f"stage {len(stages)}").lower())
            for copy in (*_COPY_FROM.finditer(line), *_MOUNT_FROM.finditer(line)):
                if copy["image"].lower() not in stages and not copy["image"].isdigit():
                    found[copy["image"]] = None
        return [image for image in found if image and image != "scratch"]

    def check(self) -> None:
        """Raise WorkspaceError if it needs a build session, which only `docker build` has, or cannot be hidden."""
        for line in self._instructions():
            if asked := _SESSION.search(line):
                raise WorkspaceError(
                    f"{self.path} uses --mount=type={asked['kind']}, which is not supported",
                    why="secrets and SSH keys need a session that only `docker build` has",
                    fix="build the image with `docker build`, and name it as the role's image",
                )
        if self.is_hidden and self.needs_buildkit():
            raise WorkspaceError(
                f"{self.path} is left out by .dockerignore, but it needs BuildKit",
                why="BuildKit would copy it into the image with the other files",
                fix=f"write !{self.path} as the last line of .dockerignore, or avoid --mount, << and # syntax",
            )

    def needs_buildkit(self) -> bool:
        """Return whether the classic builder cannot build it."""
        text = self._text()
        return "--mount=" in text or "<<" in text or "syntax" in self._directives()

    def _text(self) -> str:
        return self.text.decode(errors="replace").removeprefix("\ufeff")

    def _directives(self) -> dict[str, str]:
        """Return the parser directives: the comments at the very beginning, by name."""
        found: dict[str, str] = {}
        for line in self._text().split("\n"):
            directive = _DIRECTIVE.match(line)
            if directive is None:
                break
            found[directive["name"].lower()] = directive["value"]
        return found

    def _escape(self) -> str:
        return self._directives().get("escape", "\\")

    def _instructions(self) -> Iterator[str]:
        """Yield each instruction as one line, without comments and here-documents."""
        goes_on = re.compile(rf"{re.escape(self._escape())}[ \t]*$")
        whole = ""
        lines = iter(self._text().replace("\r\n", "\n").split("\n"))
        for line in lines:
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            part = goes_on.sub("", line)
            whole += part
            if part != line:
                continue
            yield whole.strip()
            for heredoc in _HEREDOC.finditer(whole) if _MAY_HAVE_HEREDOC.match(whole.lstrip()) else ():
                _skip(lines, heredoc)
            whole = ""
        if whole.strip():
            yield whole.strip()


def _skip(lines: Iterator[str], heredoc: re.Match[str]) -> None:
    for line in lines:
        if (line.lstrip("\t") if heredoc["tabs"] else line) == heredoc["end"]:
            return


def _filled(text: str, values: Mapping[str, str], escape: str) -> str:
    """Return a word with its variables replaced and its quotes removed."""
    part = re.compile(
        rf"""'(?P<literal>[^']*)'|{re.escape(escape)}(?P<escaped>.)|(?P<quote>")|"""
        r"\$(?:\{(?P<braced>\w+)(?::?(?P<kind>[-+])(?P<other>(?:[^{}]|\$\{[^{}]*\})*))?\}|(?P<bare>\w+))"
    )

    def value(found: re.Match[str]) -> str:
        if found["literal"] is not None or found["escaped"] or found["quote"]:
            return found["literal"] or found["escaped"] or ""
        known = values.get(found["braced"] or found["bare"], "")
        if found["kind"] == "+":
            return _filled(found["other"], values, escape) if known else ""
        return known or (_filled(found["other"], values, escape) if found["kind"] else "")

    return part.sub(value, text)
