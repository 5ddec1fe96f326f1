"""A small client of the supervisor: what the library sends, written once more so that the protocol stays as it is."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, TypedDict

from asyncsched.schedulers.local.supervisor import formats
from asyncsched.schedulers.local.supervisor.host import start_time, stat_fields
from tests._support import WITHIN, eventually_blocking, held_up

Message = dict[str, Any]
BOOT = Path(formats.__file__).with_name("boot.py")


class Chunk(TypedDict):
    """A record of an index."""

    time_ns: int
    offset: int
    length: int
    kind: int
    flags: int


class RefusedError(Exception):
    """The supervisor's answer is an error."""


class Talk:
    """Questions and answers over one socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.sock.settimeout(WITHIN)
        self._lines = sock.makefile("rb")
        self._number = 0
        self.events: list[Message] = []

    @classmethod
    def to(cls, path: Path) -> Talk:
        """Come in by a socket in the state directory, as any process of the same user may."""
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(str(path))
        return Talk(sock)

    def ask(self, op: str, **more: object) -> Message:
        """Send a request and return its answer, which may be an error."""
        self._number += 1
        self.say({"n": self._number, "op": op, **more})
        while (message := self.hear()).get("re") != self._number:
            self.events.append(message)
        return message

    def say(self, message: Message) -> None:
        self.sock.sendall(json.dumps(message).encode() + b"\n")

    def hear(self) -> Message:
        """Return the next message; EOFError when the other side has closed."""
        line = self._lines.readline()
        if not line.endswith(b"\n"):
            raise EOFError
        answer: Message = json.loads(line)
        return answer

    def wait_for_eof(self) -> None:
        """Return when the other side is gone."""
        while True:
            try:
                self.events.append(self.hear())
            except (EOFError, ConnectionResetError):
                return

    def close(self) -> None:
        self._lines.close()
        self.sock.close()


class Supervisor(Talk):
    """A supervisor of ours, with a state directory of its own.

    Args:
        home: The state directory.
        pidfd: Whether it gets to know us by a pidfd, or has to look.
        detached: Whether it is the supervisor of one detached app.
        prefix: A command that runs it, such as one that changes a limit.
        boot: The program, where it is not ours but a copy.
    """

    def __init__(
        self,
        home: Path,
        *,
        pidfd: bool = True,
        detached: bool = False,
        prefix: Sequence[str] = (),
        boot: Sequence[str] = (sys.executable, "-I", "-S", str(BOOT)),
    ) -> None:
        self.home = home
        self.home.mkdir(mode=0o700, exist_ok=True)
        ours = _start(home, prefix=[*prefix, *boot], pidfd=pidfd, detached=detached)
        super().__init__(ours)
        hello = self.ask("hello", protocol=formats.PROTOCOL)
        if "error" in hello:
            self.close()
            raise RefusedError(hello["message"])
        self.identity: Message = hello["supervisor"]
        self.pid: int = self.identity["pid"]
        self.watcher: int = self.identity["watcher_pid"]

    def submit(self, *replicas: Message, app_id: str = "app", **more: object) -> Message:
        """Start an app and return its record."""
        answer = self.ask("submit", app=app(*replicas, app_id=app_id, **more))
        if "error" in answer:
            raise RefusedError(answer["message"])
        return self.describe(app_id)

    def describe(self, app_id: str = "app") -> Message:
        """Return the record of an app, from the disk if it has ended."""
        apps: list[Message] = self.ask("describe", app_ids=[app_id])["apps"]
        return apps[0] if apps else self.saved(app_id)

    def until(self, app_id: str = "app", *, within: float = WITHIN) -> Message:
        """Return the record of an app once it is over: each change is told."""
        self.sock.settimeout(within)
        while (record := self.describe(app_id))["finished_ns"] is None:
            while ("app", app_id) not in [(each.get("event"), each.get("app_id")) for each in self.events]:
                self.events.append(self.hear())
            self.events.clear()
        return record

    def run(self, *replicas: Message, within: float = WITHIN, **more: Any) -> Message:
        """Start an app and return the record of its end."""
        self.submit(*replicas, **more)
        return self.until(more.get("app_id", "app"), within=within)

    def visitor(self) -> Talk:
        """Come in by the socket in the state directory, as any process of the same user may."""
        return Talk.to(self.home / formats.SUPERVISORS / self.identity["socket"])

    def saved(self, app_id: str = "app") -> Message:
        """Return the record on the disk."""
        record: Message = json.loads((self.home / formats.APPS / app_id / formats.STATE).read_bytes())
        return record

    def log(self, k: int = 0, *, app_id: str = "app", role: str = "role") -> Log:
        """Return the log of a replica."""
        return Log(self.home / formats.APPS / app_id / role / str(k))

    def descriptors(self) -> list[str]:
        """Return what the worker has open, without its numbers, in order."""
        return sorted(_links(Path(f"/proc/{self.pid}/fd")))

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()
        try:
            # It ends what it has started, with the grace that was asked for; tests ask for little.
            eventually_blocking(lambda: not self.is_alive())
        except AssertionError:
            for pid in (self.pid, self.watcher):
                if start_time(pid) is not None:
                    os.kill(pid, signal.SIGKILL)
            raise
        crashes = [each.read_text() for each in self.home.glob("crash.*")] if self.home.exists() else []
        if crashes and error is None:
            raise AssertionError("the supervisor has crashed:\n" + "\n".join(crashes))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the worker for a moment, so that what is seen is of one moment."""
        with held_up(self.pid):
            eventually_blocking(lambda: (stat_fields(self.pid) or "T")[0] == "T")
            yield

    def is_alive(self) -> bool:
        """Tell whether the worker or its watcher is still there."""
        return start_time(self.pid) is not None or start_time(self.watcher) is not None


