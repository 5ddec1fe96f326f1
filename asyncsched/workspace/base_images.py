"""The images that a workspace is laid over: which one a name means, and fetching that one."""

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
"""Returns the login for an image's registry, as one request's header takes it; empty for none."""

_CLEANUP = 10.0
"""Seconds that a cancelled caller waits for the end of a pull."""
_LOOKS = 3
"""How often it asks for the image of a pull that was cut off."""

_log = logging.getLogger("asyncsched.workspace")

_HUB = re.compile(r"^(docker\.io/)?(library/(?=[^/]+$))?")


class OtherPlatformError(WorkspaceError):
    """Raised for an image that is for another platform than the wanted one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseImage:
    """An image as a dry-run has found it.

    Attributes:
        name: As it was named.
        digest: Its registry's digest; its id where it has none.
    """

    name: str
    digest: str

    @property
    def is_pullable(self) -> bool:
        """Whether the digest is a registry's."""
        return not self.digest.startswith("id:")


async def find_base(daemon: Daemon, image: str, platform: str | None, auth: Auth) -> BaseImage:
    """Find out which image a name means: the daemon's own if it has one, else its registry's; pulls nothing.

    Args:
        daemon: Who is asked.
        image: The image's name or id.
        platform: What it has to be for; None for anything.
        auth: Returns the login for its registry.

    Raises:
        WorkspaceError: It is not there, or is for another platform.
        SchedulerError: There is no daemon.
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
        raise _nowhere(image, "its registry has none of this name", local, platform)
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
    """Have the daemon pull an image by the digest that a dry-run has found; return the name to build from.

    Raises:
        WorkspaceError: It is not there any more.
    """
    local = await inspect_image(daemon, base.name)
    if local is not None and _suits(platform, platform_of(local)) and _digest(local, base.name) == base.digest:
        names: list[str] = local.get("RepoTags") or []
        return names[0] if is_id(base.name) and names else base.name
    if not base.is_pullable:
        raise WorkspaceError(
            f"the image {base.name} is not the one that the dry-run has found",
            why="the daemon has another one of this name, or none any more",
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
            f"the image {base.name} is not there any more as the dry-run has found it",
            why=error.why,
            fix="dry-run again",
        ) from error
    return base.name if takes_name else pinned


class _Pull:
    """A pull by digest, whose image gets a name: without one it would look like something that nobody needs.

    Args:
        daemon: Who pulls.
        image: What is pulled.
        name: What it is called then.
        platform: Which of its platforms; None for the daemon's own.
        login: The login for its registry.
        on_progress: Told what the daemon says.
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
        """Pull it; cancelled, this ends when the daemon pulls no more, and the image has its name or is not there."""
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
        """Tell whether an image is there whose pull was cut off, asking for it again until a layer is missing.

        A daemon that is cut off behind the last layer keeps an image that nothing refers to, not even its digest. It
        refers to it when it is asked again, which then takes one question to the registry.
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
                    continue  # a small layer may have arrived before this was cut off in its turn
            return True
        return False

    async def _end(self, pulling: asyncio.Task[None]) -> None:
        try:
            await outlast([pulling], _CLEANUP)
        except asyncio.CancelledError:
            pass  # `outlast` has waited nevertheless, and the caller raises its own cancellation
        if not pulling.done():
            pulling.cancel()  # this closes the connection, which ends the pull too, but later
            await asyncio.wait([pulling], timeout=1.0)
            _log.warning("the pull of %s did not end within %g s: it may stay without a name", self._image, _CLEANUP)
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
    """Return whether a platform is the wanted one; a variant counts where both name one."""
    return wanted is None or not there or all(a == b for a, b in zip(wanted.split("/"), there.split("/"), strict=False))


def _nowhere(
    image: str, why: str = "", local: Mapping[str, Any] | None = None, platform: str | None = None
) -> WorkspaceError:
    if local is not None:
        return _other_platform(image, platform, platform_of(dict(local)))
    return WorkspaceError(
        f"there is no image {image} to lay the workspace over",
        why=f"the daemon has none, and {why}" if why else "the daemon has none of this id",
        fix="check its name, or log in with `docker login`",
    )


def _other_platform(image: str, wanted: str | None, there: str) -> OtherPlatformError:
    return OtherPlatformError(
        f"the image {image} is for {there}, and not for {wanted}",
        why="a program runs on the architecture that it was built for",
        fix="name an image for that platform, or change the run option",
    )
