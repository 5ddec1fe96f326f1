"""Images of a workspace: its files laid over a base image, named by the workspace hash, built once."""

from __future__ import annotations

import asyncio
import logging
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from asyncsched._dockerd import Daemon, build_image, can_lay_over, find_remote, inspect_image, lay_over
from asyncsched._dockerd.credentials import registry_auth
from asyncsched.errors import AsyncSchedError, UnavailableError
from asyncsched.specs.image_progress import ImageProgress
from asyncsched.workspace.base_images import Auth, BaseImage, OtherPlatformError, fetch_base, find_base
from asyncsched.workspace.dockerfile import Dockerfile
from asyncsched.workspace.image_names import REPOSITORY, is_id
from asyncsched.workspace.source import WorkspaceSource

__all__ = [
    "ImagePlan",
    "build_once",
    "build_plan",
    "check_image",
    "docker_login",
    "is_built",
    "is_plan_of",
    "is_pushed",
    "plan_image",
    "turn_of",
]

LABEL = "asyncsched.workspace"
"""The label of an image that was built from a workspace; its value is the workspace hash."""

_log = logging.getLogger("asyncsched.workspace")

# One entry per living loop, removed with it: several schedulers of a loop may build the same image.
_turns: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.WeakValueDictionary[str, asyncio.Lock]]
_turns = weakref.WeakKeyDictionary()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePlan:
    """One image to build.

    Attributes:
        image: The base image's name, as it was given.
        bases: The base image, and others that the Dockerfile starts from, as they were found.
        hash: The workspace hash.
        name: The name and tag of the image to build.
        platform: The platform to build for; None for the daemon's.
    """

    image: str
    bases: tuple[BaseImage, ...]
    hash: str
    name: str
    platform: str | None = None


async def plan_image(
    source: WorkspaceSource, daemon: Daemon, image: str, repository: str, platform: str | None, auth: Auth
) -> ImagePlan:
    """Plan an image over a base image; builds and pulls nothing.

    Raises:
        WorkspaceError: The base image does not exist, or is for another platform.
        SchedulerError: The daemon cannot be reached.
    """
    names = source.dockerfile.images(source.build_args(image))
    bases = tuple([await find_base(daemon, name, platform, auth) for name in names])
    found = source.hash(image, platform, [base.digest for base in bases])
    return ImagePlan(image=image, bases=bases, hash=found, name=f"{repository}:{found}", platform=platform)


def is_plan_of(plan: ImagePlan, source: WorkspaceSource) -> bool:
    """Return whether the plan was made for these files."""
    return plan.hash == source.hash(plan.image, plan.platform, [base.digest for base in plan.bases])


async def build_plan(
    source: WorkspaceSource, daemon: Daemon, plan: ImagePlan, auth: Auth, on_progress: Callable[[ImageProgress], None]
) -> str:
    """Build a plan's image and return its id; base images are pulled first, and stay."""
    names = [await fetch_base(daemon, base, plan.platform, auth, on_progress) for base in plan.bases]
    by_name = dict(zip((base.name for base in plan.bases), names, strict=True))
    image, labels = by_name.get(plan.image, plan.image), {LABEL: plan.hash}
    if plan.platform is None and await source.is_copy():
        base = await inspect_image(daemon, image)
        if base is not None and can_lay_over(base):
            return await lay_over(daemon, plan.name, base, source.context.tar, labels=labels, on_progress=on_progress)
    return await build_image(
        daemon,
        plan.name,
        source.archive,
        dockerfile=source.dockerfile.path,
        build_args=source.build_args(image),
        labels=labels,
        platform=plan.platform,
        buildkit=await _takes_buildkit(source.dockerfile, daemon, names, plan.platform),
        on_progress=on_progress,
    )


async def _takes_buildkit(dockerfile: Dockerfile, daemon: Daemon, bases: Sequence[str], platform: str | None) -> bool:
    # BuildKit copies the files three times, the classic builder twice: where both give the same image, that is faster.
    if dockerfile.below and platform is None:
        return False
    # BuildKit reads an id as a repository's name, and puts an ignored Dockerfile into the image.
    if dockerfile.is_hidden or any(map(is_id, bases)):
        return False
    return await daemon.has_buildkit(operation="submit")


def turn_of(name: str) -> asyncio.Lock:
    """Return the lock to hold while looking for, building and pushing the image of this name."""
    turns = _turns.setdefault(asyncio.get_running_loop(), weakref.WeakValueDictionary())
    return turns.setdefault(name, asyncio.Lock())


async def is_built(daemon: Daemon, plan: ImagePlan) -> str | None:
    """Return the id of a plan's image if the daemon has it, else None."""
    found = await inspect_image(daemon, plan.name)
    if found is None:
        return None
    labels: Mapping[str, str] = found["Config"].get("Labels") or {}
    return str(found["Id"]) if labels.get(LABEL) == plan.hash else None


async def is_pushed(daemon: Daemon, name: str, auth: Auth) -> bool:
    """Return whether a registry has an image; False if it refuses to answer, since the push will report why.

    Raises:
        UnavailableError: The registry, or the daemon, cannot be reached.
    """
    try:
        return await find_remote(daemon, name, await auth(name)) is not None
    except UnavailableError:
        raise
    except AsyncSchedError as error:
        _log.debug("%s", error)
        return False


async def check_image(daemon: Daemon, image: str, platform: str, auth: Auth) -> None:
    """Raise WorkspaceError if an image is for another platform; pass if its platform cannot be found out."""
    try:
        await find_base(daemon, image, platform, auth)
    except OtherPlatformError:
        raise
    except AsyncSchedError as error:
        _log.debug("cannot find out whether %s is for %s: %s", image, platform, error)


async def build_once(
    image: str, source: WorkspaceSource, platform: str | None, on_progress: Callable[[ImageProgress], None]
) -> str:
    """Build one image on the environment's daemon, unless it exists, and return its id."""
    daemon = Daemon(backend="local_docker")
    try:
        plan = await plan_image(source, daemon, image, REPOSITORY, platform, docker_login)
        async with turn_of(plan.name):
            there = await is_built(daemon, plan)
            return there or await build_plan(source, daemon, plan, docker_login, on_progress)
    finally:
        await daemon.close()


async def docker_login(image: str) -> str:
    """Return the login for an image's registry from Docker's configuration."""
    return await asyncio.to_thread(registry_auth, image, os.environ, Path.home())
