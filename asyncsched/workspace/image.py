"""Images of a workspace: its files laid over a base image, named by the workspace hash, built once."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from asyncsched._dockerd import Daemon, build_image, find_remote, inspect_image
from asyncsched._dockerd.credentials import registry_auth
from asyncsched.errors import AsyncSchedError
from asyncsched.specs.image_progress import ImageProgress
from asyncsched.workspace.base_images import Auth, BaseImage, OtherPlatformError, fetch_base, find_base
from asyncsched.workspace.context import Context
from asyncsched.workspace.dockerfile import NAMES, Dockerfile
from asyncsched.workspace.hashing import workspace_hash
from asyncsched.workspace.image_names import is_id

__all__ = [
    "REPOSITORY",
    "ImagePlan",
    "Source",
    "build_once",
    "check_image",
    "docker_login",
    "is_built",
    "is_pushed",
]

REPOSITORY = "asyncsched-workspace"
"""The repository of images that stay with their daemon."""

LABEL = "asyncsched.workspace"
"""The label of an image that was built of a workspace: its hash."""

_log = logging.getLogger("asyncsched.workspace")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePlan:
    """One image that is to be built.

    Attributes:
        image: The image that the files are laid over, as it was named.
        bases: That, and others that the Dockerfile starts from, as they were found.
        hash: The workspace hash.
        name: The name and tag of what is built.
        platform: What it is built for; None for the daemon's own.
    """

    image: str
    bases: tuple[BaseImage, ...]
    hash: str
    name: str
    platform: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A workspace that was read, and what images of it are built by.

    Attributes:
        context: Its files.
        digest: Their digest.
        dockerfile: The Dockerfile.
    """

    context: Context
    digest: str
    dockerfile: Dockerfile

    @classmethod
    async def read(cls, workspace: str) -> Source:
        """Read a workspace and its Dockerfile; raises WorkspaceError where that cannot be."""
        context = await Context.read(workspace)
        dockerfile = await _dockerfile(context)
        dockerfile.check()
        return cls(context=context, digest=await context.digest(), dockerfile=dockerfile)

    async def plan(self, daemon: Daemon, image: str, repository: str, platform: str | None, auth: Auth) -> ImagePlan:
        """Return what would be built over an image; builds and pulls nothing.

        Raises:
            WorkspaceError: There is no such image, or it is for another platform.
            SchedulerError: There is no daemon.
        """
        values = self._values(image)
        names = self.dockerfile.images(values)
        bases = tuple([await find_base(daemon, name, platform, auth) for name in names])
        found = workspace_hash(
            self.digest,
            dockerfile=self.dockerfile.text,
            build_args=self.dockerfile.arguments(values),
            platform=platform,
            base=",".join(base.digest for base in bases),
        )
        return ImagePlan(image=image, bases=bases, hash=found, name=f"{repository}:{found}", platform=platform)

    def has(self, plan: ImagePlan) -> bool:
        """Return whether these are the files of a plan."""
        return plan.hash == workspace_hash(
            self.digest,
            dockerfile=self.dockerfile.text,
            build_args=self.dockerfile.arguments(self._values(plan.image)),
            platform=plan.platform,
            base=",".join(base.digest for base in plan.bases),
        )

    async def build(
        self, daemon: Daemon, plan: ImagePlan, auth: Auth, on_progress: Callable[[ImageProgress], None]
    ) -> str:
        """Build a plan's image and return its id; what it starts from is pulled first. Cancelling leaves nothing."""
        names = [await fetch_base(daemon, base, plan.platform, auth, on_progress) for base in plan.bases]
        by_name = dict(zip((base.name for base in plan.bases), names, strict=True))
        return await build_image(
            daemon,
            plan.name,
            self._archive,
            dockerfile=self.dockerfile.path,
            build_args=self._values(by_name.get(plan.image, plan.image)),
            labels={LABEL: plan.hash},
            platform=plan.platform,
            buildkit=await self._takes_buildkit(daemon, names, plan.platform),
            on_progress=on_progress,
        )

    async def _takes_buildkit(self, daemon: Daemon, bases: Sequence[str], platform: str | None) -> bool:
        # BuildKit copies what it is sent three times, the classic builder twice: what both do alike, that does sooner.
        if self.dockerfile.below and platform is None:
            return False
        # BuildKit takes an id for a repository's name, and puts a Dockerfile that was left out into the image.
        if any(map(is_id, bases)) or (self.dockerfile.is_hidden and not self.dockerfile.needs_buildkit()):
            return False
        return await daemon.has_buildkit(operation="submit")

    async def _archive(self) -> AsyncGenerator[bytes]:
        extra = self.dockerfile.extra
        if self.dockerfile.is_hidden and all(entry.path != ".dockerignore" for entry in self.context.entries):
            extra[".dockerignore"] = f"{self.dockerfile.path}\n.dockerignore\n".encode()
        async with aclosing(self.context.tar(extra, below=self.dockerfile.below)) as pieces:
            async for piece in pieces:
                yield piece

    def _values(self, image: str) -> dict[str, str]:
        return {"IMAGE": image, "WORKSPACE": self.context.workspace}


async def _dockerfile(context: Context) -> Dockerfile:
    for name in NAMES:
        text = await context.read_file(name)
        if text is not None:
            is_hidden = all(entry.path != name for entry in context.entries)
            return Dockerfile(text=text, path=name, is_hidden=is_hidden)
    return Dockerfile.default()


async def is_built(daemon: Daemon, plan: ImagePlan) -> str | None:
    """Return the id of the image that the daemon has of a plan; None if it has none."""
    found = await inspect_image(daemon, plan.name)
    if found is None:
        return None
    labels: Mapping[str, str] = found["Config"].get("Labels") or {}
    return str(found["Id"]) if labels.get(LABEL) == plan.hash else None


async def is_pushed(daemon: Daemon, name: str, auth: Auth) -> bool:
    """Return whether a registry has an image; False where it cannot be asked: the push will say why."""
    try:
        return await find_remote(daemon, name, await auth(name)) is not None
    except AsyncSchedError as error:
        _log.debug("%s", error)
        return False


async def check_image(daemon: Daemon, image: str, platform: str, auth: Auth) -> None:
    """Raise WorkspaceError if an image is known to be for another platform; where nothing is known, it is let pass."""
    try:
        await find_base(daemon, image, platform, auth)
    except OtherPlatformError:
        raise
    except AsyncSchedError as error:
        _log.debug("whether %s is for %s is not known: %s", image, platform, error)


async def build_once(
    image: str, workspace: str, platform: str | None, on_progress: Callable[[ImageProgress], None]
) -> str:
    """Build one image on the daemon of the environment, unless it is there, and return its id."""
    source = await Source.read(workspace)
    daemon = Daemon(backend="local_docker")
    try:
        plan = await source.plan(daemon, image, REPOSITORY, platform, docker_login)
        there = await is_built(daemon, plan)
        return there or await source.build(daemon, plan, docker_login, on_progress)
    finally:
        await daemon.close()


async def docker_login(image: str) -> str:
    """Return the login that Docker's own configuration has for an image's registry."""
    return await asyncio.to_thread(registry_auth, image, os.environ, Path.home())
