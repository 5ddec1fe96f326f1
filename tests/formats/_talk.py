"""Plays one side of a frozen conversation between a supervisor and its clients."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests._support import WITHIN
from tests.formats._frozen import HERE, HOME, lost

Message = dict[str, Any]


def transcript(release: str, name: str, home: Path) -> list[Message]:
    """Return the lines of a frozen transcript: the number of the talk, and who says what in it."""
    text = (HERE / release / "protocol" / f"{name}.jsonl").read_text()
    text = text.replace(HOME, str(home)).replace("@CWD@", str(home))
    return [json.loads(line) for line in text.splitlines()]


def start_supervisor(argv: list[str], home: Path) -> Client:
    """Start the present supervisor with the arguments of a frozen one."""
    package = find_spec("asyncsched.schedulers.local")
    assert package is not None
    assert package.origin is not None
    boot = Path(package.origin).with_name("supervisor") / "boot.py"
    home.mkdir(mode=0o700, exist_ok=True)
    for name in ("apps", "supervisors"):  # its owner makes them
        (home / name).mkdir(mode=0o700, exist_ok=True)
    ours, theirs = socket.socketpair()
    pidfd, home_fd = os.pidfd_open(os.getpid()), os.open(home, os.O_RDONLY)
    start = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    values = {
        "boot.py": str(boot), "SOCK": str(theirs.fileno()), "PIDFD": str(pidfd), "HOME": str(home_fd),
        "OWNER": str(os.getpid()), "OWNER_START": start,
    }  # fmt: skip
    subprocess.run(
        [sys.executable, *(values.get(word, word) for word in argv)],
        pass_fds=[theirs.fileno(), pidfd, home_fd], start_new_session=True, check=True,
    )  # fmt: skip
    theirs.close()
    os.close(pidfd)
    os.close(home_fd)
    return Client(ours)


class Client:
    """An old client: says what it said, and looks at whether the answers still have what it looked for."""

    def __init__(self, sock: socket.socket) -> None:
        sock.settimeout(WITHIN)
        self._sock = sock
        self._lines = sock.makefile("rb")
        self.events: list[Message] = []

    @classmethod
    def to(cls, path: Path) -> Client:
        """Come in by a supervisor's socket."""
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(str(path))
        return Client(sock)

    def ask(self, message: Message) -> Message:
        """Send a request as it stands and return the answer with its number."""
        self._sock.sendall(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        while True:
            line = self._lines.readline()
            assert line, f"no answer to {message}"
            # The old client tells an answer from an event by how it begins.
            if line.startswith(b'{"re":'):
                answer: Message = json.loads(line)
                assert message["n"] == answer["re"]
                return answer
            self.events.append(json.loads(line))

    def close(self) -> None:
        """Hear what else is said until the other side goes, if it does, and hang up."""
        self._lines.close()
        self._sock.close()

    def hear_out(self) -> None:
        """Return when the other side has hung up."""
        while line := self._lines.readline():
            self.events.append(json.loads(line))


def faults(request: Message, then: Message, now: Message) -> list[str]:
    """Tell what an old client misses in the answer to its request."""
    if then.get("error") != now.get("error"):
        return [f"{request['op']}: the error was {then.get('error')}, and is {now.get('error')} ({now.get('message')})"]
    if request["op"] == "describe" and not now.get("apps", True):
        return []  # it has ended in the meantime: the client looks at the disk
    return [f"{request['op']}: {fault}" for fault in lost(then, now)]


class OldSupervisor:
    """An old supervisor of one detached app: answers as it did, and knows nothing newer.

    Args:
        release: Whose it is.
        record: The app's record.
        ended: That record after the app's end.
    """

    def __init__(self, release: str, home: Path, record: Path, ended: Message) -> None:
        said = transcript(release, "visitor", home)
        others = transcript(release, "others", home)
        self._said = {
            request["op"]: answer
            for lines in (others, said)
            for request, answer in pairs(lines)
            if request["op"] != "hello"
        }
        self._hello = next(answer for request, answer in pairs(said) if request["op"] == "hello")
        self._event = next(line["supervisor"] for line in said if "event" in line.get("supervisor", ()))
        self._record, self._ended = record, ended
        self._state: Message = json.loads(record.read_text())
        self.heard: list[Message] = []
        self._server = socket.socket(socket.AF_UNIX)
        self._clients: list[socket.socket] = []
        self._watching: list[socket.socket] = []

    def serve(self, path: Path) -> None:
        """Answer all who come, in threads, until the app is over."""
        self._server.bind(str(path))
        self._server.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            self._clients.append(client)
            threading.Thread(target=self._talk, args=[client], daemon=True).start()

    def _talk(self, client: socket.socket) -> None:
        for line in _lines_of(client):
            request: Message = json.loads(line)
            self.heard.append(request)
            self._send(client, {**self._answer(request), "re": request["n"]})
            if request["op"] == "watch":
                self._watching.append(client)
            if request["op"] in ("cancel", "kill"):
                self._end()

    def _answer(self, request: Message) -> Message:
        if request["op"] == "hello" and request.get("protocol") == self._hello["protocol"]:
            return {"re": 0, **self._hello}
        if request["op"] == "hello":
            return {"re": 0, "error": "protocol", "message": "the supervisor speaks protocol 1"}
        if request["op"] == "describe":
            return {"re": 0, "apps": [self._state] if self._state["app_id"] in request["app_ids"] else []}
        return {"re": 0, **self._said.get(request["op"], {"error": "unknown", "message": "unknown operation"})}

    def _end(self) -> None:
        new = self._record.with_name("new")
        new.write_text(json.dumps(self._ended))
        new.rename(self._record)
        for client in self._watching:
            self._send(client, {**self._event, "app_id": self._ended["app_id"]})
        self.close()

    @staticmethod
    def _send(client: socket.socket, message: Message) -> None:
        try:
            client.sendall(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        except OSError:
            pass  # it has left

    def close(self) -> None:
        """Hang up on everybody."""
        for sock in (self._server, *self._clients):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it has hung up first
        self._server.close()  # a client's socket is closed by the thread that reads it


def _lines_of(client: socket.socket) -> Iterator[bytes]:
    """Yield what a client sends until it hangs up, and close its socket."""
    with client, client.makefile("rb") as lines:
        try:
            yield from lines
        except OSError:
            pass  # it has hung up before it had read everything


def pairs(lines: list[Message]) -> list[tuple[Message, Message]]:
    """Return each request with its answer, in the order of the requests."""
    answers = {
        (line["talk"], line["supervisor"]["re"]): line["supervisor"]
        for line in lines
        if "re" in line.get("supervisor", ())
    }
    return [
        (line["client"], answers[line["talk"], line["client"]["n"]])
        for line in lines
        if "client" in line and (line["talk"], line["client"]["n"]) in answers
    ]
