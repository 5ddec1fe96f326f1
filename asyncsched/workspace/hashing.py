"""The workspace hash: it names what is built, and tells whether that is there already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import _Hash

__all__ = ["sha256", "workspace_hash"]


def sha256(data: bytes = b"") -> _Hash:
    """Return a hash that more may be added to."""
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
    """Return the hash of all that what is built depends on, as 64 letters.

    Args:
        context_digest: The digest of the files, as `Context.digest` returns it.
        dockerfile: What the Dockerfile says.
        build_args: The build arguments.
        platform: What is built for; None for the daemon's own.
        base: The base image's digest.
    """
    import json  # only who builds pays for it

    parts = {
        "base": base,
        "build_args": dict(build_args or {}),
        "dockerfile": sha256(dockerfile).hexdigest(),
        "files": context_digest,
        "platform": platform,
        "version": 1,
    }
    return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
