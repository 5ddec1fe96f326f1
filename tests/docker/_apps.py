"""Small apps that the tests of this folder run."""

from __future__ import annotations

from typing import Any

from asyncsched.specs import AppDef, Role
from tests.services.dockerd import BUSYBOX_IMAGE


def shell(script: str, *, name: str = "worker", image: str = BUSYBOX_IMAGE, **fields: Any) -> Role:
    """A role that runs a shell script."""
    return Role(name, image, entrypoint="sh", args=["-c", script], **fields)


def app(*roles: Role, name: str = "app") -> AppDef:
    return AppDef(name, list(roles))


# As process 1 a program without a handler ignores TERM: these end at once, or not at all.
OBEYS = "trap 'exit 0' TERM; while :; do sleep 0.05; done"
IGNORES = "trap '' TERM; while :; do sleep 0.05; done"
