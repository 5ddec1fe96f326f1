"""Exchange JSON lines with a supervisor."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Callable
from typing import Any, cast

from asyncsched._typing import override
from asyncsched.errors import InvalidRequestError
from asyncsched.schedulers.local.errors import SupervisorGoneError, translate
from asyncsched.schedulers.local.status_record import BACKEND
from asyncsched.schedulers.local.supervisor.formats import LONGEST_MESSAGE, PROTOCOL
from asyncsched.schedulers.local.supervisor.lines import Lines, encode

__all__ = ["OnChange", "SupervisorConnection", "connect"]

_REPLY = re.compile(rb'\{"re":(\d+)[,}]')
_EVENT = re.compile(rb'\{"event":"app","app_id":"([^"\\]*)"')
LONG = 64 * 1024
"""Bytes from which a message is parsed in a thread, so that it does not hold the loop."""

OnChange = Callable[[str, bytes], None]


class SupervisorConnection(asyncio.Protocol):
    """Calls to a supervisor, and its reports of changed apps.

    Args:
        on_change: Called with the id of a watched app that has changed, and with the supervisor's message.
        on_lost: Called once, when the connection is lost.
    """

    def __init__(self, on_change: OnChange, on_lost: Callable[[], None]) -> None:
        self._on_change = on_change
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._incoming = Lines()
        self._number = 0
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def is_open(self) -> bool:
        """Whether the connection is open."""
        return self._transport is not None and not self._lost.done()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    @override
    def data_received(self, data: bytes) -> None:
        for line in self._incoming.cut(data):
            self._take(line)

    def _take(self, line: bytes) -> None:
        reply = _REPLY.match(line)
        if reply is None:
            event = _EVENT.match(line)
            self._on_change(event[1].decode() if event else str(json.loads(line).get("app_id", "")), line)
            return
        future = self._waiting.pop(int(reply[1]), None)
        if future is not None and not future.done():
            future.set_result(line)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if not self._lost.done():
            self._lost.set_result(None)
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(_gone())
        self._waiting.clear()
        self._on_lost()

    async def call(self, operation: str, **more: object) -> dict[str, Any]:
        """Send a request and return the answer.

        Raises:
            SupervisorGoneError: The supervisor is gone.
            InvalidRequestError: The request is longer than a supervisor accepts.
        """
        if self._transport is None or not self.is_open:
            raise _gone()
        self._number += 1
        number = self._number
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            wanted = {"op": operation, "n": number, **more}
            message = await asyncio.to_thread(encode, wanted) if operation == "submit" else encode(wanted)
            if len(message) > LONGEST_MESSAGE:
                raise _too_long(operation, len(message))
            self._transport.write(message)
            line = await answer
        finally:
            self._waiting.pop(number, None)
        told = json.loads(line) if len(line) < LONG else await asyncio.to_thread(json.loads, line)
        return cast("dict[str, Any]", told)

    async def ask(self, operation: str, **more: object) -> dict[str, Any]:
        """Do what `call` does, for requests that a supervisor does not refuse.

        Raises:
            SupervisorGoneError: The supervisor is gone.
            SchedulerError: It refuses; one of another release may not know the request.
        """
        answer = await self.call(operation, **more)
        if "error" in answer:
            raise translate(answer, operation)
        return answer

    async def greet(self) -> dict[str, Any]:
        """Agree on the protocol; raise if the supervisor uses another one, or cannot work."""
        answer = await self.call("hello", protocol=PROTOCOL)
        if "error" in answer:
            raise translate(answer, "hello")
        return answer

    async def lost(self) -> None:
        """Wait until the connection is lost."""
        await asyncio.shield(self._lost)

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()


def _gone() -> SupervisorGoneError:
    return SupervisorGoneError(
        "the supervisor of local apps is gone", why="it has ended or was killed", backend=BACKEND
    )


def _too_long(operation: str, size: int) -> InvalidRequestError:
    return InvalidRequestError(
        "the request is too long for the supervisor of local apps",
        why=f"it has {size >> 20} MiB, and at most {LONGEST_MESSAGE >> 20} MiB are accepted",
        fix="pass large values in files, not in arguments and variables of many replicas",
        backend=BACKEND,
        operation=operation,
    )


async def connect(sock: socket.socket, on_change: OnChange, on_lost: Callable[[], None]) -> SupervisorConnection:
    """Return a connection over a connected socket, which this takes over."""
    loop = asyncio.get_running_loop()
    try:
        _, connection = await loop.create_unix_connection(lambda: SupervisorConnection(on_change, on_lost), sock=sock)
    except BaseException:
        sock.close()
        raise
    return connection
