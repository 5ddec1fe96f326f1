"""The first process of a cluster's namespaces: makes its network and mounts, then starts and ends its programs.

It runs by itself, with nothing but the standard library, in new namespaces of processes, mounts and network:
``inside.py DIRECTORY LISTENER ADDRESS...``, where the first address is the node's, with the length of its network.
On the socket ``DIRECTORY/run/control`` it takes one JSON object for each connection:

``{"do": "start", "name": ..., "command": [...], "environment": {...}}``   begin a program, with its log in ``logs/``
``{"do": "stop", "name": ..., "signal": 15}``                              end it, and answer when it has ended
``{"do": "status"}``                                                       tell the pids of those that run

The listener is a socket of the machine's network; programs get it as descriptor 3.
When this process ends, the kernel ends all the others and removes what they have mounted.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

BRIDGE = "pods"
ENDING = 10.0
"""How many seconds a program may take to end before it is killed."""

KERNEL_SETTINGS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""What the kubelet sets on a machine that is its own. It finds these, and leaves the machine's alone."""


class Programs:
    """The programs of the cluster, by name; all are children of this process, and so is what they leave behind."""

    def __init__(self, directory: Path, listener: int) -> None:
        self._directory = directory
        self._listener = listener
        self._pids: dict[str, int] = {}

    def start(self, name: str, command: list[str], environment: dict[str, str]) -> None:
        self.reap()
        if name in self._pids:
            raise RuntimeError(f"{name} runs already")
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._pids[name] = os.posix_spawn(
            command[0],
            command,
            {**os.environ, **environment},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(self._directory / "logs" / f"{name}.log"), flags, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
                (os.POSIX_SPAWN_DUP2, self._listener, 3),
            ],
            setsid=True,
        )

    def stop(self, name: str, number: int) -> None:
        self.reap()
        if name in self._pids:
            os.kill(self._pids[name], number)
        deadline = time.monotonic() + ENDING
        while name in self._pids:
            if time.monotonic() > deadline:
                os.kill(self._pids[name], signal.SIGKILL)
            time.sleep(0.01)
            self.reap()

    def running(self) -> dict[str, int]:
        self.reap()
        return dict(self._pids)

    def reap(self) -> None:
        """Take note of every process that has ended, ours or left behind by ours."""
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._pids = {name: its for name, its in self._pids.items() if its != pid}


def main(directory: Path, listener: int, addresses: list[str]) -> None:
    make_network(addresses)
    make_mounts(directory / "inside")
    programs = Programs(directory, listener)
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as control:
        control.bind(str(directory / "run" / "control"))
        control.listen()
        sources: list[socket.socket | int] = [control, woken]
        while True:
            ready, _, _ = select.select(sources, [], [])
            if woken in ready:
                os.read(woken, 4096)
                programs.reap()
            if control in ready:
                answer(control, programs)


def answer(control: socket.socket, programs: Programs) -> None:
    connection, _ = control.accept()
    with connection:
        try:
            told = obey(json.loads(connection.makefile().readline()), programs)
        except Exception as error:
            told = {"error": f"{type(error).__name__}: {error}"}
        with suppress(OSError):  # nobody may wait any more
            connection.sendall(json.dumps(told).encode())


def obey(asked: dict[str, object], programs: Programs) -> dict[str, object]:
    if asked["do"] == "start":
        programs.start(str(asked["name"]), list(asked["command"]), dict(asked["environment"]))  # type: ignore[call-overload]
    elif asked["do"] == "stop":
        programs.stop(str(asked["name"]), int(str(asked["signal"])))
    return {"running": programs.running()}


def make_network(addresses: list[str]) -> None:
    """Make a loopback of its own and a bridge that is the node."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", BRIDGE, "type", "bridge")
    for address in addresses:
        run("ip", "address", "add", address, "dev", BRIDGE)
    run("ip", "link", "set", BRIDGE, "up")


def make_mounts(scratch: Path) -> None:
    """Make /run and /var our own to write in: kubelet, containerd and the network plugins have fixed places there."""
    scratch.mkdir()
    run("mount", "-t", "tmpfs", "tmpfs", str(scratch))
    folders = {name: scratch / name for name in ("upper", "work", "settings")}
    for each in folders.values():
        each.mkdir()
    run("mount", "-t", "tmpfs", "tmpfs", "/run")
    options = f"lowerdir=/var,upperdir={folders['upper']},workdir={folders['work']}"
    run("mount", "-t", "overlay", "overlay", "-o", options, "/var")
    for fixed in ("/var/lib/kubelet", "/var/lib/cni", "/var/log/containers", "/run/containerd", "/run/netns"):
        Path(fixed).mkdir(parents=True, exist_ok=True)
    for number, (name, value) in enumerate(KERNEL_SETTINGS.items()):
        setting = Path("/proc/sys", name)
        if setting.exists():
            stand_in = folders["settings"] / str(number)
            stand_in.write_text(f"{value}\n")
            run("mount", "--bind", str(stand_in), str(setting))


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
