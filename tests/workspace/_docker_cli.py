"""What ``docker build`` packs: the real command with the classic builder, and a daemon that keeps the archive."""

from __future__ import annotations

import io
import os
import shutil
import socketserver
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from tempfile import TemporaryDirectory


class Packer:
    """Runs ``docker build`` and returns what it sends.

    Args:
        socket: Where its daemon listens.
        received: Where the daemon puts what it has received.
    """

    def __init__(self, socket: Path, received: list[bytes]) -> None:
        self._received = received
        self._env = {**os.environ, "DOCKER_HOST": f"unix://{socket}", "DOCKER_BUILDKIT": "0"}
        self._env["DOCKER_CONFIG"] = str(socket.parent / "config")

    def pack(self, directory: Path) -> dict[str, str] | None:
        """Return the kind of each path that is sent, and of the directories above; None if it is refused.

        A pattern that the command cannot read counts as refused as well where it says so, and then sends a part.
        """
        self._received.clear()
        done = subprocess.run(
            ["docker", "build", "-q", str(directory)], env=self._env, capture_output=True, check=False, timeout=60
        )
        if not self._received or done.returncode or b"Error matching" in done.stderr:
            return None
        found: dict[str, str] = {}
        with tarfile.open(fileobj=io.BytesIO(self._received[0])) as archive:
            for each in archive:
                path = each.name.rstrip("/")
                found[path] = "directory" if each.isdir() else "link" if each.issym() else "file"
                for parent in Path(path).parents:
                    found.setdefault(str(parent), "directory")
        found.pop(".", None)
        return found


def why_it_cannot_run() -> str:
    return "" if shutil.which("docker") else "no docker command (Debian: apt-get install docker-cli)"


@contextmanager
def packer() -> Iterator[Packer]:
    received: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._answer(b"")

        def do_GET(self) -> None:
            self._answer(b"OK")

        def do_POST(self) -> None:
            parts: list[bytes] = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            received.append(b"".join(parts))
            self._answer(b'{"stream":"sha256:0\\n"}\n{"aux":{"ID":"sha256:0"}}\n')

        def _answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Api-Version", "1.44")
            self.send_header("Builder-Version", "1")
            self.send_header("Ostype", "linux")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body if self.command != "HEAD" else b"")

        def address_string(self) -> str:
            return "unix"

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            pass

    with TemporaryDirectory(prefix="asd-", dir="/tmp") as directory:
        (Path(directory) / "config").mkdir()
        socket = Path(directory) / "docker.sock"
        with socketserver.ThreadingUnixStreamServer(str(socket), Handler) as server:
            server.daemon_threads = True
            serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            serving.start()
            try:
                yield Packer(socket, received)
            finally:
                server.shutdown()
                serving.join()
