"""The labels by which any process finds an app's containers, and the names that they have.

Everything that `describe` and `list` tell comes from labels, names and states: nothing is stored elsewhere.
"""

from __future__ import annotations

import re
from hashlib import sha256

__all__ = [
    "APP_ID",
    "APP_NAME",
    "CANCELLED",
    "METADATA",
    "REMOVE_AFTER",
    "REPLICA",
    "REQUEST",
    "RESULT",
    "RETRIES",
    "ROLE",
    "ROLE_INDEX",
    "SESSION",
    "SPEC",
    "STOPPED",
    "TERMINAL",
    "TIMED_OUT",
    "TIMEOUT",
    "VERSION",
    "base_name",
    "container_name",
]

VERSION = "asyncsched.version"
APP_ID = "asyncsched.app-id"
APP_NAME = "asyncsched.app-name"
SESSION = "asyncsched.session"
ROLE = "asyncsched.role"
ROLE_INDEX = "asyncsched.role-index"
REPLICA = "asyncsched.replica"
REQUEST = "asyncsched.request"
"""A digest of what was asked for: the same id for something else is a conflict."""
SPEC = "asyncsched.role-spec"
"""What `describe` rebuilds the role from, as JSON; without its environment, which may hold secrets."""
METADATA = "asyncsched.metadata"
RETRIES = "asyncsched.max-retries"
"""How often it is started again after a failure; missing where it never is."""
TERMINAL = "asyncsched.terminal"
"""Set where the container has a terminal: its log has no frames then."""
REMOVE_AFTER = "asyncsched.remove-after"
TIMEOUT = "asyncsched.timeout"
"""How many seconds one of its runs may take; missing where that is not limited."""
RESULT = "asyncsched.result-file"
"""The path of the replica's result file, in its container; missing where its environment names another one."""

# A name is part of what a list tells, and can be changed: it carries what happens to a container later on.
CANCELLED = ".cancelled"
"""The end of the name of a container whose app was cancelled while it ran."""
STOPPED = ".stopped"
"""The end of the name of a container that was stopped because another replica had failed."""
TIMED_OUT = ".timeout"
"""The end of the name of a container that was stopped because it ran longer than its timeout."""

_DNS_LABEL = 63
_PLAIN = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_DIGEST = 8


def container_name(app_id: str, role: str, replica: int) -> str:
    """Name a replica's container, which is its host name too.

    It is ``<app_id>-<role>-<k>`` where that is a DNS label. What is too long, or has letters that names
    resolve differently or not at all, is cleaned and cut, and a digest keeps it unique.
    """
    full = f"{app_id}-{role}-{replica}"
    if len(full) <= _DNS_LABEL and _PLAIN.fullmatch(full):
        return full
    # Each part is told apart from its neighbours: "a-b" and "c" must not be "a" and "b-c".
    digest = sha256(repr((app_id, role)).encode(errors="surrogatepass")).hexdigest()[:_DIGEST]
    end = f"-{digest}-{replica}"
    clean = re.sub(r"[^a-z0-9]+", "-", f"{app_id}-{role}".lower()).strip("-")
    return f"{_shorten(clean, _DNS_LABEL - len(end))}{end}".lstrip("-")


def _shorten(text: str, length: int) -> str:
    """Keep both ends: ids are unique at their end, and people know an app by its beginning."""
    if len(text) <= length:
        return text
    half = length // 2
    return f"{text[:half]}{text[half - length :]}".strip("-")


def base_name(name: str) -> str:
    """Return a container's name as it was when it was made."""
    name = name.removeprefix("/")
    for mark in (CANCELLED, TIMED_OUT, STOPPED):
        name = name.removesuffix(mark)
    return name
