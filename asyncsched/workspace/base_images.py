"""Base images of workspaces: find out which image a name means, and pull that one."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from asyncsched._dockerd import (
    Daemon,
    find_remote,
    inspect_image,
    platform_of,
    provide_image,
    tag_image,
)
from asyncsched._tasks import outlast
from asyncsched.errors import AsyncSchedError, NotFoundError, SchedulerError, WorkspaceError
from asyncsched.specs.image_progress import ImageProgress
from asyncsched.workspace.image_names import is_id, repository_of

__all__ = ["Auth", "BaseImage", "OtherPlatformError", "fetch_base", "find_base"]

Auth = Callable[[str], Awaitable[str]]
"""Returns the login for an image's registry as the value of a request header; empty for none."""

_CLEANUP = 10.0
"""Seconds that a cancelled caller waits for a pull to end."""
_LOOKS = 3
"""How often the image of an aborted pull is requested again."""

_log = logging.getLogger("asyncsched.workspace")

_HUB = re.compile(r"^(docker\.io/)?(library/(?=[^/]+$))?")


class OtherPlatformError(WorkspaceError):
    """Raised for an image that was built for another platform."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseImage:
    """An image as the dry-run found it.

    Attributes:
        name: The name that was given.
        digest: The registry's digest, or ``id:`` and the image's id if it has none.
    """

    name: str
    digest: str

    @property
    def is_pullable(self) -> bool:
        """Whether the digest comes from a registry."""
        return not self.digest.startswith("id:")


async def find_base(daemon: Daemon, image: str, platform: str | None, auth: Auth) -> BaseImage:
    """Find out which image a name means: the daemon's if it has one, else the registry's. Pulls nothing.

    Args:
        daemon: The daemon to ask.
        image: The image's name or id.
        platform: The required platform; None for any.
        auth: Returns the login for the image's registry.

    Raises:
        WorkspaceError: The image does not exist, or is for another platform.
        SchedulerError: The daemon cannot be reached.
    """
    local = await inspect_image(daemon, image, operation="submit_dryrun")
    if local is not None and _suits(platform, platform_of(local)):
        return BaseImage(name=image, digest=_digest(local, image))
    if is_id(image):
        raise _other_platform(image, platform, platform_of(local)) if local is not None else _nowhere(image)
    try:
        remote = await find_remote(daemon, image, await auth(image), operation="submit_dryrun")
    except AsyncSchedError as error:
        if error.what == "cannot reach Docker" or isinstance(error, PermissionError):
            raise
        raise _nowhere(image, str(error), local, platform) from error
    if remote is None:
        raise _nowhere(image, "its registry has no image of this name", local, platform)
    if remote.platforms and not any(_suits(platform, each) for each in remote.platforms):
        raise _other_platform(image, platform, ", ".join(sorted(set(remote.platforms))))
    return BaseImage(name=image, digest=remote.digest)


async def fetch_base(
    daemon: Daemon,
    base: BaseImage,
    platform: str | None,
    auth: Auth,
    on_progress: Callable[[ImageProgress], None],
) -> str:
    """Pull an image by the digest that the dry-run found, unless the daemon has it; return the name to build from.

    Raises:
        WorkspaceError: The image no longer exists.
    """
    local = await inspect_image(daemon, base.name)
    if local is not None and _suits(platform, platform_of(local)) and _digest(local, base.name) == base.digest:
        names: list[str] = local.get("RepoTags") or []
        return names[0] if is_id(base.name) and names else base.name
    if not base.is_pullable:
        raise WorkspaceError(
            f"the image {base.name} is not the one that the dry-run found",
            why="the daemon now has another image of this name, or none",
            fix="dry-run again",
        )
    repository = repository_of(base.name)
    pinned = f"{repository}@{base.digest}"
    takes_name = "@" not in base.name and (local is None or not _suits(platform, platform_of(local)))
    name = _tagged(base.name) if takes_name else f"{repository}:{base.digest.replace(':', '-')}"
    try:
        await _Pull(daemon, pinned, name, platform, await auth(base.name), on_progress).run()
    except NotFoundError as error:
        raise WorkspaceError(
            f"the registry no longer has the image {base.name} that the dry-run found",
            why=error.why,
            fix="dry-run again",
        ) from error
    return base.name if takes_name else pinned


class _Pull:
    """A pull by digest that tags the image afterwards: without a name it would be a dangling image.

    Args:
        daemon: The daemon that pulls.
        image: The image to pull, with its digest.
        name: The name and tag that the image gets.
        platform: The platform to pull; None for the daemon's.
        login: The login for the image's registry.
        on_progress: Called with the daemon's progress.
    """

    def __init__(
        self,
        daemon: Daemon,
        image: str,
        name: str,
        platform: str | None,
        login: str,
        on_progress: Callable[[ImageProgress], None],
    ) -> None:
        self._daemon, self._image, self._name = daemon, image, name
        self._platform, self._login, self._on_progress = platform, login, on_progress
        self._given_up: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Pull and tag the image.

        When cancelled, wait until the daemon has stopped pulling: the image then has its name or does not exist.
        """
        pulling = asyncio.create_task(self._pull_and_name())
        try:
            await asyncio.shield(pulling)
        except asyncio.CancelledError:
            self._given_up.set_result(None)
            await self._end(pulling)
            raise

    async def _pull_and_name(self) -> None:
        try:
            await self._provide(self._on_progress, self._given_up)
        except SchedulerError:
            if not self._given_up.done() or not await self._is_whole():
                raise
        await tag_image(self._daemon, self._image, self._name)

    async def _provide(self, on_progress: Callable[[ImageProgress], None], given_up: asyncio.Future[None]) -> None:
        await provide_image(
            self._daemon,
            self._image,
            "always",
            on_progress,
            platform=self._platform,
            auth=self._login,
            given_up=given_up,
        )

    async def _is_whole(self) -> bool:
        """Return whether the daemon has the image of an aborted pull: pull it again until a layer is missing.

        A daemon whose pull is aborted after the last layer keeps an image that nothing refers to, not even its digest.
        Another pull restores the reference, and then costs one request to the registry.
        """
        for _ in range(_LOOKS):
            cut: asyncio.Future[None] = asyncio.get_running_loop().create_future()

            def on_progress(step: ImageProgress, cut: asyncio.Future[None] = cut) -> None:
                if step.status == "Pulling fs layer" and not cut.done():
                    cut.set_result(None)

            try:
                await self._provide(on_progress, cut)
            except SchedulerError:
                if await inspect_image(self._daemon, self._image) is None:
                    if not cut.done():
                        return False
                    continue  # a small layer may have arrived before this pull was aborted
            return True
        return False

    async def _end(self, pulling: asyncio.Task[None]) -> None:
        try:
            await outlast([pulling], _CLEANUP)
        except asyncio.CancelledError:
            pass  # `outlast` has waited all the same, and the caller raises the first cancellation
        if not pulling.done():
            pulling.cancel()  # closes the connection, which ends the pull too, but later
            await asyncio.wait([pulling], timeout=1.0)
            _log.warning("the pull of %s did not end within %g s: the image may stay untagged", self._image, _CLEANUP)
        elif not pulling.cancelled() and (error := pulling.exception()) is not None:
            _log.debug("the pull of %s was cancelled: %s", self._image, error)


