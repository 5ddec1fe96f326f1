"""A page's event stream: changes of apps and lines of the selected logs; it can resume after a broken connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from asyncsched.specs.to_plain import JsonValue
from asyncsched.web.hub import Hub, Message, OpenPage
from asyncsched.web.wire import encoded

__all__ = ["StreamPlace", "is_at_end", "stream"]

ROWS = 250
"""The most apps in one message."""
BYTES = 128 * 1024
"""The most bytes of lines in one message."""
HEARTBEAT = 15.0
"""Seconds after which a quiet stream sends a comment, so that a broken connection is noticed."""
RETRY = b"retry: 500\n\n"


@dataclass(slots=True)
class StreamPlace:
    """How far a page has read: the `id` of each event.

    Attributes:
        hub: The server's name; the numbers of another server mean nothing.
        serial: The last change of an app.
        begun: The number up to which it needs no removals of apps.
        tail: The log that the page shows.
        number: The last line of that log.
    """

    hub: str
    serial: int = 0
    begun: int = 0
    tail: str = ""
    number: int = 0

    @classmethod
    def read(cls, text: str, hub: str) -> StreamPlace:
        """Read a place from an id; return the beginning if the id comes from another server."""
        parts = text[:200].split(".")
        if len(parts) != 5 or parts[0] != hub or not all(part.isdecimal() for part in (*parts[1:3], parts[4])):
            return cls(hub)
        return cls(hub, int(parts[1]), int(parts[2]), parts[3], int(parts[4]))

    def __str__(self) -> str:
        return f"{self.hub}.{self.serial}.{self.begun}.{self.tail}.{self.number}"


def settle(page: OpenPage, place: StreamPlace) -> bool:
    """Let a page resume its log where it was; return whether it must start the log anew."""
    tail = page.tail
    if tail is None:
        place.tail, place.number = "", 0
        return True
    goes_on = place.tail == tail.name and tail.has(place.number)
    if not goes_on:
        place.tail, place.number = tail.name, 0
    page.reader = tail.join(place.number)
    return not goes_on


def is_at_end(hub: Hub, page: OpenPage, place: StreamPlace) -> bool:
    """Return whether everything has been sent, and nothing more will come."""
    if not hub.over or place.serial != hub.board.serial:
        return False
    tail = page.tail
    return tail is None or (tail.ended and place.number >= tail.number)


async def stream(
    hub: Hub, page: OpenPage, place: StreamPlace, write: Callable[[bytes], Awaitable[None]], *, anew: bool
) -> None:
    """Send everything that a page does not have yet, until nothing more will come.

    Args:
        hub: The content.
        page: The page, which has joined.
        place: How far the page has read.
        write: Sends a message, and returns when there is room for another.
        anew: Whether the log starts anew.

    Raises:
        TimeoutError: The page does not read.
    """
    limit = hub.limits.stall
    head: dict[str, JsonValue] = {
        "anew": anew,
        "apps_anew": place.serial == 0,
        "log": page.tail is not None,
        "most": hub.limits.selected,
    }
    await _send(write, RETRY + _event("log", encoded(head), place), limit)
    while True:
        message, is_full = _next(hub, page, place)
        if message:
            await _send(write, message, limit)
            if page.tail is not None and page.reader is not None:
                page.reader.number = place.number
                page.tail.advanced()
            if not is_full:
                await asyncio.sleep(_until_next(hub.limits.pace))
        elif is_at_end(hub, page, place):
            await _send(write, _event("end", b"{}", place), limit)
            return
        else:
            try:
                async with asyncio.timeout(HEARTBEAT):
                    await hub.changed()
            except TimeoutError:
                await _send(write, b": quiet\n\n", limit)


def _until_next(pace: float) -> float:
    """Return the seconds until all pages continue: together, because those at the same place get the same message."""
    return pace - asyncio.get_running_loop().time() % pace if pace else 0.0


async def _send(write: Callable[[bytes], Awaitable[None]], message: bytes, limit: float) -> None:
    async with asyncio.timeout(limit):
        await write(message)


def _next(hub: Hub, page: OpenPage, place: StreamPlace) -> tuple[bytes, bool]:
    """Return the next message, and whether more is waiting."""
    # What it is made of, and nothing else: other pages are often at the same place.
    present = place.serial, place.begun, place.tail, place.number, hub.board.serial, page.tail and page.tail.number
    latest = hub.latest
    if page.notes == hub.notes and latest is not None and latest.made_from == present:
        place.serial, place.begun, place.number = latest.serial, latest.begun, latest.number
        return latest.data, latest.is_full
    is_shared = page.notes == hub.notes
    message = b""
    changes = hub.board.since(place.serial, ROWS, place.begun)
    if changes.rows or changes.serial != place.serial:
        place.serial, place.begun = changes.serial, changes.begun
        fields = [b'"anew":' + encoded(changes.anew), b'"apps":[' + b",".join(changes.rows) + b"]"]
        message += _event("apps", b"{" + b",".join([*fields, b'"all":' + hub.board.overview()]) + b"}", place)
    if page.notes != hub.notes:
        page.notes = hub.notes
        message += _event("notes", encoded([*hub.notes]), place)
    is_full = changes.serial != hub.board.serial
    if page.tail is not None:
        found = page.tail.after(place.number, BYTES)
        if found.size:
            place.number = found.number
            data = b'{"missed":%d,"from":%d,"lines":[' % (found.missed, found.number - found.size)
            message += _event("lines", data + found.lines + b"]}", place)
        is_full = is_full or place.number < page.tail.number
    if is_shared:
        hub.latest = Message(present, message, place.serial, place.begun, place.number, is_full)
    return message, is_full


def _event(kind: str, data: bytes, place: StreamPlace) -> bytes:
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (str(place).encode(), kind.encode(), data)
