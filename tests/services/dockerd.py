"""A Docker daemon of the tests' own, with its own data root, socket and address pool.

Needs root, Linux and Debian's ``docker.io`` (and ``busybox-static`` for the image).  Nothing of the
machine's own Docker is touched: the daemon listens on a unix socket only, makes no default bridge, has a
range of addresses for itself, and leaves the firewall alone. (Daemons rewrite each other's rules, so several
could not live side by side. Only where the machine's policy is to drop, as beside another Docker, it adds
rules for its own networks: containers could not reach each other without.) `Dockerd.stop` ends the processes
that `Dockerd.start` began and no others; if this process ends without it, all is removed nevertheless.

From a shell: ``python -m tests.services.dockerd up DIR`` prints the ``DOCKER_HOST`` to use, and
``python -m tests.services.dockerd down DIR`` ends it and removes the directory.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import ipaddress
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.services.lifeline import Lifeline

BUSYBOX_IMAGE = "asyncsched-tests/busybox:1"
"""Has a shell and the usual small programs."""

SHELL_LESS_IMAGE = "asyncsched-tests/shell-less:1"
"""Has one program, ``/bin/true``, and no shell."""

_DEADLINE = 60.0
_PROGRAMS = ("dockerd", "containerd", "runc", "iptables")


def why_it_cannot_run() -> str:
    """Say what this machine lacks for a daemon of our own; empty when it lacks nothing."""
    if sys.platform != "linux":
        return "a Docker daemon of the tests' own needs Linux"
    if os.geteuid() != 0:
        return "a Docker daemon of the tests' own needs root"
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (Debian: apt-get install docker.io iptables)"
    if _busybox() is None:
        return "no statically linked busybox (Debian: apt-get install busybox-static)"
    return ""


def running_host() -> str | None:
    """Name the Docker daemon that already answers here, if one does."""
    host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    path = host.removeprefix("unix://")
    if path == host:
        return host
    try:
        _Api(Path(path)).call("GET", "/_ping")
    except OSError:
        return None
    return host


class Dockerd:
    """A daemon in a directory: start it, stop it, kill it, start it again on the same data.

    Args:
        directory: Where its data are; made when it is not there, and removed by `remove`.
        live_restore: Whether containers run on when the daemon ends.
        options: More options of the command line.
        outlives_us: Whether daemon and directory stay when this process ends.
    """

    def __init__(
        self,
        directory: Path,
        *,
        live_restore: bool = False,
        options: Sequence[str] = (),
        outlives_us: bool = False,
    ) -> None:
        self._outlives_us = outlives_us
        self._lifeline: Lifeline | None = None
        self._reserved: socket.socket | None = None
        self.directory = directory
        self.options = options
        self.socket = directory / "docker.sock"
        self.live_restore = live_restore

    @property
    def host(self) -> str:
        return f"unix://{self.socket}"

    @property
    def pid(self) -> int | None:
        return _read_pid(self.directory / "dockerd.pid")

    def start(self) -> None:
        """Start the daemon and wait until it answers."""
        self.directory.mkdir(parents=True, exist_ok=True)
        if self._lifeline is None and not self._outlives_us:
            self._lifeline = Lifeline(sys.executable, "-m", "tests.services.dockerd", "down", str(self.directory))
        # Who had started it may have been killed before it answered.
        process = None if self.pid is not None and _is_alive(self.pid) else self._begin()
        deadline = time.monotonic() + _DEADLINE
        while not self.answers():
            if time.monotonic() > deadline or (process is not None and process.poll() is not None):
                raise RuntimeError(f"dockerd did not start:\n{self._end_of_log()}")
            time.sleep(0.02)

    def _begin(self) -> subprocess.Popen[bytes]:
        with (self.directory / "dockerd.log").open("ab") as log:
            process = subprocess.Popen(
                self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        _unwaited[process.pid] = process
        return process

    def answers(self) -> bool:
        with contextlib.suppress(OSError):
            return self.api.call("GET", "/_ping") == b"OK"
        return False

    def stop(self, sig: signal.Signals = signal.SIGTERM) -> None:
        """End the daemon, and the containerd that it started if it leaves that behind."""
        pids = [self.pid, _read_pid(self.directory / "exec/containerd/containerd.pid")]
        for pid in pids:
            if pid is not None:
                _end(pid, sig)
        self.socket.unlink(missing_ok=True)

    def restart(self, sig: signal.Signals = signal.SIGTERM) -> None:
        self.stop(sig)
        self.start()

    def remove(self) -> None:
        """End everything and remove the directory: containers, networks, mounts, files."""
        if self.directory.exists():
            if not self.answers():
                self.start()
            self.clean()
            self.stop()
            _unmount_below(self.directory)
            shutil.rmtree(self.directory, ignore_errors=True)
        if self._lifeline is not None:
            self._lifeline.release()
        if self._reserved is not None:
            self._reserved.close()

    def clean(self) -> None:
        """Remove every container and network."""
        deadline = time.monotonic() + _DEADLINE
        while containers := self.api.json("GET", "/containers/json?all=1"):
            for container in containers:
                try:
                    self.api.call("DELETE", f"/containers/{container['Id']}?force=1&v=1")
                except RuntimeError:  # it is going already, or the daemon has not heard of its end in time
                    if time.monotonic() > deadline:
                        raise
            time.sleep(0.02)
        self.api.json("POST", "/networks/prune")

    def import_images(self) -> None:
        """Make `BUSYBOX_IMAGE` and `SHELL_LESS_IMAGE`."""
        import_image(self.api, BUSYBOX_IMAGE, busybox_tar())
        import_image(self.api, SHELL_LESS_IMAGE, shell_less_tar())

    @property
    def api(self) -> _Api:
        return _Api(self.socket)

    def _command(self) -> list[str]:
        pool = self.directory / "pool"
        if not pool.exists():
            network, self._reserved = _free_network()
            pool.write_text(str(network))
        command = [
            "dockerd",
            f"--host={self.host}",
            f"--data-root={self.directory}/data",
            f"--exec-root={self.directory}/exec",
            f"--pidfile={self.directory}/dockerd.pid",
            "--config-file=",
            "--bridge=none",
            "--ip-masq=false",
            "--ip-forward=false",
            f"--default-address-pool=base={pool.read_text()},size=24",
            "--shutdown-timeout=2",
            "--log-level=warn",
            *([] if _drops_forwarded() else ["--iptables=false"]),
            *self.options,
        ]
        return [*command, "--live-restore"] if self.live_restore else command

    def _end_of_log(self) -> str:
        return "\n".join((self.directory / "dockerd.log").read_text(errors="replace").splitlines()[-20:])


@contextlib.contextmanager
def new_dockerd() -> Iterator[Dockerd]:
    """A daemon with the tests' images, gone with all that is its own afterwards."""
    daemon = Dockerd(new_directory())
    try:
        daemon.start()
        daemon.import_images()
        yield daemon
    finally:
        daemon.remove()


