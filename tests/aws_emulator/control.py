"""The knobs for who is in another process: ``POST /emulator/<knob>`` with JSON.

=============  =====================================================  =========================
knob           body                                                   answer
=============  =====================================================  =========================
``calls``      ``{"reset": true}`` or nothing                         calls, throttled, problems
``throttle``   ``{"DescribeJobs": [rate, burst]}``                    ``{}``
``fail``       ``{"operation": "SubmitJob", "kind": "cut_after"}``    ``{}``
``pace``       ``{"ingest": 0.3}``                                    ``{}``
``queues``     ``{"add": ["q"], "stuck": {"q": "CAPACITY:..."}}``     ``{}``
``jobs``       ``{"count": 9, "queue": q, "first": s, "spread": s}``  when each of them will end
``purge``      ``{"job": id}``                                        ``{}``
``restart``    ``{"down": 1.0}``                                      ``{}``, and then silence
=============  =====================================================  =========================

``POST /moto-api/plus/throttle`` does the same; ``GET`` and ``DELETE /moto-api/plus/calls`` answer with the calls alone,
the latter for the last time.

``GET /emulator/credentials`` answers as a container's credential endpoint does: keys for
`credential_life` seconds, new ones each time; `revoke` makes those that were given so far stop working.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tests.aws_emulator.cloud import Cloud
from tests.aws_emulator.many import run_many

if TYPE_CHECKING:
    from tests.aws_emulator.server import Server


class Control:
    """A small WSGI application beside the services."""

    def __init__(self, cloud: Cloud, server: Server) -> None:
        self._cloud, self._server = cloud, server
        self.credential_life = 3600.0
        self.issued = 0

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        knob = environ["PATH_INFO"].rpartition("/")[2]
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        with self._cloud.timeline.lock:
            if environ["PATH_INFO"] == "/moto-api/plus/calls":
                answer = self._calls({"reset": environ["REQUEST_METHOD"] == "DELETE"})["calls"]
            else:
                answer = getattr(self, f"_{knob}")(json.loads(body or b"{}")) or {}
        payload = json.dumps(answer).encode()
        start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(payload)))])
        return [payload]

    def _calls(self, body: dict[str, Any]) -> dict[str, Any]:
        traffic = self._cloud.traffic
        answer = {
            "calls": dict(traffic.calls),
            "throttled": dict(traffic.throttled),
            "problems": list(traffic.problems),
        }
        if body.get("reset"):
            traffic.calls.clear()
            traffic.throttled.clear()
        return answer

    def _throttle(self, body: dict[str, Any]) -> None:
        self._cloud.traffic.throttle(**{name: tuple(limit) for name, limit in body.items()})

    def _fail(self, body: dict[str, Any]) -> None:
        self._cloud.traffic.fail(**body)

    def _pace(self, body: dict[str, Any]) -> None:
        for name, seconds in body.items():
            setattr(self._cloud.pace, name, seconds)

    def _queues(self, body: dict[str, Any]) -> None:
        self._cloud.queues.update(body.get("add", ()))
        self._cloud.life.stuck.update(body.get("stuck", {}))

    def _jobs(self, body: dict[str, Any]) -> dict[str, Any]:
        ends = run_many(self._cloud, body["count"], body["queue"], body["first"], body["spread"])
        return {"ends": ends}

    def _purge(self, body: dict[str, Any]) -> None:
        self._cloud.purge(body["job"])

    def _restart(self, body: dict[str, Any]) -> None:
        from tests.aws_emulator.server import restart

        threading.Thread(target=restart, args=(self._server, body.get("down", 1.0)), daemon=True).start()

    def revoke(self) -> None:
        """Refuse the credentials that were given so far."""
        with self._cloud.timeline.lock:
            self._cloud.traffic.valid_keys = set()

    def _credentials(self, _: dict[str, Any]) -> dict[str, str]:
        self.issued += 1
        key = f"AKIAEMULATOR{self.issued:04d}"
        self._cloud.traffic.valid_keys = {*(self._cloud.traffic.valid_keys or ()), key}
        expires = datetime.now(UTC) + timedelta(seconds=self.credential_life)
        return {
            "AccessKeyId": key,
            "SecretAccessKey": "not-a-secret",
            "Token": "not-a-token",
            "Expiration": expires.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "RoleArn": "arn:aws:iam::123456789012:role/emulator",
        }
