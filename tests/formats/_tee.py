"""Stands in for the interpreter that starts a supervisor, and listens to what it and its owner say.

The library starts ``PYTHON -I -S BOOT SOCK PIDFD HOME OWNER OWNER_START DETACHED``; with this script as ``PYTHON`` the
supervisor gets one end of another socket pair, and a process in between writes down every line, who said it, and the
form of the arguments.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
from pathlib import Path
from typing import IO, Any


def pass_on(owner: socket.socket, supervisor: socket.socket, transcript: IO[str]) -> None:
    """Hand on what either side says, and write it down, until one of them hangs up."""
    sides = {owner: ("client", supervisor), supervisor: ("supervisor", owner)}
    talk = f"{os.getpid()} {id(owner)}"
    pending = {owner: b"", supervisor: b""}
    while True:
        for sock in select.select([*sides], (), ())[0]:
            name, other = sides[sock]
            try:
                data = sock.recv(1 << 20)
            except OSError:
                data = b""
            if not data:
                return
            *lines, pending[sock] = (pending[sock] + data).split(b"\n")
            for line in lines:
                message: dict[str, Any] = json.loads(line)
                transcript.write(json.dumps({"talk": talk, name: message}) + "\n")
                transcript.flush()
            other.sendall(data)


def main() -> None:
    *before, boot, sock, pidfd, home, owner, start, detached = sys.argv[1:]
    ours, theirs = socket.socketpair()
    transcript = Path(os.environ["FORMATS_TRANSCRIPT"]).open("a")  # noqa: SIM115 - as long as it listens
    form = [Path(boot).name, "SOCK", "PIDFD", "HOME", "OWNER", "OWNER_START", detached]
    transcript.write(json.dumps({"talk": "", "argv": [*before, *form]}) + "\n")
    transcript.flush()
    if not os.fork():
        os.setsid()
        theirs.close()
        pass_on(socket.socket(fileno=int(sock)), ours, transcript)
        os._exit(0)
    ours.close()
    theirs.set_inheritable(True)
    os.close(int(sock))
    python = os.environ["FORMATS_PYTHON"]
    os.execv(python, [python, *before, boot, str(theirs.fileno()), pidfd, home, owner, start, detached])


if __name__ == "__main__":
    main()
