"""A cluster in a directory: bring it up, stop and start its programs one by one, take it down."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from tests.services.kubernetes import addresses, images, keys, programs, versions, volcano
from tests.services.kubernetes.api import Api
from tests.services.kubernetes.inside import BRIDGE
from tests.services.kubernetes.programs import Layout, Program
from tests.services.kubernetes.waiting import DEADLINE, until
from tests.services.lifeline import Lifeline

_NEEDED = ("ip", "mount", "openssl", "unshare")
_IN_NAMESPACES = (
    *("unshare", "--mount", "--pid", "--net", "--ipc", "--fork", "--kill-child", "--mount-proc"),
    *("--propagation", "private", "--"),
)
_LONGEST = 60
"""Unix sockets below the directory may have 107 letters."""

_OURS = "asyncsched-kubernetes"
"""A file of this name marks a directory as one that may be removed."""


def why_it_cannot_run() -> str:
    """Say what this machine lacks for a cluster, its build apart; empty when it lacks nothing."""
    if sys.platform != "linux":
        return "a Kubernetes cluster of the tests' own needs Linux"
    if os.geteuid() != 0:
        return "a Kubernetes cluster of the tests' own needs root"
    missing = [name for name in _NEEDED if shutil.which(name) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (Debian: iproute2, mount, openssl, util-linux)"
    return _why_no_namespaces()


def _why_no_namespaces() -> str:
    """Make the namespaces, with a bridge, and let them go: where that fails, a pod cannot have its own either."""
    probe = [*_IN_NAMESPACES, "ip", "link", "add", BRIDGE, "type", "bridge"]
    done = subprocess.run(probe, capture_output=True, text=True, check=False, timeout=DEADLINE)
    if done.returncode == 0:
        return ""
    said = done.stderr.strip() or f"exit code {done.returncode}"
    return (
        f"this machine refuses what every pod needs, namespaces and a bridge ({said}): a container has to be "
        "privileged, with CAP_SYS_ADMIN and CAP_NET_ADMIN"
    )


class Cluster:
    """A cluster of one node.

    Args:
        directory: Where everything of it is; made when it is not there, and removed by `down`.
        log_size: At what size the log of a container is rotated.
        outlives_us: Whether it stays when this process ends.

    Attributes:
        splits_streams: Whether an API server that is started tells stdout and stderr of a log apart.
    """

    def __init__(self, directory: Path, *, log_size: str = "10Mi", outlives_us: bool = False) -> None:
        self.directory = directory
        self._log_size = log_size
        self._outlives_us = outlives_us
        self.splits_streams = True
        self._lifeline: Lifeline | None = None
        self._namespaces: subprocess.Popen[bytes] | None = None

    @property
    def kubeconfig(self) -> Path:
        """An administrator's."""
        return self.directory / "admin.kubeconfig"

    @property
    def cgroup(self) -> str:
        return (self._run / "cgroup").read_text()

    @property
    def _run(self) -> Path:
        return self.directory / "run"

    def up(self) -> None:
        """Bring it up, and wait until a job of Volcano would run.

        Raises:
            RuntimeError: It did not come up; the end of the logs is in the message, and nothing is left.
        """
        self._make_directory()
        if not self._outlives_us:
            self._lifeline = Lifeline(sys.executable, "-m", "tests.services.kubernetes", "down", str(self.directory))
        try:
            self._bring_up()
        except BaseException as error:
            told = self._ends_of_logs()
            self.down()
            raise RuntimeError(f"the cluster did not come up: {error}\n{told}") from error

    def down(self) -> None:
        """End it, and remove everything that it made."""
        if not (self.directory / _OURS).exists():
            raise RuntimeError(f"{self.directory} is not the directory of a cluster")
        self._end_namespaces()
        if (self._run / "cgroup").exists():
            _remove_cgroups(self.cgroup)
        shutil.rmtree(self.directory)
        if self._lifeline is not None:
            self._lifeline.release()

    def running(self) -> dict[str, int]:
        """Return the programs that run, each with its pid inside the cluster."""
        return self._ask({"do": "status"})

    def start(self, name: str) -> None:
        """Start a program that was stopped."""
        program = self._programs()[name]
        self._begin(name, program)

    def stop(self, name: str, number: signal.Signals = signal.SIGTERM) -> None:
        """Stop a program, and wait until it has ended; it is killed when it does not end."""
        self._ask({"do": "stop", "name": name, "signal": int(number)})

    def run(self, name: str, command: list[str]) -> None:
        """Run one more program beside those of the cluster, until `stop` or `down`."""
        self._begin(name, Program(command=command, environment={}))

    def _begin(self, name: str, program: Program) -> None:
        self._ask(
            {"do": "start", "name": name, "command": program.command, "environment": program.environment},
        )

    def _ask(self, asked: dict[str, object]) -> dict[str, int]:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(DEADLINE)
            connection.connect(str(self._run / "control"))
            with connection.makefile("rw") as file:
                file.write(json.dumps(asked) + "\n")
                file.flush()
                told = json.loads(file.read())
        if "error" in told:
            raise RuntimeError(f"{asked['do']} {asked.get('name', '')}: {told['error']}")
        running: dict[str, int] = told["running"]
        return running

    def _make_directory(self) -> None:
        if len(str(self.directory)) > _LONGEST:
            raise RuntimeError(f"{self.directory} has more than {_LONGEST} letters, too many for sockets below it")
        if self.directory.is_relative_to("/run") or self.directory.is_relative_to("/var"):
            raise RuntimeError(f"{self.directory} is below /run or /var, where the cluster has files of its own")
        if self.directory.exists() and any(self.directory.iterdir()):
            raise RuntimeError(f"{self.directory} is not empty")
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.directory / _OURS).touch()
        for name in ("run", "logs"):
            (self.directory / name).mkdir()

    def _bring_up(self) -> None:
        cache = versions.cache()
        images.make(cache)
        keys.make(self.directory / "keys")
        _make_cgroups(self._new_cgroup())
        self._begin_namespaces()
        known = self._programs()
        for name in programs.RUNTIME:
            self._begin(name, known[name])
        api = Api(self.kubeconfig)
        self._until(lambda: _listens(self._layout.socket), "containerd")
        for image in sorted((cache / "images").glob("*.tar")):
            self._import(image)
        self._until(api.answers, "the API server")
        for name in programs.KUBERNETES:
            self._begin(name, known[name])
        self._install_volcano(api, known)
        self._until(lambda: _is_ready(api), "the node")

    def _install_volcano(self, api: Api, known: dict[str, Program]) -> None:
        volcano.define(api, versions.cache() / "crds")
        self._until(lambda: volcano.is_defined(api), "Volcano's custom resources")
        volcano.ask_webhooks(api, self._layout.keys / "ca.crt")
        for name in programs.VOLCANO:
            self._begin(name, known[name])
        self._until(lambda: volcano.has_default_queue(api), "Volcano's default queue")
        self._until(lambda: volcano.webhooks_answer(api), "Volcano's webhooks")

    @property
    def _layout(self) -> Layout:
        return Layout(
            cache=versions.cache(),
            directory=self.directory,
            cgroup=self.cgroup,
            log_size=self._log_size,
            splits_streams=self.splits_streams,
        )

    def _programs(self) -> dict[str, Program]:
        return programs.programs(self._layout)

    def _new_cgroup(self) -> str:
        name = f"asyncsched-{secrets.token_hex(4)}"
        (self._run / "cgroup").write_text(name)
        return name

    def _begin_namespaces(self) -> None:
        """Start the first process in namespaces of its own; the socket for the relay belongs to the machine's."""
        with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
            port = listener.getsockname()[1]
            with (self.directory / "logs" / "inside.log").open("ab") as log:
                self._namespaces = subprocess.Popen(
                    [
                        *_IN_NAMESPACES,
                        *(sys.executable, "-I", str(versions.HERE / "inside.py"), str(self.directory)),
                        str(listener.fileno()),
                        *(f"{addresses.NODE}/16", f"{addresses.API_SERVICE}/32"),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=[listener.fileno()],
                    start_new_session=True,
                    cwd="/",
                )
        pid = self._namespaces.pid
        (self._run / "unshare").write_text(f"{pid} {_started(pid)}")
        user: dict[str, object] = {"token": (self._layout.keys / "admin.token").read_text()}
        keys.write_kubeconfig(self.kubeconfig, f"https://127.0.0.1:{port}", self._layout.keys / "ca.crt", user)
        self._until(lambda: _listens(self._run / "control"), "the namespaces")

    def _end_namespaces(self) -> None:
        """Kill the first process; the kernel ends the others before its parent learns of it."""
        if not (self._run / "unshare").exists():
            return
        pid, started = map(int, (self._run / "unshare").read_text().split())
        if _started(pid) != started:
            return
        for child in _children(pid):
            os.kill(child, signal.SIGKILL)
        until(lambda: _started(pid) != started, f"the cluster in {self.directory} to end")
        if self._namespaces is not None:
            self._namespaces.wait()

    def _has_ended(self) -> bool:
        return self._namespaces is not None and self._namespaces.poll() is not None

    def _import(self, image: Path) -> None:
        ctr = [f"{self._layout.debian}/bin/ctr", "--address", str(self._layout.socket), "--namespace", "k8s.io"]
        done = subprocess.run(
            [*ctr, "images", "import", str(image)], capture_output=True, text=True, check=False, timeout=DEADLINE
        )
        if done.returncode != 0:
            raise RuntimeError(f"containerd does not take {image}: {done.stderr.strip()}")

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        def holds() -> bool:
            if self._has_ended():
                raise RuntimeError(f"the first process of the namespaces has ended, before there was {what}")
            return condition()

        until(holds, what)

    def _ends_of_logs(self) -> str:
        return "\n".join(
            f"--- {path.stem}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-5:])
            for path in sorted((self.directory / "logs").iterdir())
        )


def new_directory() -> Path:
    """Make a short path."""
    return Path(tempfile.mkdtemp(prefix="ask-", dir="/tmp"))


def cgroups(name: str) -> Iterator[Path]:
    """Name the folder of this cgroup in each hierarchy of the machine, whether it is there or not."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, where, kind, *_ = line.split()
        if kind in ("cgroup", "cgroup2"):
            yield Path(where, name)


def _make_cgroups(name: str) -> None:
    for folder in cgroups(name):
        folder.mkdir()
        for setting in (
            "cpuset.cpus",
            "cpuset.mems",
        ):  # empty in a new group of version 1, which nothing can enter then
            if (folder.parent / setting).exists():
                (folder / setting).write_text((folder.parent / setting).read_text())


def _remove_cgroups(name: str) -> None:
    """Remove them; what was in them may not have quite ended."""
    for folder in cgroups(name):
        until(partial(_is_removed, folder), f"the cgroup {folder} to be empty")


def _is_removed(cgroup: Path) -> bool:
    below = [path for path in cgroup.rglob("*") if path.is_dir()] if cgroup.exists() else []
    for each in [*sorted(below, reverse=True), cgroup]:
        with suppress(OSError):
            each.rmdir()
    return not cgroup.exists()


def _is_ready(api: Api) -> bool:
    node = api.find("/api/v1/nodes/node1")
    conditions = node["status"].get("conditions", []) if node else []
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and api.find("/api/v1/namespaces/default/serviceaccounts/default") is not None


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def _started(pid: int) -> int | None:
    """Return when a process began, in ticks, so that another one with its number is not taken for it."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return None
    return None if state in "ZX" else int(fields[18])


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
