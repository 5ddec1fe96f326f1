"""What a job goes through: capacity, the main node that decides, its children, retries, time limits."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from functools import partial
from typing import Protocol

from tests.aws_emulator.events import LogEvents
from tests.aws_emulator.model import WAITING, Attempt, Job, Json, Node, Pace
from tests.aws_emulator.timeline import Timeline

EXITED = "Essential container in task exited"
TIMED_OUT = "Job attempt duration exceeded timeout"
TOO_LARGE = "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - no instance type meets the requirements of the job"
LOG_GROUP = "/aws/batch/job"


class Task:
    """What a runner of nodes gets: what to run, and whom to tell."""

    def __init__(self, life: Lifecycle, job: Job, node: Node, attempt: Attempt) -> None:
        self.container = node.container
        self.number = attempt.number
        self.name = f"{job.name[:40]}-{attempt.task[:12]}-{node.index}"
        self.environment = {row["name"]: row["value"] for row in node.container.get("environment", ())}
        self.environment |= _batch_variables(job, node, attempt)
        self.command = [_with_parameters(part, job.parameters) for part in node.container.get("command", ())]
        self.grace = life.pace.grace
        self.job_id, self.is_main = job.id, node.index == job.main
        self._life, self._job, self._node, self._attempt = life, job, node, attempt
        #: Why it cannot be started; empty if it can.
        self.refused = ""
        for row in node.container.get("secrets", ()):
            value = _secret(life.secrets, row["valueFrom"])
            if value is None:
                self.refused = (
                    f"ResourceInitializationError: unable to pull secrets or registry auth: {row['valueFrom']}"
                )
            else:
                self.environment[row["name"]] = value
        options = node.container.get("logConfiguration", {}).get("options", {})
        self._group = options.get("awslogs-group", LOG_GROUP)

    def line(self, text: str, *, late: float = 0.0) -> None:
        """Say that the node has written a line now, which CloudWatch gets to see a little later."""
        life, stream = self._life, self._attempt.stream
        with life.timeline.lock:
            written = life.timeline.now_ms
            life.timeline.after(
                life.pace.ingest + late,
                lambda: life.logs.put(self._group, stream, written, text, life.timeline.now_ms),
            )

    def exited(self, code: int | None, reason: str | None = None) -> None:
        """Say that the node's container has ended, or (code None) that it could not be started."""
        with self._life.timeline.lock:
            self._life.node_ended(self._job, self._node, self._attempt, code, reason)


class Runner(Protocol):
    """Runs a node's container; returns what stops it (once, or never, or late)."""

    def __call__(self, task: Task) -> Callable[[], None]: ...


