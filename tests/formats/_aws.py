"""AWS Batch as it answered once: jobs and lines that are there, a job definition or two, and nothing that changes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

from asyncsched.schedulers import Scheduler
from asyncsched.schedulers.aws_batch import create_scheduler
from asyncsched.specs import AppDef, Role
from asyncsched.testing import VirtualClock
from tests.aws_emulator.cloud import Cloud
from tests.aws_emulator.direct import DirectClient

QUEUE = "torchx"
OPTIONS: dict[str, Any] = {"queue": QUEUE, "tags": {"cost": "paint"}}
KEYED = AppDef(
    "keyed",
    [Role("main", "script", entrypoint="play", args=['[["line", "once"], ["exit", 0]]'], env={"COLOR": "red"})],
    metadata={"team": "paint"},
)


class Recorded:
    """A client that answers through another one, and keeps what was asked.

    Attributes:
        asked: Each operation by its method's name, and its parameters.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Callable[..., Awaitable[dict[str, Any]]]:
        method = getattr(self._client, name)

        async def call(**request: Any) -> dict[str, Any]:
            self.asked.append((name, json.loads(json.dumps(request))))
            return dict(await method(**request))

        return call


class OldBatch:
    """A client for ``batch`` that tells of frozen jobs."""

    def __init__(self, frozen: Any) -> None:
        self._frozen = frozen

    async def describe_job_queues(self, **_: Any) -> dict[str, Any]:
        return {"jobQueues": [{"jobQueueName": QUEUE, "jobQueueArn": f"arn:aws:batch:us-east-1:1:job-queue/{QUEUE}"}]}

    async def list_jobs(self, **request: Any) -> dict[str, Any]:
        rows = self._frozen["listed"]
        for each in request.get("filters", ()):
            field = {"JOB_NAME": "jobName", "JOB_DEFINITION": "jobDefinition"}[each["name"]]
            rows = [row for row in rows if _matches(row[field].rsplit("/", 1)[-1], each["values"][0])]
        return {"jobSummaryList": rows}

    async def describe_jobs(self, *, jobs: list[str]) -> dict[str, Any]:
        return {"jobs": [row for row in self._frozen["jobs"] if row["jobId"] in jobs]}


def _matches(text: str, pattern: str) -> bool:
    return text.lower().startswith(pattern[:-1].lower()) if pattern.endswith("*") else text.lower() == pattern.lower()


@asynccontextmanager
async def old_service(frozen: Any) -> AsyncIterator[Scheduler]:
    """A scheduler on frozen jobs, and on a log service that has their lines."""
    clock = VirtualClock()
    cloud = Cloud(clock=lambda: clock.time_ns() / 1e9)
    for event in frozen["events"]:
        cloud.events.put("/aws/batch/job", event["stream"], event["timestamp"], event["message"], event["timestamp"])
    async with clock:
        logs = DirectClient(cloud, "logs", sleep=clock.sleep)
        async with create_scheduler("session", OldBatch(frozen), logs, clock=clock) as scheduler:
            yield scheduler


async def told(scheduler: Scheduler, app_ids: list[str]) -> dict[str, Any]:
    """Return what a scheduler tells of apps: described, listed, and their lines."""
    described = await scheduler.describe_many(app_ids)
    lines = {app_id: [line.to_dict() async for line in scheduler.log_iter(app_id)] for app_id in app_ids}
    for rows in lines.values():
        rows.sort(key=lambda row: (str(row["role"]), str(row["replica"])))
    rows = [asdict(row) for row in await scheduler.list()]
    found = {
        "described": {app_id: (found := described[app_id]) and asdict(found) for app_id in app_ids},
        "listed": sorted(rows, key=lambda row: str(row["name"])),
        "lines": lines,
    }
    return dict(json.loads(json.dumps(found, default=str)))


def without_ids(told: Any, frozen: Any) -> Any:
    """Write the two ids that mean the same job, by its id and by its name, as the one by its name."""
    text = json.dumps(told)
    for row in frozen["listed"]:
        text = text.replace(f"{QUEUE}:{row['jobId']}", f"{QUEUE}:{row['jobName']}")
    return json.loads(text)
