"""Jobs as DescribeJobs and ListJobs show them."""

from __future__ import annotations

from typing import Any

from tests.aws_emulator.model import ACCOUNT, REGION, STATUSES, Attempt, Job, Json, Node, arn


def summary(job: Job) -> Json:
    row = _common(job)
    if job.cancelled:
        row["isCancelled"] = True
    if job.terminated:
        row["isTerminated"] = True
    if job.multinode:
        row["nodeProperties"] = {"numNodes": len(job.nodes)}
    last = job.nodes[job.main].last if not job.children else None
    if job.over and last and last.exit_code is not None:
        row["container"] = {"exitCode": last.exit_code}
    return row


def node_summary(job: Job, node: Node) -> Json:
    row = _common(job) | {"jobId": f"{job.id}#{node.index}", "jobArn": f"{job.arn}#{node.index}"}
    row["status"] = node_status(job, node)
    row["nodeProperties"] = {
        "isMainNode": node.index == job.main,
        "numNodes": len(job.nodes),
        "nodeIndex": node.index,
    }
    return row


def detail(job: Job) -> Json:
    row = _detail(job)
    main = job.nodes[job.main]
    row["attempts"] = [_attempt(attempt) for attempt in main.attempts]
    if job.multinode:
        row["nodeProperties"] = job.definition["nodeProperties"]
    elif "ecsProperties" in job.definition:
        (task,) = job.definition["ecsProperties"]["taskProperties"]
        row["ecsProperties"] = {"taskProperties": [{**task, "containers": [_task_run(_container(main))]}]}
        row["attempts"] = [_task_attempt(attempt, main) for attempt in row["attempts"]]
    else:
        row["container"] = _container(main)
    return row


def node_detail(job: Job, node: Node) -> Json:
    row = _detail(job) | {"jobId": f"{job.id}#{node.index}", "jobArn": f"{job.arn}#{node.index}"}
    row["status"] = node_status(job, node)
    row["attempts"] = [_attempt(attempt) for attempt in node.attempts]
    row["container"] = _container(node)
    row["nodeDetails"] = {"nodeIndex": node.index, "isMainNode": node.index == job.main}
    row["startedAt"] = node.last.started if node.last else 0
    row.pop("stoppedAt", None)
    if node.current is None and node.last and node.last.stopped:
        row["stoppedAt"] = node.last.stopped
    return row


def node_status(job: Job, node: Node) -> str:
    return job.status if job.status in ("SUBMITTED", "PENDING") else node.status


def _common(job: Job) -> Json:
    row: Json = {
        "jobId": job.id,
        "jobArn": job.arn,
        "jobName": job.name,
        "createdAt": job.created,
        "status": job.status,
        "jobDefinition": job.definition["jobDefinitionArn"],
    }
    optional: Json = {
        "statusReason": job.reason,
        "startedAt": job.started,
        "stoppedAt": job.stopped,
        "shareIdentifier": job.share,
        "arrayProperties": _array(job),
    }
    return row | {key: value for key, value in optional.items() if value is not None}


def _detail(job: Job) -> Json:
    row = _common(job) | {
        "jobQueue": arn("job-queue", job.queue),
        "startedAt": job.started or 0,
        "dependsOn": job.depends_on,
        "parameters": job.parameters,
        "tags": job.tags,
        "platformCapabilities": job.definition.get("platformCapabilities", ["EC2"]),
        "isCancelled": job.cancelled,
        "isTerminated": job.terminated,
    }
    optional: Json = {
        "retryStrategy": job.retry or None,
        "timeout": job.timeout,
        "schedulingPriority": job.priority,
    }
    return row | {key: value for key, value in optional.items() if value is not None}


def _array(job: Job) -> Json | None:
    if job.array_index is not None:
        return {"index": job.array_index}
    if not job.children:
        return None
    counts = dict.fromkeys(STATUSES, 0)
    for child in job.children:
        counts[child.status] += 1
    return {"size": len(job.children), "statusSummary": counts}


def _attempt(attempt: Attempt) -> Json:
    row: Json = {"container": {"networkInterfaces": [], **_run(attempt)}, "startedAt": attempt.started}
    if attempt.stopped is not None:
        row["stoppedAt"] = attempt.stopped
    if attempt.status_reason:
        row["statusReason"] = attempt.status_reason
    return row


def _task_attempt(row: Json, node: Node) -> Json:
    """An attempt of a job by tasks: its container stands in a task, by its name."""
    run = row.pop("container")
    task = {"containers": [_task_run({"name": node.container["name"], **run})]}
    return {**row, "taskProperties": [task]}


def _task_run(container: Json) -> Json:
    return {key: value for key, value in container.items() if key != "taskArn"}


def _container(node: Node) -> Json:
    row = dict(node.container)
    row.setdefault("command", [])
    return row | (_run(node.last) if node.last else {})


def _run(attempt: Attempt) -> dict[str, Any]:
    row: Json = {
        "taskArn": f"arn:aws:ecs:{REGION}:{ACCOUNT}:task/emulator/{attempt.task}",
        "logStreamName": attempt.stream,
    }
    if attempt.exit_code is not None:
        row["exitCode"] = attempt.exit_code
    if attempt.reason:
        row["reason"] = attempt.reason
    return row
