"""The user name and password for an image's registry, from Docker's configuration.

`registry_auth` reads files and may start a credential helper: call it in a thread. Its result is a secret: it goes into
one request header and nowhere else.
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
_FOR_TOKENS = "<token>"  # a helper's user name for an identity token, which is then the password


def registry_of(image: str) -> str:
    """Return an image's registry as Docker's configuration names it: its host, or the Hub's old address."""
    first, slash, _ = image.partition("/")
    is_host = slash and ("." in first or ":" in first or first == "localhost")
    return first if is_host and first not in ("docker.io", "index.docker.io") else _HUB


def registry_auth(image: str, environ: Mapping[str, str], home: Path) -> str:
    """Return the ``X-Registry-Auth`` header for an image; empty if no login is stored for its registry."""
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
        return {}  # helpers report "not found" in many ways; a pull without a login tells what is wrong
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
    """Return a section of the configuration; empty if it is not an object, such as ``null``."""
    found: Any = config.get(name)
    return found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType] - any JSON


def _names(registry: str) -> tuple[str, ...]:
    """Return the names under which the versions of Docker store a registry's login."""
    if registry == _HUB:
        return (_HUB, "index.docker.io", "docker.io")
    return (registry, f"https://{registry}", f"https://{registry}/v1/", f"https://{registry}/v2/")
