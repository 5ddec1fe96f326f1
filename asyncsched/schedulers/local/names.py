"""What ids and names are called on the disk."""

from __future__ import annotations

import re
from urllib.parse import quote

from asyncsched.schedulers.local.supervisor.layout import STATE

__all__ = ["is_app_name", "replica_directory", "role_directory"]

LONGEST_NAME = 200

_APP = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,200}")


def is_app_name(name: str) -> bool:
    """Tell whether a directory's name can be an app's id."""
    return _APP.fullmatch(name) is not None


def role_directory(name: str) -> str:
    """Return a directory's name for a role or a session, whatever that is called."""
    safe = quote(name, safe=" +=@,:", errors="surrogatepass")
    if safe.startswith(".") or safe == STATE:  # the record lies beside the roles' directories
        safe = f"%{ord(safe[0]):02X}{safe[1:]}"
    if len(safe) > LONGEST_NAME:
        from hashlib import sha256

        safe = f"{safe[:LONGEST_NAME]}-{sha256(name.encode(errors='surrogatepass')).hexdigest()[:16]}"
    return safe


def replica_directory(role: str, k: int) -> str:
    """Return where a replica's log lies below its app's directory."""
    return f"{role_directory(role)}/{k}"