class _Api:
    """The little of the daemon's API that the tests' own set-up needs, over the standard library."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def call(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        connection = http.client.HTTPConnection("localhost", timeout=_DEADLINE)
        connection.sock = socket.socket(socket.AF_UNIX)
        try:
            connection.sock.settimeout(_DEADLINE)
            connection.sock.connect(str(self._path))
            connection.request(method, path, body, {"Content-Type": content_type, **(headers or {})})
            response = connection.getresponse()
            answer = response.read()
        finally:
            connection.close()
        if response.status >= 400:
            raise RuntimeError(f"{method} {path}: {response.status} {answer.decode(errors='replace')}")
        return answer

    def json(self, method: str, path: str, body: object = None) -> Any:
        return json.loads(self.call(method, path, b"" if body is None else json.dumps(body).encode()) or b"null")


def import_image(api: _Api, name: str, content: bytes) -> None:
    """Make an image of one layer from a tar file."""
    repository, _, tag = name.rpartition(":")
    query = urllib.parse.urlencode({"fromSrc": "-", "repo": repository, "tag": tag})
    answer = api.call("POST", f"/images/create?{query}", content, "application/x-tar")
    if b'"error"' in answer:
        raise RuntimeError(answer.decode())


def busybox_tar() -> bytes:
    """Pack busybox with a link for each of its programs, as a file system."""
    names = subprocess.run([_required_busybox(), "--list"], capture_output=True, text=True, check=True)
    links = {f"bin/{name}": "busybox" for name in names.stdout.split() if name != "busybox"}
    return _pack({"bin/busybox": Path(_required_busybox()).read_bytes()}, links)


def shell_less_tar() -> bytes:
    """Pack busybox under the name of one program: it is that program and nothing else."""
    return _pack({"bin/true": Path(_required_busybox()).read_bytes()}, {})


def _pack(programs: dict[str, bytes], links: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, mode in (("bin", 0o755), ("etc", 0o755), ("root", 0o700), ("tmp", 0o1777)):
            directory = tarfile.TarInfo(name)
            directory.type, directory.mode = tarfile.DIRTYPE, mode
            tar.addfile(directory)
        files = {"etc/passwd": b"root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n"}
        for name, content in {**files, **programs}.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            tar.addfile(entry, io.BytesIO(content))
        for name, target in links.items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            tar.addfile(link)
    return buffer.getvalue()


def _busybox() -> str | None:
    return shutil.which("busybox")


def _required_busybox() -> str:
    path = _busybox()
    if path is None:
        raise RuntimeError("no busybox on this machine (Debian: apt-get install busybox-static)")
    return path


_unwaited: dict[int, subprocess.Popen[bytes]] = {}
"""Daemons that this process started: they must be waited for, or they stay as zombies."""


def _read_pid(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _end(pid: int, sig: signal.Signals) -> None:
    """Signal a process, and kill it if it is still there at the deadline."""
    deadline = time.monotonic() + _DEADLINE
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, sig)
        while _is_alive(pid):
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)


def _is_alive(pid: int) -> bool:
    process = _unwaited.get(pid)
    if process is not None:
        return process.poll() is None
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def _drops_forwarded() -> bool:
    """Tell whether the machine's firewall drops what is forwarded, so that networks need rules to work at all."""
    policy = subprocess.run(["iptables", "-S", "FORWARD"], capture_output=True, text=True, check=False).stdout
    return "-P FORWARD ACCEPT" not in policy


