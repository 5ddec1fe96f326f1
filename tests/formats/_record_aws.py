"""Runs jobs of every kind on the emulator, and freezes what was sent and what DescribeJobs tells of them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from asyncsched.schedulers.aws_batch import create_scheduler
from asyncsched.specs import AppDef, Resource, Role
from asyncsched.testing import VirtualClock
from tests.aws_emulator.cloud import Cloud
from tests.aws_emulator.direct import DirectClient
from tests.formats._aws import KEYED, OPTIONS, QUEUE, Recorded, told
from tests.formats._frozen import KEYS
from tests.formats._record_local import SECRET


def script(*steps: list[Any], name: str = "main", **more: Any) -> Role:
    return Role(name, "script", entrypoint="play", args=[json.dumps(steps)], **more)


ENV = {"API_TOKEN": SECRET, "PLAIN": "value"}
WAITS = script(["line", "waits"], ["sleep", 100_000])
APPS = {
    "retried": (AppDef("retried", [script(["line", "again"], ["exit", [3, 4, 0]], max_retries=2, env=ENV)]), {}),
    "nodes": (
        AppDef(
            "nodes",
            [
                script(["line", "first"], ["sleep", 3], ["exit", 0], num_replicas=2, resource=Resource(4, 1, 2048)),
                script(["line", "second"], ["exit", 5], name="other"),
            ],
            metadata={"team": "paint"},
        ),
        {},
    ),
    "array": (AppDef("array", [script(["line", "one of many"])]), {"array_size": 3}),
    "failed": (AppDef("failed", [script(["fail", "OutOfMemoryError: Container killed due to memory usage"])]), {}),
    "cancelled": (AppDef("cancelled", [WAITS]), {}),
    "deleted": (AppDef("deleted", [script(["line", "gone"])]), {}),
    "running": (AppDef("running", [WAITS]), {}),
}


async def record_aws(target: Path) -> None:
    """Write the requests, the service's answers, and what we make of them to `target`."""
    target.mkdir(exist_ok=True)
    clock = VirtualClock()
    cloud = Cloud(clock=lambda: clock.time_ns() / 1e9)
    cloud.queues.add(QUEUE)
    batch, logs = (Recorded(DirectClient(cloud, name, sleep=clock.sleep)) for name in ("batch", "logs"))
    async with clock, create_scheduler("session", batch, logs, clock=clock) as scheduler:
        ids = {name: await scheduler.submit(app, OPTIONS | more) for name, (app, more) in APPS.items()}
        info = await scheduler.submit_dryrun(KEYED, OPTIONS, key=KEYS)
        ids["keyed"] = await scheduler.schedule(info)
        await clock.sleep(60)
        await scheduler.cancel(ids["cancelled"])
        await clock.sleep(60)
        await scheduler.delete(ids["deleted"])
        sent = [{"operation": name, "request": request} for name, request in batch.asked if name in SENT]
        answers = await _freeze(DirectClient(cloud, "batch", sleep=clock.sleep), DirectClient(cloud, "logs"))
        describes = await told(scheduler, sorted(set(ids.values()) - {ids["deleted"]}))
    for name, value in (("sent", sent), ("service", answers), ("told", {**describes, "deleted": ids["deleted"]})):
        text = json.dumps(value, indent=1).replace(SECRET, "***")
        (target / f"{name}.json").write_text(text + "\n")


SENT = ("register_job_definition", "submit_job", "tag_resource", "terminate_job", "terminate_jobs")


async def _freeze(batch: Any, logs: Any) -> dict[str, Any]:
    listed = (await batch.list_jobs(jobQueue=QUEUE, filters=[{"name": "JOB_DEFINITION", "values": ["*"]}]))[
        "jobSummaryList"
    ]
    ids = [row["jobId"] for row in listed]
    children = [f"{job_id}{mark}{k}" for job_id in ids for mark in "#:" for k in range(4)]
    rows: list[dict[str, Any]] = []
    for start in range(0, len(ids + children), 100):
        rows += (await batch.describe_jobs(jobs=(ids + children)[start : start + 100]))["jobs"]
    events: list[dict[str, Any]] = []
    for stream in (await logs.describe_log_streams(logGroupName="/aws/batch/job"))["logStreams"]:
        name = stream["logStreamName"]
        page = await logs.get_log_events(logGroupName="/aws/batch/job", logStreamName=name, startFromHead=True)
        events += [{"stream": name, **event} for event in page["events"]]
    return {"listed": listed, "jobs": rows, "events": events}


if __name__ == "__main__":
    import sys

    asyncio.run(record_aws(Path(sys.argv[1]).absolute() / "aws"))
