"""The user name and password for an image's registry, from Docker's own configuration.

Reads files and may start a credential helper: call `registry_auth` in a thread. What it returns is a
secret: it goes into one request header and nowhere else.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asyncsched._dockerd.endpoint import config_directory

__all__ = ["registry_auth", "registry_of"]

_HUB = "https://index.docker.io/v1/"
_HELPER_TIMEOUT = 20.0
_FOR_TOKENS = "<token>"  # the user name with which a helper says that the password is an identity token


def registry_of(image: str) -> str:
    """Name an image's registry as Docker's configuration does: its host, or the Hub's old address."""
    first, slash, _ = image.partition("/")
    is_host = slash and ("." in first or ":" in first or first == "localhost")
    return first if is_host and first not in ("docker.io", "index.docker.io") else _HUB


def registry_auth(image: str, environ: Mapping[str, str], home: Path) -> str:
    """Make the ``X-Registry-Auth`` header for an image; empty when no login is stored for its registry."""
    registry = registry_of(image)
    config = _read(config_directory(environ, home) / "config.json")
    login = _from_helper(config, registry) or _from_file(config, registry)
    if not login:
        return ""
    return base64.urlsafe_b64encode(json.dumps({**login, "serveraddress": registry}).encode()).decode()


def _read(path: Path) -> dict[str, Any]:
    try:
        content: Any = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}  # pyright: ignore[reportUnknownVariableType] - any JSON


def _from_helper(config: dict[str, Any], registry: str) -> dict[str, str]:
    name = _section(config, "credHelpers").get(registry) or config.get("credsStore")
    program = shutil.which(f"docker-credential-{name}") if name else None
    if program is None:
        return {}
    try:
        answer = subprocess.run(
            [program, "get"],
            input=registry,
            capture_output=True,
            text=True,
            timeout=_HELPER_TIMEOUT,
            check=True,
        )
        found = json.loads(answer.stdout)
        user, secret = str(found["Username"]), str(found["Secret"])
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError, RecursionError):
        return {}  # helpers answer "not found" in many ways; the pull without a login says what is wrong
    return {"identitytoken": secret} if user == _FOR_TOKENS else {"username": user, "password": secret}


def _from_file(config: dict[str, Any], registry: str) -> dict[str, str]:
    logins = _section(config, "auths")
    entry = _section(logins, next((name for name in _names(registry) if name in logins), ""))
    if entry.get("identitytoken"):
        return {"identitytoken": str(entry["identitytoken"])}
    try:
        user, _, password = base64.b64decode(str(entry.get("auth", ""))).decode().partition(":")
    except ValueError:
        return {}
    return {"username": user, "password": password.rstrip("\0")} if user else {}


def _section(config: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a part of the configuration; what is no object there, such as ``null``, holds nothing."""
    found: Any = config.get(name)
    return found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType] - any JSON


def _names(registry: str) -> tuple[str, ...]:
    """List the ways in which logins were written by Docker's versions."""
    if registry == _HUB:
        return (_HUB, "index.docker.io", "docker.io")
    return (registry, f"https://{registry}", f"https://{registry}/v1/", f"https://{registry}/v2/")