def _free_network() -> tuple[ipaddress.IPv4Network, socket.socket]:
    """Find a /20 of private addresses that no route of this machine uses, and reserve it.

    A daemon that has made no network yet has no route, so its range is reserved by a name that can be taken once:
    that of an abstract socket, which is free again when the socket is closed.
    """
    used: list[ipaddress.IPv4Network] = []
    for line in Path("/proc/net/route").read_text().splitlines()[1:]:
        fields = line.split()
        address, mask = (int.from_bytes(bytes.fromhex(fields[i]), "little") for i in (1, 7))
        if mask:
            used.append(ipaddress.IPv4Network((address, mask.bit_count())))
    candidates = list(ipaddress.IPv4Network("10.128.0.0/9").subnets(new_prefix=20))
    for candidate in random.sample(candidates, len(candidates)):
        if not any(candidate.overlaps(network) for network in used):
            reserved = socket.socket(socket.AF_UNIX)
            with contextlib.suppress(OSError):  # another daemon has it
                reserved.bind(f"\0asyncsched-tests-{candidate}")
                return candidate, reserved
            reserved.close()
    raise RuntimeError("every private network of this machine is in use")


def _unmount_below(directory: Path) -> None:
    mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for path in sorted(mounted, reverse=True):
        if path.startswith(f"{directory}/"):
            subprocess.run(["umount", "--lazy", path], check=False, capture_output=True)


def new_directory() -> Path:
    """Make a short path: the daemon puts unix sockets below it, which may have 107 letters."""
    return Path(tempfile.mkdtemp(prefix="asd-", dir="/tmp"))


def main(arguments: list[str]) -> None:
    verb, directory = arguments
    daemon = Dockerd(Path(directory).resolve(), outlives_us=True)
    if verb == "up":
        daemon.start()
        daemon.import_images()
        sys.stdout.write(f"{daemon.host}\n")
    elif verb == "down":
        daemon.remove()
    else:
        raise SystemExit("usage: python -m tests.services.dockerd up|down DIRECTORY")


if __name__ == "__main__":
    main(sys.argv[1:])
