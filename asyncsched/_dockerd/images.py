"""Images: is it there, and fetch it when it is not."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from asyncsched._dockerd.client import Daemon
from asyncsched._dockerd.credentials import registry_auth
from asyncsched.errors import NotFoundError, SchedulerError

__all__ = ["PullPolicy", "PullProgress", "provide_image"]

_log = logging.getLogger("asyncsched.dockerd")

PullPolicy = Literal["missing", "always", "never"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PullProgress:
    """How far the pull of an image has come.

    Attributes:
        image: The image's name.
        status: The daemon's word for it: "Downloading", "Pull complete".
        layer: The layer that it is said of; empty when it is said of the whole image.
        current: Bytes so far, where the daemon says.
        total: Bytes in all, where the daemon says.
    """

    image: str
    status: str
    layer: str = ""
    current: int | None = None
    total: int | None = None


async def provide_image(
    daemon: Daemon,
    image: str,
    policy: PullPolicy,
    on_progress: Callable[[PullProgress], None],
    *,
    operation: str = "submit",
) -> None:
    """Make sure that the daemon has an image: pulled at most once, and only when the policy says so.

    Cancelling ends the pull; layers that have arrived stay with the daemon.

    Raises:
        NotFoundError: It is not there and may not or cannot be pulled.
        AuthError: The registry wants a login.
    """
    is_there = policy != "always" and await daemon.has_image(image, operation=operation)
    if is_there:
        return
    if policy == "never":
        raise _missing(daemon, image, "it is not on the daemon, and pull=never", operation)
    try:
        await daemon.repeated(lambda: _pull(daemon, image, on_progress, operation))
    except SchedulerError as error:
        # What only exists on this daemon cannot be pulled again: that is no reason to fail.
        if policy == "always" and await daemon.has_image(image, operation=operation):
            _log.warning("the image %s is used as the daemon has it: %s", image, error)
            return
        raise
    if not await daemon.has_image(image, operation=operation):
        raise _missing(daemon, image, "the pull was cut off", operation)


async def _pull(daemon: Daemon, image: str, on_progress: Callable[[PullProgress], None], operation: str) -> None:
    auth = await asyncio.to_thread(registry_auth, image, os.environ, Path.home())
    params = {"fromImage": image}
    if not _has_tag(image):
        params["tag"] = "latest"
    headers = {"X-Registry-Auth": auth} if auth else {}
    what = f"cannot pull the image {image}"
    daemon.pulls += 1
    async with daemon.progress("images/create", params, headers, what=what, operation=operation) as steps:
        async for step in steps:
            on_progress(_progress(image, step))


def _progress(image: str, step: dict[str, Any]) -> PullProgress:
    detail: dict[str, Any] = step.get("progressDetail") or {}
    return PullProgress(
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
