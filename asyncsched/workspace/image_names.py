"""Names of images: ids, repositories, and the names to push under. Pure."""

from __future__ import annotations

import re

from asyncsched.errors import RunOptionError
from asyncsched.specs.app import AppDef

__all__ = [
    "REPOSITORY",
    "check_image_repo",
    "check_platform",
    "host_of",
    "is_content_tag",
    "is_id",
    "push_ids",
    "repository_of",
    "token_login",
]

REPOSITORY = "asyncsched-workspace"
"""The repository of images that stay with their daemon."""

_REPOSITORY = r"(?i)[a-z0-9](?:(?:[a-z0-9._/-]|:\d+/)*[a-z0-9])?"
_PLATFORM = r"[a-z0-9]+/[a-z0-9_]+(/v\d+)?"
_CONTENT_TAG = r"[0-9a-f]{64}"


def is_id(image: str) -> bool:
    """Return whether an image is named by its id."""
    return image.startswith("sha256:")


def is_content_tag(tag: str) -> bool:
    """Return whether a tag is a hash of the image's content, so that no other image can have it."""
    return re.fullmatch(_CONTENT_TAG, tag) is not None


def repository_of(image: str) -> str:
    """Return an image's name without its tag and its digest."""
    name = image.partition("@")[0]
    head, slash, last = name.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}"


def host_of(image: str) -> str:
    """Return the part of an image's or a repository's name before its first slash."""
    return image.partition("/")[0]


def token_login(image: str, user: str, password: str) -> str:
    """Return the login for an image's registry as the daemon expects it in a request header: a secret."""
    import base64
    import json

    login = {"username": user, "password": password, "serveraddress": host_of(image)}
    return base64.urlsafe_b64encode(json.dumps(login).encode()).decode()


def check_image_repo(image_repo: object, backend: str, why: str) -> str:
    """Return the run option `image_repo`; raise RunOptionError if it is missing or does not name a repository.

    Args:
        image_repo: The option's value.
        backend: The scheduler's name.
        why: Why the option is needed.
    """
    if not isinstance(image_repo, str) or not image_repo:
        raise RunOptionError(
            f"{backend} needs the run option image_repo",
            key="image_repo",
            why=why,
            fix="name a repository that you may push to, such as image_repo=registry.example/team/app",
        )
    if not re.fullmatch(_REPOSITORY, image_repo):
        raise RunOptionError(
            f"image_repo={image_repo!r} does not name a repository",
            key="image_repo",
            why="it must be a host and a path, without a scheme and a tag",
            fix="write for example image_repo=registry.example/team/app",
        )
    return image_repo


def check_platform(platform: str, option: str = "platform") -> None:
    """Raise RunOptionError if the value is not the name of a platform."""
    if not re.fullmatch(_PLATFORM, platform):
        raise RunOptionError(
            f"{option}={platform!r} does not name a platform",
            key=option,
            fix="write for example linux/amd64 or linux/arm64",
        )


def push_ids(app: AppDef, image_repo: object, backend: str) -> dict[str, tuple[str, str]]:
    """Rename images that roles name by id to the names that they will be pushed under.

    Args:
        app: The app; its roles are changed.
        image_repo: The run option.
        backend: The scheduler's name; its machines do not have this machine's images.

    Returns:
        The repository and the tag of each such image, by id.

    Raises:
        RunOptionError: There is such an image, and `image_repo` is missing or malformed.
    """
    pushed: dict[str, tuple[str, str]] = {}
    for role in app.roles:
        if is_id(role.image):
            why = f"the role {role.name} names an image of this machine by its id, and it must be pushed first"
            repository, tag = check_image_repo(image_repo, backend, why), role.image.partition(":")[2]
            pushed[role.image] = repository, tag
            role.image = f"{repository}:{tag}"
    return pushed
