"""What goes over the wire: Google's JSON, its times, its errors."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from google.protobuf import json_format

STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    429: "RESOURCE_EXHAUSTED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
}
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:?\d\d|)")


class Refusal(Exception):  # noqa: N818 - it is an answer
    """An error as Google answers it."""

    def __init__(self, code: int, message: str, details: Sequence[dict[str, Any]] = ()) -> None:
        super().__init__(message)
        self.code, self.message, self.details = code, message, list(details)

    @property
    def body(self) -> dict[str, Any]:
        status = STATUSES.get(self.code, "UNKNOWN")
        return {
            "error": {"code": self.code, "message": self.message, "status": status, "details": self.details},
        }


def write_time(ns: int) -> str:
    return f"{datetime.fromtimestamp(ns // 10**9, UTC):%Y-%m-%dT%H:%M:%S}.{ns % 10**9:09d}Z"


def read_time(text: str) -> int:
    """Read RFC 3339, and the ways without a colon or an offset that Google's own clients send."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise Refusal(400, f"Unparseable filter: bad timestamp {text!r}")
    when = datetime.fromisoformat(found[1] + ("+00:00" if found[3] in ("Z", "") else found[3]))
    return int(when.timestamp()) * 10**9 + int((found[2] or "0").ljust(9, "0"))


def parse(message: Any, body: bytes | dict[str, Any], *, canonical: bool = True, ints: bool = False) -> Any:
    """Parse a request into one of Google's messages.

    Raises:
        Refusal: It is not one, or not written as Google's own JSON.
    """
    try:
        sent = json.loads(body or b"{}") if isinstance(body, bytes) else body
        parsed = json_format.ParseDict(sent, message, ignore_unknown_fields=False)
    except (json.JSONDecodeError, json_format.ParseError) as error:
        raise Refusal(400, f"Invalid JSON payload received. {error}") from error
    written = to_dict(parsed, ints=ints)
    if canonical and sent != written:
        raise Refusal(400, f"Not as Google's own JSON: sent {sent!r}, written {written!r}")
    return parsed


def to_dict(message: Any, *, ints: bool = False) -> dict[str, Any]:
    return json_format.MessageToDict(message, use_integers_for_enums=ints)
