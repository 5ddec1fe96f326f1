"""CloudWatch's streams: events in order of time, pages, and tokens that say where a page ended."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import merge

from tests.aws_emulator.errors import ApiError
from tests.aws_emulator.model import Json

MAX_EVENTS = 10_000
MAX_BYTES = 1 << 20
PER_EVENT = 26
_TOKEN = re.compile(r"([fb])/(\d{8})(\d{16})(\d{31})(\d)/s")


@dataclass(order=True, frozen=True)
class LogEvent:
    """One line: its own time, and its place in the order of arrival, which settles ties."""

    timestamp: int
    order: int
    stream: str = field(compare=False)
    message: str = field(compare=False)
    ingested: int = field(compare=False)

    @property
    def id(self) -> str:
        return f"{self.timestamp:020d}{self.order:036d}"

    @property
    def size(self) -> int:
        return len(self.message.encode()) + PER_EVENT


class LogEvents:
    """All groups, with the services' own page sizes and the knobs that tests turn."""

    def __init__(self) -> None:
        self.groups: dict[str, dict[str, list[LogEvent]]] = {"/aws/batch/job": {}}
        #: Give an empty page with a new token before each page that holds something.
        self.sparse = False
        #: Refuse every token that has been given out so far.
        self._generation = 0
        self._count = 0

    def expire_tokens(self) -> None:
        self._generation += 1

    def put(self, group: str, stream: str, timestamp: int, message: str, ingested: int) -> None:
        """Let an event appear; the first one makes its stream."""
        self._count += 1
        events = self.groups.setdefault(group, {}).setdefault(stream, [])
        bisect.insort(events, LogEvent(timestamp, self._count, stream, message, ingested))

    def create(self, group: str, stream: str) -> None:
        self.groups.setdefault(group, {}).setdefault(stream, [])

    def delete(self, group: str, stream: str) -> None:
        self.groups[group].pop(stream, None)

    def stream(self, group: str, name: str) -> list[LogEvent]:
        try:
            return self.groups[group][name]
        except KeyError:
            what = "log stream" if group in self.groups else "log group"
            raise ApiError("ResourceNotFoundException", f"The specified {what} does not exist.") from None

    def page(self, query: Json) -> Json:
        """Answer GetLogEvents: `endTime` is exclusive, and at the end the token comes back unchanged."""
        events = self.stream(query["logGroupName"], query["logStreamName"])
        token, head = query.get("nextToken"), query.get("startFromHead", False)
        place = self._place(token)
        if place and place.forward and not head:
            raise ApiError("InvalidParameterException", "startFromHead must be true with a forward token.")
        since, until = query.get("startTime", 0), query.get("endTime")
        rows = [event for event in events if event.timestamp >= since and (until is None or event.timestamp < until)]
        forward = place.forward if place else head
        rows = [event for event in rows if place is None or place.before(event)]
        hop = place.hop if place else 0
        if self.sparse and rows and not hop % 2:
            at = place.at if place else (0, 0)
            ahead, back = self._token(forward, at, hop + 1), self._token(not forward, at, hop + 1)
            return self._answer([], *((ahead, back) if forward else (back, ahead)))
        chosen = _fill(rows if forward else reversed(rows), query.get("limit", MAX_EVENTS))
        if not chosen:
            here = place.at if place else (0, 0)
            same = token or self._token(forward, here, 0)
            other = self._token(not forward, here, 0)
            return self._answer([], *((same, other) if forward else (other, same)))
        ends = [(event.timestamp, event.order) for event in (chosen[-1], chosen[0])]
        if not forward:
            chosen.reverse()
            ends.reverse()
        return self._answer(chosen, self._token(True, ends[0], 0), self._token(False, ends[1], 0))

    def search(self, query: Json) -> Json:
        """Answer FilterLogEvents: merged by time, `endTime` inclusive, no token at the end."""
        group = query["logGroupName"]
        if group not in self.groups:
            raise ApiError("ResourceNotFoundException", "The specified log group does not exist.")
        names, prefix = query.get("logStreamNames"), query.get("logStreamNamePrefix")
        if names and prefix:
            raise ApiError("InvalidParameterException", "logStreamNames and logStreamNamePrefix exclude each other.")
        wanted = (
            [self.stream(group, name) for name in names]
            if names
            else [rows for name, rows in self.groups[group].items() if name.startswith(prefix or "")]
        )
        place = self._place(query.get("nextToken"))
        since, until = query.get("startTime", 0), query.get("endTime")
        rows = (
            event
            for event in merge(*wanted)
            if event.timestamp >= since
            and (until is None or event.timestamp <= until)
            and (place is None or place.before(event))
        )
        if self.sparse and not (place and place.hop % 2):
            return {"events": [], "nextToken": self._token(True, place.at if place else (0, 0), 1)}
        chosen = _fill(rows, query.get("limit", MAX_EVENTS))
        answer: Json = {
            "events": [
                {
                    "logStreamName": event.stream,
                    "timestamp": event.timestamp,
                    "message": event.message,
                    "ingestionTime": event.ingested,
                    "eventId": event.id,
                }
                for event in chosen
            ],
            "searchedLogStreams": [],
        }
        if chosen and next(rows, None) is not None:
            answer["nextToken"] = self._token(True, (chosen[-1].timestamp, chosen[-1].order), 0)
        return answer

    def _token(self, forward: bool, at: tuple[int, int], hop: int) -> str:
        return f"{'f' if forward else 'b'}/{self._generation:08d}{at[0]:016d}{at[1]:031d}{hop % 10}/s"

    def _place(self, token: str | None) -> _Place | None:
        if token is None:
            return None
        found = _TOKEN.fullmatch(token)
        if not found:
            raise ApiError("InvalidParameterException", "The specified nextToken is invalid.")
        if int(found[2]) != self._generation:
            raise ApiError("InvalidParameterException", "The specified nextToken is expired.")
        return _Place(found[1] == "f", (int(found[3]), int(found[4])), int(found[5]))

    @staticmethod
    def _answer(events: Iterable[LogEvent], forward: str, backward: str) -> Json:
        return {
            "events": [
                {"timestamp": event.timestamp, "message": event.message, "ingestionTime": event.ingested}
                for event in events
            ],
            "nextForwardToken": forward,
            "nextBackwardToken": backward,
        }


@dataclass(frozen=True)
class _Place:
    """Where a page ended."""

    forward: bool
    at: tuple[int, int]
    hop: int

    def before(self, event: LogEvent) -> bool:
        """Whether `event` lies ahead, in the token's direction."""
        here = (event.timestamp, event.order)
        return here > self.at if self.forward else here < self.at


def _fill(rows: Iterable[LogEvent], limit: int) -> list[LogEvent]:
    """As many events as a page takes: `limit` of them, or 1 MB."""
    chosen: list[LogEvent] = []
    room = MAX_BYTES
    for event in rows:
        room -= event.size
        if room < 0 or (chosen and len(chosen) == limit):
            # Nothing that was looked at may get lost: the caller only asks whether there is more.
            return chosen
        chosen.append(event)
        if len(chosen) == limit:
            return chosen
    return chosen
