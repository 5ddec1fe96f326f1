"""Small apps that the tests of this folder run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from asyncsched.specs import AppDef, BindMount, Role
from tests.services.dockerd import BUSYBOX_IMAGE


def shell(script: str, *, name: str = "worker", image: str = BUSYBOX_IMAGE, **fields: Any) -> Role:
    """A role that runs a shell script."""
    return Role(name, image, entrypoint="sh", args=["-c", script], **fields)


def app(*roles: Role, name: str = "app") -> AppDef:
    return AppDef(name, list(roles))


# As process 1 a program without a handler ignores TERM: these end at once, or not at all.
OBEYS = "trap 'exit 0' TERM; while :; do sleep 0.05; done"
IGNORES = "trap '' TERM; while :; do sleep 0.05; done"


class Gate:
    """What a script waits for until the test opens it, however long that takes.

    Args:
        folder: A directory of the test, in which the gate is a file.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "gate"
        self._folder.mkdir()
        self.mounts = [BindMount(str(self._folder), "/gate")]

    passed = "until [ -e /gate/open ]; do sleep 0.05; done"
    """A script that waits."""

    passed_once = f"{passed}; rm /gate/open"
    """A script that waits, and closes it behind itself."""

    def open(self) -> None:
        (self._folder / "open").touch()
