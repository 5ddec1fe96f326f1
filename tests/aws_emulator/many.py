"""Jobs by the thousand, without the ceremony of submitting each of them."""

from __future__ import annotations

from functools import partial

from tests.aws_emulator.cloud import Cloud
from tests.aws_emulator.model import Job, Node, new_id


def running_jobs(cloud: Cloud, count: int, queue: str) -> list[Job]:
    """Put jobs into the cloud that run."""
    container = {"image": "script"}
    cloud.definitions.register({"jobDefinitionName": "asx-many", "type": "container", "containerProperties": container})
    definition = cloud.definitions.for_submit("asx-many")
    jobs = []
    for number in range(count):
        now = cloud.timeline.now_ms
        node = Node(0, {"image": "script", "command": []}, status="RUNNING")
        job = Job(new_id(), f"many-{number}", queue, definition, {0: node}, now, cloud.batch.next_order())
        job.status, job.started = "RUNNING", now
        cloud.batch.jobs[job.id] = job
        jobs.append(job)
    cloud.timeline.happened += 1
    return jobs


def end(cloud: Cloud, job: Job) -> None:
    """Let a job succeed now."""
    cloud.timeline.happened += 1
    job.status, job.reason, job.stopped = "SUCCEEDED", "Essential container in task exited", cloud.timeline.now_ms


def run_many(cloud: Cloud, count: int, queue: str, first: float, spread: float) -> dict[str, float]:
    """Run jobs of which the first ends in `first` seconds, and the last `spread` later; returns when each ends."""
    ends: dict[str, float] = {}
    for number, job in enumerate(running_jobs(cloud, count, queue)):
        delay = first + spread * number / count
        ends[job.id] = cloud.timeline.now + delay
        cloud.timeline.after(delay, partial(end, cloud, job))
    return ends