def _start(home: Path, *, prefix: Sequence[str], pidfd: bool, detached: bool) -> socket.socket:
    """Start a supervisor and return our end of its socket."""
    ours, theirs = socket.socketpair()
    owner = os.pidfd_open(os.getpid()) if pidfd else -1
    root = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
    passed = [theirs.fileno(), owner, root]
    arguments = [*passed, os.getpid(), start_time(os.getpid()), int(detached)]
    try:
        subprocess.run(
            [*prefix, *map(str, arguments)],
            pass_fds=[fd for fd in passed if fd >= 0],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # a test may read ours to its end
            check=True,
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
        for fd in passed[1:]:
            if fd >= 0:
                os.close(fd)
    return ours


class Log:
    """What is on the disk of a replica's output."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def read(self, kind: int, segment: int = 0) -> bytes:
        """Return the bytes of a stream in a segment."""
        return (self.directory / formats.log_name(kind, segment)).read_bytes()

    @property
    def stdout(self) -> bytes:
        return self.read(formats.STDOUT)

    @property
    def stderr(self) -> bytes:
        return self.read(formats.STDERR)

    def index(self, segment: int = 0) -> list[Chunk]:
        """Return the whole records of a segment's index."""
        data = (self.directory / formats.index_name(segment)).read_bytes()
        whole = len(data) - len(data) % formats.RECORD.size
        return [
            Chunk(time_ns=time_ns, offset=offset, length=length, kind=kind, flags=flags)
            for time_ns, offset, length, kind, flags, _ in formats.RECORD.iter_unpack(data[:whole])
        ]

    def wait_for(self, text: bytes) -> None:
        """Return when a text is in the standard output."""
        eventually_blocking(lambda: text in self.stdout)

    def wait_for_tree(self) -> None:
        """Return when every process of a `tree` is there."""
        kinds = {b"plain", b"session", b"daemon", b"deaf", b"stopped", b"bare", b"first"}
        eventually_blocking(lambda: set(self.stdout.split()) == kinds)

    def segments(self) -> list[int]:
        """Return which segments there are, the oldest first."""
        numbers = (each.name.partition(".")[2] or "0" for each in self.directory.glob("index*"))
        return sorted(map(int, numbers))

    def size(self) -> int:
        """Return how much the log takes on the disk."""
        return sum(each.stat().st_size for each in self.directory.iterdir())


def app(*replicas: Message, app_id: str = "app", **more: object) -> Message:
    """Return the description of an app, as the library sends it."""
    return {
        "app_id": app_id,
        "session": "session",
        "name": "name",
        "digest": "",
        "dir": app_id,
        "env": {"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1"},
        "detach": False,
        "grace_period": 5.0,
        "merge_streams": False,
        "max_log_bytes": 1 << 30,
        "on_failure": "continue",
        "log_dir": "",
        "spec": {},
        "replicas": list(replicas),
        **more,
    }


def replica(*argv: str, role: str = "role", k: int = 0, **more: object) -> Message:
    """Return the description of a replica."""
    return {
        "role": role,
        "k": k,
        "dir": f"{role}/{k}",
        "logs": "",
        "argv": list(argv),
        "env": {},
        "cwd": "/",
        "error_file": "",
        **more,
    }


def python(code: str, *arguments: str, **more: Any) -> Message:
    """Return the description of a replica that runs a piece of Python."""
    return replica(sys.executable, "-S", "-c", code, *arguments, **more)


def tree(token: str, *more: str, k: int = 0) -> Message:
    """Return the description of a replica with processes of each kind that is hard to end."""
    return replica(sys.executable, "-S", str(Path(__file__).with_name("_tree.py")), token, *more, k=k)


def shell(code: str, **more: Any) -> Message:
    """Return the description of a replica that runs a piece of shell."""
    return replica("/bin/sh", "-c", code, **more)


def _links(directory: Path) -> Iterator[str]:
    for entry in directory.iterdir():
        try:
            yield str(entry.readlink())
        except FileNotFoundError:
            continue  # The descriptor of a moment.


def marked(token: str) -> list[int]:
    """Return the processes of this machine that have a word in their environment or command line."""
    return [pid for pid in _pids() if _has(pid, token.encode())]


def _pids() -> Iterable[int]:
    return [int(each) for each in next(os.walk("/proc"))[1] if each.isdigit()]


def _has(pid: int, token: bytes) -> bool:
    if start_time(pid) is None:
        return False  # Over, and only not waited for yet.
    try:
        place = Path(f"/proc/{pid}")
        return token in (place / "environ").read_bytes() or token in (place / "cmdline").read_bytes()
    except OSError:
        return False
