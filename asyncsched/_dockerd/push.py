"""Push images to registries, and look images up in registries: the daemon does both."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from asyncsched._dockerd.client import Daemon
from asyncsched._dockerd.errors import CutOffError
from asyncsched._dockerd.images import progress_of, tag_image
from asyncsched.errors import NotFoundError
from asyncsched.specs.image_progress import ImageProgress

__all__ = ["Remote", "find_remote", "platform_of", "push_image"]

_NO_LOGIN = base64.urlsafe_b64encode(b"{}").decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """An image in a registry.

    Attributes:
        digest: Its digest.
        platforms: The platforms it runs on, such as ``linux/amd64``; empty if the registry does not list them.
    """

    digest: str
    platforms: tuple[str, ...]


async def find_remote(daemon: Daemon, image: str, auth: str, *, operation: str = "submit") -> Remote | None:
    """Look an image up in its registry, without pulling it; None if the registry has no such image.

    Raises:
        AuthError: The registry requires a login. Some registries also answer this for images that do not exist.
        UnavailableError: The registry, or the daemon, cannot be reached.
    """
    what = f"cannot ask the registry for {image}"
    headers = {"X-Registry-Auth": auth or _NO_LOGIN}
    try:
        found: dict[str, Any] = await daemon.get_json(f"distribution/{image}/json", {}, what, operation, headers)
    except NotFoundError:
        return None
    platforms = tuple(platform_of(each) for each in found.get("Platforms") or ())
    return Remote(digest=str(found["Descriptor"]["digest"]), platforms=tuple(filter(None, platforms)))


def platform_of(found: dict[str, Any]) -> str:
    """Return a platform, such as ``linux/arm64/v8``, from the fields of an image (`Os`) or of a registry (`os`)."""
    parts = (found.get(key) or found.get(key.lower()) for key in ("Os", "Architecture", "Variant"))
    return "/".join(str(part) for part in parts if part)


async def push_image(
    daemon: Daemon,
    image: str,
    repository: str,
    tag: str,
    auth: str,
    on_progress: Callable[[ImageProgress], None],
    *,
    operation: str = "submit",
) -> None:
    """Tag an image of the daemon, and push it. Cancelling leaves layers in the registry.

    An interrupted push continues: the daemon tries each layer five times, and if the connection to the daemon breaks,
    the push is requested again. Layers that have arrived are not sent again.

    Args:
        daemon: The daemon that has the image.
        image: The image's name or id.
        repository: The repository to push to, such as ``registry.example:5000/team/app``.
        tag: The image's tag there.
        auth: The login, as `registry_auth` makes it.
        on_progress: Called with each step that the daemon reports.
        operation: The operation that errors name.

    Raises:
        AuthError: The registry refuses the login.
        NotFoundError: There is no such image, or no such repository.
        UnavailableError: The registry cannot be reached.
    """
    name = f"{repository}:{tag}"
    if image != name:
        await tag_image(daemon, image, name, operation=operation)
    what = f"cannot push {name}"
    headers = {"X-Registry-Auth": auth or _NO_LOGIN}

    async def push() -> None:
        is_pushed = False
        path = f"images/{repository}/push"
        async with daemon.progress(path, {"tag": tag}, headers, what=what, operation=operation) as steps:
            async for step in steps:
                is_pushed = is_pushed or "aux" in step  # the digest, which comes last
                if "status" in step:
                    on_progress(progress_of(name, step))
        if not is_pushed:
            raise CutOffError(what, why="the push was cut off", backend=daemon.backend, operation=operation)

    await daemon.repeated(push)
