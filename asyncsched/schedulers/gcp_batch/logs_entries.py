"""Query entries of Cloud Logging, and convert them to lines, without I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, cast

from asyncsched.logs.line import LogOrigin, label
from asyncsched.logs.rfc3339 import StampReader
from asyncsched.logs.shared_query import HubEvent

__all__ = ["MAX_UIDS", "EntryReader", "query_of"]

MAX_UIDS = 250
"""Most jobs in one query: an id has up to 63 characters, and a filter up to 20,000."""

PAGE = 1000
"""Entries per answer, the most that Google returns."""

_TASK = re.compile(r"(?:^|/)(?P<uid>[^/]+)-group\d+-(?P<index>\d+)(?:/(?P<attempt>\d+))?")
_SECOND = 1_000_000_000


def query_of(
    project: str,
    uids: Iterable[str],
    *,
    since_ns: int,
    until_ns: int | None = None,
    replica: int | None = None,
) -> dict[str, Any]:
    """Return the body of ``entries.list``.

    Args:
        project: The project of the jobs.
        uids: Google's ids of the jobs.
        since_ns: Select entries that arrived at or after this time.
        until_ns: Select entries that arrived before this time.
        replica: Select entries of this replica only.
    """
    terms = [
        f'logName="projects/{project}/logs/batch_task_logs"',
        f"labels.job_uid=({' OR '.join(json.dumps(uid) for uid in uids)})",
        f'receiveTimestamp>="{_written(since_ns)}"',
    ]
    if until_ns is not None:
        terms.append(f'receiveTimestamp<"{_written(until_ns)}"')
    if replica is not None:
        # Not ":", which matches substrings: replica 1 would match replica 10.
        terms.append(f'labels.task_id=~"-group[0-9]+-{replica}(/|$)"')
    return {
        "resourceNames": [f"projects/{project}"],
        "filter": " AND ".join(terms),
        "orderBy": "timestamp asc",
        "pageSize": PAGE,
    }


def _written(ns: int) -> str:
    seconds, rest = divmod(max(ns, 0), _SECOND)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


class EntryReader:
    """Converts entries of known jobs to lines.

    Attributes:
        jobs: The app and the role of each job, by Google's id.
    """

    def __init__(self) -> None:
        self.jobs: dict[str, tuple[str, str]] = {}
        self._origins: dict[tuple[str, int, int | None], LogOrigin] = {}
        self._stamps, self._arrivals = StampReader(), StampReader()

    def forget(self, uid: str) -> None:
        """Forget a job that no longer has readers."""
        self.jobs.pop(uid, None)
        self._origins = {key: origin for key, origin in self._origins.items() if key[0] != uid}

    def read(self, entries: Iterable[Mapping[str, Any]]) -> list[HubEvent]:
        """Return the lines of these entries; entries of other jobs, or without a time, are skipped."""
        events: list[HubEvent] = []
        for entry in entries:
            uid = str(_labels(entry).get("job_uid", ""))
            if uid in self.jobs:
                events += self._lines(uid, entry)
        return events

    def _lines(self, uid: str, entry: Mapping[str, Any]) -> list[HubEvent]:
        """Return an entry's lines; an entry with line breaks has several."""
        try:
            ns = self._stamps.ns(entry["timestamp"])
            arrived = self._arrivals.ns(entry.get("receiveTimestamp") or entry["timestamp"])
        except (KeyError, ValueError, TypeError):
            return []
        texts = [f"{text}\n" for text in _text(entry).removesuffix("\n").split("\n")]
        head = f"{ns}/{entry.get('insertId', '')}"
        lines = label(texts, self._origin(uid, entry), ns)
        return [HubEvent(uid, f"{head}/{number}", line, arrived) for number, line in enumerate(lines)]

    def _origin(self, uid: str, entry: Mapping[str, Any]) -> LogOrigin:
        found = _TASK.search(str(_labels(entry).get("task_id", "")))
        index = int(found["index"]) if found is not None else 0
        attempt = int(found["attempt"]) if found is not None and found["attempt"] is not None else None
        key = (uid, index, attempt)
        if key not in self._origins:
            app_id, role = self.jobs[uid]
            self._origins[key] = LogOrigin(app_id=app_id, role=role, replica=index, attempt=attempt)
        return self._origins[key]


def _labels(entry: Mapping[str, Any]) -> Mapping[str, object]:
    return cast("Mapping[str, object]", entry.get("labels") or {})


def _text(entry: Mapping[str, Any]) -> str:
    """Return the text of an entry; Google converts a line that is a JSON object to an object."""
    if isinstance(text := entry.get("textPayload"), str):
        return text
    payload = entry.get("jsonPayload")
    if not isinstance(payload, dict):
        return ""
    message = cast("dict[str, object]", payload).get("message")
    return message if isinstance(message, str) else json.dumps(payload, separators=(",", ":"), ensure_ascii=False)