class Lifecycle:
    """Moves jobs through their states, as the documentation describes them."""

    def __init__(self, timeline: Timeline, logs: LogEvents, runner: Runner) -> None:
        self.timeline, self.logs, self.runner = timeline, logs, runner
        self.pace = Pace()
        #: Values of secrets and parameters by what a container names them, without the key.
        self.secrets: dict[str, str] = {}
        #: Queues without capacity, and the reason that their RUNNABLE jobs show.
        self.stuck: dict[str, str | None] = {}
        #: GPUs of the largest host: a job that asks for more stays RUNNABLE, in whatever queue.
        self.most_gpus = 16

    def submit(self, job: Job) -> None:
        self.timeline.after(self.pace.submitted, lambda: self._make_runnable(job))

    def refuse(self, job: Job, reason: str) -> None:
        """Let a job fail before its container starts."""
        self.timeline.after(self.pace.submitted, lambda: self._end(job, "FAILED", reason))

    def unstick(self, queue: str, jobs: list[Job]) -> None:
        del self.stuck[queue]
        for job in jobs:
            if job.queue == queue and job.status == "RUNNABLE":
                job.reason = None
                self.timeline.after(self.pace.runnable, partial(self._start, job))

    def depend(self, job: Job, others: list[Job]) -> None:
        """Let a job wait for others; a failed one makes it fail."""
        job.status = "PENDING"
        if any(other.status == "FAILED" for other in others):
            self._end(job, "FAILED", "Dependent Job failed")
        elif all(other.status == "SUCCEEDED" for other in others):
            self._make_runnable(job)
        else:
            self.timeline.after(self.pace.runnable, lambda: None if job.over else self.depend(job, others))

    def stop(self, job: Job, reason: str) -> None:
        """End a job whatever its state, as TerminateJob does."""
        for child in job.children:
            self.stop(child, reason)
        if job.children and not job.over:
            job.terminated, job.reason = True, reason
        if job.over or job.children or job.terminated:
            return
        job.terminated, job.reason = True, reason
        if job.status in (*WAITING, "STARTING"):
            self._end(job, "FAILED", reason)
        else:
            self._stop_nodes(job)

    def cancel(self, job: Job, reason: str) -> None:
        """End a job that has not been started, as CancelJob does; of an array all children that have not."""
        if job.status not in WAITING:
            return
        for child in job.children:
            self.cancel(child, reason)
        job.cancelled, job.reason = True, reason
        if not job.children:
            self._end(job, "FAILED", reason)

    def node_ended(self, job: Job, node: Node, attempt: Attempt, code: int | None, reason: str | None) -> None:
        if attempt is not node.current or attempt.stopped is not None:
            return
        attempt.stopped, attempt.exit_code, attempt.reason = self.timeline.now_ms, code, reason
        attempt.status_reason = EXITED if code is not None else (reason or "Task failed to start")
        node.attempts.append(attempt)
        node.current = None
        node.status = "SUCCEEDED" if code == 0 and not job.terminated else "FAILED"
        if node.index == job.main:
            delay = self.pace.stop_children if len(job.nodes) > 1 else 0.0
            job.last_look = self.timeline.after(delay, lambda: self._main_ended(job, attempt))
        if job.verdict:
            self._finish_when_empty(job)
        elif self.pace.waits_for_children and job.last_look and _all_have_ended(job, attempt.number):
            job.last_look.cancel()
            self.timeline.after(0, lambda: self._main_ended(job, job.nodes[job.main].attempts[-1]))

    def _make_runnable(self, job: Job) -> None:
        if job.over:
            return
        self._set(job, "RUNNABLE")
        if job.queue in self.stuck:
            job.reason = self.stuck[job.queue]
        elif any(_gpus(node.container) > self.most_gpus for node in job.nodes.values()):
            job.reason = TOO_LARGE
        else:
            self.timeline.after(self.pace.runnable, lambda: self._start(job))

    def _start(self, job: Job) -> None:
        if job.status == "RUNNABLE":
            self._set(job, "STARTING")
            self.timeline.after(self.pace.starting, lambda: self._run(job))

    def _run(self, job: Job) -> None:
        if job.status != "STARTING":
            return
        job.status = "RUNNING"
        job.started = job.started or self.timeline.now_ms
        self._run_node(job, job.nodes[job.main])
        for node in job.nodes.values():
            if node.index != job.main:
                delay = self.pace.child * (1 + node.index % 7)
                self.timeline.after(delay, partial(self._run_child, job, node))
        if job.timeout:
            number = len(job.nodes[job.main].attempts)
            limit = job.timeout["attemptDurationSeconds"] * self.pace.second_of_timeout
            self.timeline.after(limit, lambda: self._time_out(job, number))

    def _run_child(self, job: Job, node: Node) -> None:
        if job.status == "RUNNING" and not job.verdict and not job.terminated and node.status == "STARTING":
            self._run_node(job, node)

    def _run_node(self, job: Job, node: Node) -> None:
        task_id = uuid.uuid4().hex
        stream = f"{job.definition['jobDefinitionName'][:200]}/default/{task_id}"
        attempt = Attempt(len(node.attempts) + 1, stream, task_id, self.timeline.now_ms)
        node.current, node.status = attempt, "RUNNING"
        task = Task(self, job, node, attempt)
        if task.refused:
            self.timeline.after(0, lambda: task.exited(None, task.refused))
        else:
            attempt.stop = self.runner(task)

    def _main_ended(self, job: Job, attempt: Attempt) -> None:
        """Let the main node decide, once its children are stopped too."""
        job.verdict, job.last_look = self._verdict(job, attempt), None
        self._stop_nodes(job)
        self._finish_when_empty(job)

    def _verdict(self, job: Job, attempt: Attempt) -> tuple[str, str]:
        if job.terminated or job.reason == TIMED_OUT:
            return "FAILED", job.reason or ""
        if attempt.exit_code == 0:
            return "SUCCEEDED", EXITED
        return ("RETRY" if self._retries(job, attempt) else "FAILED"), attempt.status_reason or EXITED

    def _finish_when_empty(self, job: Job) -> None:
        if any(node.current for node in job.nodes.values()):
            return
        assert job.verdict is not None
        (status, reason), job.verdict = job.verdict, None
        if status != "RETRY":
            self._end(job, status, reason)
            return
        for node in job.nodes.values():
            node.status = "RUNNABLE"
        self._make_runnable(job)

    def _retries(self, job: Job, attempt: Attempt) -> bool:
        if attempt.number >= job.retry.get("attempts", 1):
            return False
        for rule in job.retry.get("evaluateOnExit", ()):
            if (
                _matches(rule.get("onExitCode"), attempt.exit_code)
                and _matches(rule.get("onReason"), attempt.reason)
                and _matches(rule.get("onStatusReason"), attempt.status_reason)
            ):
                return bool(rule["action"].upper() == "RETRY")
        return True

    def _time_out(self, job: Job, number: int) -> None:
        if job.status == "RUNNING" and len(job.nodes[job.main].attempts) == number:
            job.reason = TIMED_OUT
            self._stop_nodes(job)

    def _stop_nodes(self, job: Job) -> None:
        for node in job.nodes.values():
            if node.current:
                node.current.stop()

    def _set(self, job: Job, status: str) -> None:
        job.status = status
        for node in job.nodes.values():
            node.status = status

    def _end(self, job: Job, status: str, reason: str) -> None:
        job.status, job.reason, job.stopped = status, reason, self.timeline.now_ms
        for node in job.nodes.values():
            if not node.attempts:
                node.status = status


