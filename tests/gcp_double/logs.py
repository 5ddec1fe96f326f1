"""The log store: entries turn up late and out of order, reads have a quota."""

from __future__ import annotations

import base64
import bisect
import json
import random
from collections import deque
from collections.abc import Callable
from typing import Any

from google.cloud.logging_v2.types import ListLogEntriesRequest, ListLogEntriesResponse

from tests.gcp_double.filters import compile_filter
from tests.gcp_double.wire import Refusal, parse, to_dict, write_time

MINUTE = 60.0


class LogStore:
    """Entries of one project.

    Args:
        project: The project.
        now_ns: Tells the time.
        lag: Tells of each entry how many seconds after its arrival it can be read.
        quota: Reads in a minute; None for any number.
        seed: Of what makes the entries' ids.
    """

    def __init__(
        self,
        project: str,
        *,
        now_ns: Callable[[], int],
        lag: Callable[[], float] = lambda: 0.0,
        quota: int | None = None,
        seed: int = 0,
    ) -> None:
        self.project, self.now_ns, self.lag, self.quota = project, now_ns, lag, quota
        self.reads = self.refusals = 0
        self.read_at: deque[float] = deque()
        self.empty_pages = 0
        self.repeats_pages = False
        self._random = random.Random(seed)
        self._entries: list[dict[str, Any]] = []
        self._last = 0

    def write(
        self,
        uid: str,
        index: int,
        text: str,
        *,
        attempt: int = 0,
        severity: str = "INFO",
        written_ns: int | None = None,
        delay: float = 0.0,
        labels: dict[str, str] | None = None,
    ) -> None:
        """Take an entry of a task, which arrives `delay` seconds from now.

        A line that is an object in JSON becomes one, as with Google.
        """
        now = (
            max(self.now_ns() + round(delay * 1e9), self._last + 1) if not delay else self.now_ns() + round(delay * 1e9)
        )
        self._last = max(self._last, now)
        body: dict[str, Any] = {"textPayload": text}
        if text.startswith("{"):
            try:
                body = {"jsonPayload": json.loads(text)}
                severity = body["jsonPayload"].pop("severity", severity)
            except ValueError:
                pass
        written = now if written_ns is None else written_ns
        entry = {
            "_written": written,
            "_arrived": now,
            "_visible": now + round(self.lag() * 1e9),
            "logName": f"projects/{self.project}/logs/batch_task_logs",
            "labels": {
                **(labels or {}),
                "job_uid": uid,
                "task_id": f"task/{uid}-group0-{index}/{attempt}/0",
                "hostname": f"{uid}-group0-0-{index:04d}",
            },
            **body,
            "severity": severity,
            "insertId": f"{self._random.getrandbits(48):012x}",
            "timestamp": write_time(written),
            "receiveTimestamp": write_time(now),
            "resource": {"type": "batch.googleapis.com/Job", "labels": {"project_id": self.project}},
        }
        # In the order of what a list is sorted by; what is added late is put in its place.
        bisect.insort(self._entries, entry, key=_order)

    def list_entries(self, body: bytes | dict[str, Any]) -> dict[str, Any]:
        """Answer entries.list.

        Raises:
            Refusal: The request is wrong, or over the quota.
        """
        request = parse(ListLogEntriesRequest.pb(ListLogEntriesRequest()), body)
        self._count()
        if not request.resource_names:
            raise Refusal(400, "resource_names is required")
        if request.order_by not in ("", "timestamp asc", "timestamp desc"):
            raise Refusal(400, f"order_by {request.order_by!r} is not supported")
        if not 0 <= request.page_size <= 1000:
            raise Refusal(400, "page_size must be between 0 and 1000")
        kind = [request.filter, request.order_by, sorted(request.resource_names)]
        after = self._place(request.page_token, kind)
        if self.empty_pages and after is None:
            self.empty_pages -= 1
            return self._answer([], _token(kind, None))
        size = request.page_size or 50
        rows = self._matching(request, after, size + 1)
        more = _token(kind, _order(rows[size - 1])) if len(rows) > size else None
        return self._answer(rows[:size] * (2 if self.repeats_pages else 1), more)

    def _matching(self, request: Any, after: list[Any] | None, most: int) -> list[dict[str, Any]]:
        if f"projects/{self.project}" not in request.resource_names:
            return []
        test, now = compile_filter(request.filter), self.now_ns()
        backwards = request.order_by.endswith("desc")
        found: list[dict[str, Any]] = []
        for entry in reversed(self._entries) if backwards else self._entries:
            if after is not None and (_order(entry) >= after if backwards else _order(entry) <= after):
                continue
            if entry["_visible"] <= now and entry["_arrived"] <= now and test(entry):
                found.append(entry)
                if len(found) == most:
                    break
        return found

    def _place(self, token: str, kind: list[Any]) -> list[Any] | None:
        if not token:
            return None
        told = json.loads(base64.b64decode(token))
        if told["kind"] != kind:
            raise Refusal(400, "page_token does not match the request")
        return told["after"] or [0, ""]

    def _count(self) -> None:
        now = self.now_ns() / 1e9
        while self.read_at and now - self.read_at[0] >= MINUTE:
            self.read_at.popleft()
        if self.quota is not None and len(self.read_at) >= self.quota:
            self.refusals += 1
            limit = {"quota_limit": "ReadRequestsPerMinutePerProject", "quota_limit_value": str(self.quota)}
            info = {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "RATE_LIMIT_EXCEEDED",
                "domain": "googleapis.com",
                "metadata": {**limit, "service": "logging.googleapis.com"},
            }
            raise Refusal(429, "Quota exceeded for quota metric 'Read requests' of logging.googleapis.com", [info])
        self.reads += 1
        self.read_at.append(now)

    def _answer(self, rows: list[dict[str, Any]], more: str | None) -> dict[str, Any]:
        entries = [{key: value for key, value in row.items() if not key.startswith("_")} for row in rows]
        answer: dict[str, Any] = {"entries": entries} if entries else {}
        if more is not None:
            answer["nextPageToken"] = more
        return answer

    def check_answers(self) -> None:
        """Have Google's own definition parse what is told."""
        answer = self._answer(self._entries[:1000], None)
        to_dict(parse(ListLogEntriesResponse.pb(ListLogEntriesResponse()), answer, canonical=False))


def _order(entry: dict[str, Any]) -> list[Any]:
    return [entry["_written"], entry["insertId"]]


def _token(kind: list[Any], after: list[Any] | None) -> str:
    return base64.b64encode(json.dumps({"kind": kind, "after": after}).encode()).decode()
