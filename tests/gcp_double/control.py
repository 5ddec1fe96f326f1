"""The knobs for callers in another process: ``POST /double/<knob>`` with JSON.

=========  ====================================================  ==============================
knob       body                                                  answer
=========  ====================================================  ==============================
``key``    ``{}``                                                the file of a service account
``token``  ``{}``                                                a token that is good
``calls``  ``{}``                                                the calls since the last look
``quota``  ``{"reads": 60}``; null for none                      ``{}``
``jobs``   ``{"count": 9, "first": s, "spread": s}``             when each of them will end
``log``    ``{"tasks": 8, "lines": 20, "seconds": s}``           the job that has these lines
=========  ====================================================  ==============================
"""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import Any

from aiohttp import web
from google.cloud import batch_v1

from tests.gcp_double.server import PROJECT, Double
from tests.gcp_double.wire import parse

PLACE = f"projects/{PROJECT}/locations/us-central1"
State = batch_v1.JobStatus.State


def running_job(double: Double, name: str, tasks: int) -> str:
    """Put a job in place whose tasks all run, and nothing runs them; return Google's own id of it."""
    container = {"container": {"imageUri": "image"}, "displayName": "main"}
    group = {"taskCount": str(tasks), "taskSpec": {"runnables": [container]}}
    row = {"taskGroups": [group], "logsPolicy": {"destination": "CLOUD_LOGGING"}}
    job = parse(batch_v1.Job.pb(batch_v1.Job()), row)
    double.jobs.add(f"{PLACE}/jobs/{name}", job, State.RUNNING, {"RUNNING": tasks})
    return str(job.uid)


def finish_job(double: Double, name: str, tasks: int) -> None:
    """Let a job that was put in place succeed."""
    double.jobs.move(f"{PLACE}/jobs/{name}", State.SUCCEEDED, {"SUCCEEDED": tasks})


class Control:
    """Answers the knobs of one double, on its loop."""

    def __init__(self, double: Double) -> None:
        self._double = double
        self._names = (f"job-{number}" for number in itertools.count())

    async def answer(self, request: web.Request) -> web.Response:
        knob = getattr(self, f"_{request.match_info['knob']}")
        return web.json_response(knob(await request.json()) or {})

    def _key(self, _: dict[str, Any]) -> dict[str, str]:
        return self._double.tokens.key_file(self._double.url)

    def _token(self, _: dict[str, Any]) -> dict[str, str]:
        return {"token": self._double.tokens.mint()}

    def _calls(self, _: dict[str, Any]) -> dict[str, int]:
        calls = dict(self._double.calls)
        self._double.calls.clear()
        return calls

    def _quota(self, body: dict[str, Any]) -> None:
        self._double.logs.quota = body["reads"]
        self._double.logs.read_at.clear()

    def _jobs(self, body: dict[str, Any]) -> dict[str, float]:
        step = body["spread"] / body["count"]
        return dict(self._job(1, body["first"] + number * step) for number in range(body["count"]))

    def _log(self, body: dict[str, Any]) -> dict[str, Any]:
        name, end = self._job(body["tasks"], body["seconds"])
        uid = self._double.jobs.jobs[f"{PLACE}/jobs/{name}"].job.uid
        for line in range(body["lines"]):
            delay = line * body["seconds"] / body["lines"]
            for index in range(body["tasks"]):
                self._double.logs.write(uid, index, f"{index} {time.time() + delay}", delay=delay)
        return {"name": name, "end": end}

    def _job(self, tasks: int, seconds: float) -> tuple[str, float]:
        """Put a job in place that ends after some seconds; return its name and when it ends."""
        name = next(self._names)
        running_job(self._double, name, tasks)
        asyncio.get_running_loop().call_later(seconds, finish_job, self._double, name, tasks)
        return name, time.time() + seconds
