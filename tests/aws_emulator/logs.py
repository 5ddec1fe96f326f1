"""The operations of CloudWatch Logs that read."""

from __future__ import annotations

from tests.aws_emulator.errors import ApiError
from tests.aws_emulator.events import LogEvents
from tests.aws_emulator.model import Json


class Logs:
    """Each operation is a method of the same name in lower case: request in, answer out."""

    def __init__(self, events: LogEvents) -> None:
        self._events = events

    def getlogevents(self, request: Json) -> Json:
        return self._events.page(request)

    def filterlogevents(self, request: Json) -> Json:
        return self._events.search(request)

    def describelogstreams(self, request: Json) -> Json:
        group = self._events.groups.get(request["logGroupName"])
        if group is None:
            raise ApiError("ResourceNotFoundException", "The specified log group does not exist.")
        prefix = request.get("logStreamNamePrefix", "")
        names = sorted(name for name in group if name.startswith(prefix))
        start = int(request.get("nextToken", 0))
        end = start + min(request.get("limit", 50), 50)
        answer: Json = {"logStreams": [{"logStreamName": name} for name in names[start:end]]}
        if end < len(names):
            answer["nextToken"] = str(end)
        return answer

    def deletelogstream(self, request: Json) -> Json:
        self._events.stream(request["logGroupName"], request["logStreamName"])
        self._events.delete(request["logGroupName"], request["logStreamName"])
        return {}
