"""Exchange JSON lines with the owner and with other processes of the same user."""

from __future__ import annotations

import os
import select
import struct

from . import TYPE_CHECKING
from .bare import accept, loads, socket
from .formats import LONGEST_MESSAGE, PROTOCOL
from .lines import Lines, encode

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from .events import Loop

    Message: TypeAlias = dict[str, Any]

LONGEST_BACKLOG = 64 << 20
LONG_BACKLOG = 1 << 20
ACCEPT_AGAIN = 0.25
REFUSE_WITHIN = 10.0
PEERCRED = struct.Struct("3i")


class ControlConnection:
    """A connection to one process.

    Args:
        loop: The worker's loop.
        sock: A stream socket.
        on_message: Called with each message, and with this connection.
        on_close: Called once, when the connection has ended.
    """

    def __init__(
        self,
        loop: Loop,
        sock: socket.socket,
        on_message: Callable[[ControlConnection, Message], None],
        on_close: Callable[[ControlConnection], None],
    ) -> None:
        self._loop = loop
        self._sock = sock
        self._on_message = on_message
        self._on_close = on_close
        self._incoming = Lines()
        self._outgoing = bytearray()
        self._open = True
        self.watched: set[str] = set()
        sock.setblocking(False)
        loop.add(sock.fileno(), self._ready)

    def _ready(self, mask: int) -> int:
        if mask & select.EPOLLOUT:
            self._flush()
        if mask & ~select.EPOLLOUT and self._open:
            self._receive()
        return 0

    def _receive(self) -> None:
        try:
            data = self._sock.recv(1 << 20)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        for line in self._incoming.cut(data):
            self._take(line)
            if not self._open:
                return
        if len(self._incoming) > LONGEST_MESSAGE:
            self.close()

    def _take(self, line: bytes) -> None:
        try:
            message: Message | list[object] | None = loads(line)
        except (ValueError, RecursionError):
            message = None
        if isinstance(message, dict):
            self._on_message(self, message)
        else:
            self.close()

    def send(self, message: Message) -> None:
        """Send a message of any length, buffering it if needed; a peer that never reads is disconnected."""
        self.send_line(encode(message))

    def send_line(self, line: bytes) -> None:
        """Send an encoded message, including its newline."""
        if not self._open:
            return
        if len(self._outgoing) > LONGEST_BACKLOG:
            self.close()
            return
        self._outgoing += line
        self._flush()

    @property
    def is_behind(self) -> bool:
        """Whether the peer has not read everything yet."""
        return len(self._outgoing) > LONG_BACKLOG

    def _flush(self) -> None:
        try:
            while self._outgoing:
                del self._outgoing[: self._sock.send(self._outgoing[: 1 << 18])]
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        wanted = select.EPOLLIN | (select.EPOLLOUT if self._outgoing else 0)
        self._loop.modify(self._sock.fileno(), wanted)

    def close(self) -> None:
        """Close the connection and call `on_close`."""
        if self._open:
            self._open = False
            self._loop.remove(self._sock.fileno())
            self._sock.close()
            self._on_close(self)


class Listener:
    """The socket in the state directory, to which other processes of the same user connect.

    Args:
        loop: The worker's loop.
        at: The descriptor of the socket's directory.
        name: The socket's name.
        admit: Called with each accepted socket.
    """

    def __init__(self, loop: Loop, *, at: int, name: str, admit: Callable[[socket.socket], object]) -> None:
        self._loop = loop
        self._at = at
        self._name = name
        self._admit = admit
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._sock.setblocking(False)
        # A socket's address has at most 107 bytes; this form is short for any state directory.
        mask = os.umask(0o177)
        try:
            self._sock.bind(f"/proc/self/fd/{at}/{name}")
        finally:
            os.umask(mask)
        self._sock.listen(128)
        self._open()

    def _open(self) -> None:
        if self._sock.fileno() >= 0:
            self._loop.add(self._sock.fileno(), self._accept)

    def _accept(self, _mask: int) -> int:
        try:
            sock = accept(self._sock)
        except BlockingIOError:
            return 0
        except OSError:
            # Probably out of descriptors: waiting peers are accepted later.
            self._loop.remove(self._sock.fileno())
            self._loop.call_later(ACCEPT_AGAIN, self._open)
            return 0
        _, user, _ = PEERCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEERCRED.size))
        if user == os.geteuid():
            self._admit(sock)
        else:
            sock.close()
        return 0

    def close(self) -> None:
        """Accept no more connections."""
        self._loop.remove(self._sock.fileno())
        self._sock.close()
        try:
            os.unlink(self._name, dir_fd=self._at)
        except OSError:
            pass  # the state directory may have been removed


def answer_hello(message: Message, **more: object) -> Message:
    """Return the answer to a greeting: this supervisor's protocol, or an error for another one."""
    spoken = message.get("protocol")
    if spoken != PROTOCOL:
        return {"error": "protocol", "message": f"the supervisor uses protocol {PROTOCOL}, not {spoken}"}
    return {"protocol": PROTOCOL, **more}


def refuse(sock: socket.socket, why: str, errno: int) -> None:
    """Answer the owner's greeting with the reason why the supervisor cannot start."""
    sock.settimeout(REFUSE_WITHIN)
    greeting = b""
    while not greeting.endswith(b"\n") and (more := sock.recv(4096)):
        greeting += more
    if greeting:
        answer = {"re": loads(greeting).get("n"), "error": "refused", "message": why, "errno": errno}
        sock.sendall(encode(answer))
