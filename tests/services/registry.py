"""A container registry of the tests' own (Debian's ``docker-registry``), with a user and a password.

It listens on a free port of 127.0.0.1, which every Docker daemon accepts without TLS.
"""

from __future__ import annotations

import http.client
import shutil
import subprocess
import time
from pathlib import Path

from tests.services.lifeline import Lifeline
from tests.services.ports import Ports

USER = "tester"
PASSWORD = "open-sesame"
# Of the password: htpasswd is in a package of its own.
_BCRYPT = "$2y$05$tcJNzL8HIwT7qcOcHKHBC.FUnB9/JhVaszYAB7a.Q9TFCX4PWD8HS"

_DEADLINE = 60.0


def why_it_cannot_run() -> str:
    """Say what this machine lacks for a registry; empty when it lacks nothing."""
    if shutil.which("docker-registry") is None:
        return "not installed: docker-registry (Debian: apt-get install docker-registry)"
    return ""


class Registry:
    """A registry in a directory; `address` is what stands before the first slash of its images."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._lifeline: Lifeline | None = None
        self._ports = Ports(1)
        self.address = f"127.0.0.1:{self._ports.numbers[0]}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        self._directory.mkdir(parents=True, exist_ok=True)
        configuration = self._directory / "config.yml"
        configuration.write_text(self._configuration())
        with (self._directory / "registry.log").open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._lifeline = Lifeline("kill", str(self._process.pid))
        deadline = time.monotonic() + _DEADLINE
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self._directory / "registry.log").read_text(errors="replace"))
            time.sleep(0.02)

    @property
    def command(self) -> list[str]:
        """What runs it: in another network, it is the same registry at the same address there."""
        return ["docker-registry", "serve", str(self._directory / "config.yml")]

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(_DEADLINE)
            self._process = None
        if self._lifeline is not None:
            self._lifeline.release()
            self._lifeline = None
        self._ports.close()

    def _configuration(self) -> str:
        users = self._directory / "htpasswd"
        users.write_text(f"{USER}:{_BCRYPT}\n")
        return (
            "version: 0.1\n"
            "log: {level: warn}\n"
            f"storage: {{filesystem: {{rootdirectory: {self._directory}/data}}}}\n"
            f"http: {{addr: '{self.address}'}}\n"
            f"auth: {{htpasswd: {{realm: tests, path: {users}}}}}\n"
        )

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection(self.address, timeout=_DEADLINE)
        try:
            connection.request("GET", "/v2/")
            return connection.getresponse().status == http.client.UNAUTHORIZED
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
