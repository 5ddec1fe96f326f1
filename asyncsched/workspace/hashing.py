"""The workspace hash: it names an image or a copy, and so shows whether it exists already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import _Hash

__all__ = ["sha256", "workspace_hash"]


def sha256(data: bytes = b"") -> _Hash:
    """Return a hash object, to be updated with more data."""
    import hashlib  # loaded when a workspace is first read

    return hashlib.sha256(data)


def workspace_hash(
    context_digest: str,
    *,
    dockerfile: bytes = b"",
    build_args: Mapping[str, str] | None = None,
    platform: str | None = None,
    base: str = "",
) -> str:
    """Return the hash of everything that a build depends on, as 64 hexadecimal digits.

    Args:
        context_digest: The digest of the files, from `Context.digest`.
        dockerfile: The Dockerfile's content.
        build_args: The build arguments.
        platform: The platform to build for; None for the daemon's.
        base: The base image's digest.
    """
    import json  # imported only when something is built

    parts = {
        "base": base,
        "build_args": dict(build_args or {}),
        "dockerfile": sha256(dockerfile).hexdigest(),
        "files": context_digest,
        "platform": platform,
        "version": 1,
    }
    return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
