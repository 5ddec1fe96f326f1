"""What those who watch are told with an app's change."""

from __future__ import annotations

import json
import socket
from typing import Any, cast

import pytest

from asyncsched.schedulers.local.supervisor.app import App
from asyncsched.schedulers.local.supervisor.control import LONG_BACKLOG, ControlConnection
from asyncsched.schedulers.local.supervisor.events import Loop
from asyncsched.schedulers.local.supervisor.formats import TOLD_BYTES, TOLD_REPLICAS
from asyncsched.schedulers.local.supervisor.persistence import Persistence
from tests._support import WITHIN


class Changing:
    """An app that changes and never ends."""

    app_id = 'an "app"'
    is_over = False

    def __init__(self, replicas: int, size: int) -> None:
        self.replicas = [None] * replicas
        self._record = json.dumps({"x": "y" * (size - len('{"x": ""}'))}).encode()

    def save(self) -> None:
        pass

    def encoded(self) -> bytes:
        return self._record


def heard_of(app: Changing, *, backlog: int = 0) -> dict[str, Any]:
    """Return the message that somebody gets who has not read so much before."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(WITHIN)
    loop = Loop()
    connection = ControlConnection(loop, ours, lambda *_: None, lambda _: None)
    connection.watched.add(app.app_id)
    if backlog:
        connection.send_line(b"x" * backlog + b"\n")
    news = Persistence(loop, [connection], lambda _: None, lambda _: None)
    news.app_changed(cast("App", app))
    news.publish()
    with theirs, theirs.makefile("rb") as lines:
        if backlog:
            _drain(theirs, connection, backlog + 1)
        message: dict[str, Any] = json.loads(lines.readline())
    connection.close()
    return message


def _drain(sock: socket.socket, connection: ControlConnection, size: int) -> None:
    while size:
        size -= len(sock.recv(min(size, 1 << 16)))
        connection.send_line(b"")  # what waits goes on


@pytest.mark.parametrize(
    ("replicas", "size", "whole"),
    [
        (1, 100, True),
        (TOLD_REPLICAS, TOLD_BYTES, True),
        (TOLD_REPLICAS + 1, 100, False),
        (1, TOLD_BYTES + 1, False),
    ],
)
def test_a_small_record_comes_with_the_change(replicas: int, size: int, whole: bool) -> None:
    app = Changing(replicas, size)
    expected = {"event": "app", "app_id": app.app_id} | ({"app": json.loads(app.encoded())} if whole else {})

    assert expected == heard_of(app)


@pytest.mark.parametrize(("backlog", "whole"), [(1000, True), (2 * LONG_BACKLOG, False)])
def test_one_who_does_not_read_is_told_the_id_alone(backlog: int, whole: bool) -> None:
    assert whole == ("app" in heard_of(Changing(1, 100), backlog=backlog))