def _all_have_ended(job: Job, attempt: int) -> bool:
    """Tell whether no node of an attempt runs or is still to be started."""
    return all(
        node.current is None and (job.terminated or len(node.attempts) >= attempt) for node in job.nodes.values()
    )


def _gpus(container: Json) -> int:
    return sum(int(row["value"]) for row in container.get("resourceRequirements", ()) if row["type"] == "GPU")


def _matches(pattern: str | None, value: object) -> bool:
    if pattern is None:
        return True
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), "" if value is None else str(value)) is not None


def _secret(store: dict[str, str], source: str) -> str | None:
    """What a container gets for ``arn``, ``arn:key::`` or a parameter's name; None if there is no such thing."""
    if source in store:
        return store[source]
    found = re.fullmatch(r"(.+:secret:[^:]+):([^:]*):[^:]*:[^:]*", source)
    if found is None or found[1] not in store:
        return None
    value = json.loads(store[found[1]]).get(found[2]) if found[2] else store[found[1]]
    return None if value is None else str(value)


def _with_parameters(part: str, parameters: dict[str, str]) -> str:
    return re.sub(r"Ref::(\w+)", lambda found: parameters.get(found[1], found[0]), part)


def _batch_variables(job: Job, node: Node, attempt: Attempt) -> dict[str, str]:
    variables = {
        "AWS_BATCH_JOB_ID": job.id,
        "AWS_BATCH_JQ_NAME": job.queue,
        "AWS_BATCH_CE_NAME": "emulator",
        "AWS_BATCH_JOB_ATTEMPT": str(attempt.number),
    }
    if job.multinode:
        variables |= {
            "AWS_BATCH_JOB_NODE_INDEX": str(node.index),
            "AWS_BATCH_JOB_NUM_NODES": str(len(job.nodes)),
            "AWS_BATCH_JOB_MAIN_NODE_INDEX": str(job.main),
        }
        if node.index != job.main:  # The main node alone does not get it.
            variables["AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS"] = "127.0.0.1"
    if job.array_index is not None:
        variables["AWS_BATCH_JOB_ARRAY_INDEX"] = str(job.array_index)
    return variables