def _tagged(name: str) -> str:
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def _digest(found: Mapping[str, Any], image: str) -> str:
    wanted = _HUB.sub("", repository_of(image))
    for each in found.get("RepoDigests") or ():
        repository, _, digest = str(each).partition("@")
        if repository == wanted:
            return digest
    return f"id:{found['Id']}"


def _suits(wanted: str | None, there: str) -> bool:
    """Return whether a platform is the wanted one; variants are compared only if both name one."""
    return wanted is None or not there or all(a == b for a, b in zip(wanted.split("/"), there.split("/"), strict=False))


def _nowhere(
    image: str, why: str = "", local: Mapping[str, Any] | None = None, platform: str | None = None
) -> WorkspaceError:
    if local is not None:
        return _other_platform(image, platform, platform_of(dict(local)))
    return WorkspaceError(
        f"the workspace's base image {image} does not exist",
        why=f"the daemon does not have it, and {why}" if why else "the daemon has no image with this id",
        fix="check its name, or log in with `docker login`",
    )


def _other_platform(image: str, wanted: str | None, there: str) -> OtherPlatformError:
    return OtherPlatformError(
        f"the image {image} is for {there}, not for {wanted}",
        why="a program runs only on the architecture that it was built for",
        fix=f"use an image for {wanted}, or change the run option",
    )
