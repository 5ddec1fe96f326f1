"""Images of a daemon: look them up, pull, tag and remove them."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from asyncsched._dockerd.client import Daemon
from asyncsched._dockerd.credentials import registry_auth
from asyncsched.errors import ConflictError, NotFoundError, SchedulerError
from asyncsched.specs.image_progress import ImageProgress

__all__ = ["PullPolicy", "inspect_image", "list_labelled", "progress_of", "provide_image", "remove_image", "tag_image"]

_log = logging.getLogger("asyncsched.dockerd")

PullPolicy = Literal["missing", "always", "never"]


async def provide_image(
    daemon: Daemon,
    image: str,
    policy: PullPolicy,
    on_progress: Callable[[ImageProgress], None],
    *,
    platform: str | None = None,
    auth: str | None = None,
    operation: str = "submit",
    given_up: asyncio.Future[None] | None = None,
) -> None:
    """Make sure that the daemon has an image: pull it at most once, and only if the policy says so.

    Cancelling ends the pull a little later; layers that have arrived stay with the daemon.

    Args:
        daemon: The daemon that needs the image.
        image: The image.
        policy: When to pull it.
        on_progress: Called with the daemon's progress.
        platform: The platform to pull; the daemon's by default.
        auth: The login; by default the one in Docker's configuration for the registry.
        operation: The operation that errors name.
        given_up: Ends the pull once it is done; this then returns, or raises, when the daemon has stopped pulling.

    Raises:
        NotFoundError: The daemon does not have the image, and it may not or cannot be pulled.
        AuthError: The registry requires a login.
    """
    is_there = policy != "always" and await _is_there(daemon, image, operation)
    if is_there:
        return
    if policy == "never":
        raise _missing(daemon, image, "it is not on the daemon, and pull=never", operation)
    try:
        await daemon.repeated(lambda: _pull(daemon, image, on_progress, platform, auth, operation, given_up))
    except SchedulerError as error:
        # An image that exists only on this daemon cannot be pulled again: that is not a failure.
        if policy == "always" and await _is_there(daemon, image, operation):
            _log.warning("using the daemon's copy of the image %s: %s", image, error)
            return
        raise
    if not await _is_there(daemon, image, operation):
        raise _missing(daemon, image, "the pull was cut off", operation)


async def inspect_image(daemon: Daemon, image: str, *, operation: str = "submit") -> dict[str, Any] | None:
    """Return the daemon's description of an image, by name, digest or id; None if it does not have the image."""
    images = await daemon.images(operation)
    try:
        return dict(await daemon.ask(lambda: images.inspect(image), f"cannot look up the image {image}", operation))
    except NotFoundError:
        return None


async def list_labelled(daemon: Daemon, label: str, *, operation: str = "submit") -> list[str]:
    """Return the ids of the images that have a label (`key=value`), with or without a name."""
    params = {"all": "1", "filters": json.dumps({"label": [label]})}
    found: list[dict[str, Any]] = await daemon.get_json("images/json", params, "cannot list the images", operation)
    return [str(image["Id"]) for image in found]


async def tag_image(daemon: Daemon, image: str, name: str, *, operation: str = "submit") -> None:
    """Give an image another name, which is taken from any image that has it."""
    repository, _, tag = name.rpartition(":")
    images = await daemon.images(operation)
    await daemon.ask(lambda: images.tag(image, repository, tag=tag), f"cannot tag the image {name}", operation)


async def remove_image(daemon: Daemon, image: str, *, unnamed: bool = False, operation: str = "submit") -> None:
    """Remove an image by name or id; one that is gone or in use is not an error.

    Args:
        daemon: The daemon that has it.
        image: The image.
        unnamed: Keep it if it has a name: removing it by its id would remove its only name.
        operation: The operation that errors name.
    """
    if unnamed:
        found = await inspect_image(daemon, image, operation=operation)
        if found is None or found.get("RepoTags"):
            return
    images = await daemon.images(operation)
    try:
        await daemon.ask(lambda: images.delete(image), f"cannot remove the image {image}", operation)
    except (ConflictError, NotFoundError):
        pass


async def _is_there(daemon: Daemon, image: str, operation: str) -> bool:
    return await inspect_image(daemon, image, operation=operation) is not None


async def _pull(
    daemon: Daemon,
    image: str,
    on_progress: Callable[[ImageProgress], None],
    platform: str | None,
    auth: str | None,
    operation: str,
    given_up: asyncio.Future[None] | None,
) -> None:
    if given_up is not None and given_up.done():
        raise _missing(daemon, image, "the pull was cancelled", operation)
    if auth is None:
        auth = await asyncio.to_thread(registry_auth, image, os.environ, Path.home())
    params = {"fromImage": image, **({"platform": platform} if platform else {})}
    if not _has_tag(image):
        params["tag"] = "latest"
    headers = {"X-Registry-Auth": auth} if auth else {}
    what = f"cannot pull the image {image}"
    daemon.pulls += 1
    async with daemon.progress(
        "images/create", params, headers, what=what, operation=operation, given_up=given_up
    ) as steps:
        async for step in steps:
            if "status" in step:
                on_progress(progress_of(image, step))


def progress_of(image: str, step: dict[str, Any]) -> ImageProgress:
    """Return the progress that the daemon reports of a transfer."""
    detail: dict[str, Any] = step.get("progressDetail") or {}
    return ImageProgress(
        image=image,
        status=str(step.get("status", "")),
        layer=str(step.get("id", "")),
        current=detail.get("current"),
        total=detail.get("total"),
    )


def _has_tag(image: str) -> bool:
    last = image.rpartition("/")[2]
    return ":" in last or "@" in last


def _missing(daemon: Daemon, image: str, why: str, operation: str) -> NotFoundError:
    return NotFoundError(
        f"no image {image}",
        why=why,
        fix="check its name, build it, or set pull=missing",
        backend=daemon.backend,
        operation=operation,
    )
