"""The jobs of a project: made, run task by task, cancelled, deleted; their states as Batch tells them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from google.cloud import batch_v1

from tests.gcp_double.checks import check_job, check_job_id, check_request_id
from tests.gcp_double.logs import LogStore
from tests.gcp_double.runs import Attempt, Runs
from tests.gcp_double.wire import Refusal

State = batch_v1.JobStatus.State
TaskState = batch_v1.TaskStatus.State
TERMINAL = {State.SUCCEEDED, State.FAILED, State.CANCELLED}
OVER_TIME = 50005
TOO_MUCH = 1_000_000
"""Processors, in thousandths, from which on no machine has them: a job that wants them waits for ever."""


@dataclass
class Pace:
    """How long things take, in seconds."""

    queued: float = 0.02
    scheduled: float = 0.02
    ending: float = 0.05


@dataclass
class Running:
    """A job, its tasks, and what runs it."""

    job: Any
    tasks: list[Any] = field(default_factory=list)
    driver: asyncio.Task[None] | None = None


class Jobs:
    """The jobs of one project.

    Args:
        runs: What runs tasks.
        logs: Where their output goes.
        now_ns: Tells the time.
    """

    def __init__(self, runs: Runs, logs: LogStore, now_ns: Callable[[], int]) -> None:
        self.runs, self.logs, self.now_ns = runs, logs, now_ns
        self.pace = Pace()
        self.jobs: dict[str, Running] = {}
        self.created = 0
        self._by_request: dict[str, str] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._last = 0

    # What is asked

    def create(self, parent: str, job_id: str, request_id: str, job: Any) -> Any:
        check_request_id(request_id)
        check_job_id(job_id)
        check_job(job)
        name = f"{parent}/jobs/{job_id}"
        if name in self.jobs:
            if request_id and self._by_request.get(request_id) == name:
                return self.jobs[name].job
            raise Refusal(409, f"Resource '{name}' already exists")
        if request_id:
            self._by_request[request_id] = name
        self._complete(job, name)
        made = self.jobs[name] = Running(job)
        self.created += 1
        made.driver = asyncio.get_running_loop().create_task(self._drive(made))
        made.driver.add_done_callback(_shown)
        return job

    def find(self, name: str) -> Running:
        if name not in self.jobs:
            info = {"@type": "type.googleapis.com/google.rpc.ResourceInfo", "resourceName": name}
            raise Refusal(404, f"Resource '{name}' was not found", [info])
        return self.jobs[name]

    def cancel(self, name: str) -> None:
        found = self.find(name)
        if found.job.status.state in TERMINAL | {State.DELETION_IN_PROGRESS}:
            raise Refusal(400, f"{name} is {State(found.job.status.state).name}")
        if found.job.status.state != State.CANCELLATION_IN_PROGRESS:
            self._move(found.job, State.CANCELLATION_IN_PROGRESS)
            self._start(self._stop(found, State.CANCELLED))

    def delete(self, name: str) -> None:
        found = self.find(name)
        if found.job.status.state != State.DELETION_IN_PROGRESS:
            self._move(found.job, State.DELETION_IN_PROGRESS)
            self._start(self._stop(found, None))

    async def close(self) -> None:
        for made in list(self.jobs.values()):
            if made.driver is not None:
                made.driver.cancel()
        waiting = [made.driver for made in self.jobs.values() if made.driver is not None]
        await asyncio.gather(*waiting, *self._background, return_exceptions=True)
        await self.runs.close()

    # What happens

    def add(self, name: str, job: Any, state: Any, counts: Mapping[str, int]) -> None:
        """Put a job in place that nothing runs."""
        self._complete(job, name)
        job.status.state = state
        self._count(job, counts)
        self.jobs[name] = Running(job)

    def move(self, name: str, state: Any, counts: Mapping[str, int]) -> None:
        """Let a job that nothing runs go on."""
        self._move(self.jobs[name].job, state)
        self._count(self.jobs[name].job, counts)

    def _complete(self, job: Any, name: str) -> None:
        (group,) = job.task_groups
        group.task_count = len(group.task_environments) or group.task_count or 1
        group.parallelism = group.parallelism or min(group.task_count, 5000)
        group.name = f"{name}/taskGroups/group0"
        group.scheduling_policy = group.scheduling_policy or 1
        size = group.task_spec.compute_resource
        size.cpu_milli, size.memory_mib = size.cpu_milli or 2000, size.memory_mib or 2000
        job.name, job.uid = name, f"{name.rpartition('/')[2][:40].rstrip('-')}-{uuid.uuid4().hex[:12]}"
        job.create_time.FromNanoseconds(self._now())
        job.update_time.CopyFrom(job.create_time)
        job.status.state = State.QUEUED

    def _now(self) -> int:
        self._last = max(self.now_ns(), self._last + 1000)
        return self._last

    def _move(self, job: Any, state: Any, words: str = "") -> None:
        before, job.status.state = State(job.status.state).name, state
        said = words or f"Job state is set from {before} to {State(state).name} for job {job.name}."
        self.tell(job, "STATUS_CHANGED", said)

    def tell(self, job: Any, kind: str, words: str) -> None:
        """Have a job say something."""
        event = job.status.status_events.add(type_=kind, description=words)
        event.event_time.FromNanoseconds(self._now())
        job.update_time.CopyFrom(event.event_time)

    @staticmethod
    def _count(job: Any, counts: Mapping[str, int]) -> None:
        told = job.status.task_groups["group0"].counts
        told.clear()
        for state, many in counts.items():
            told[state] = many

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _stop(self, made: Running, end: Any) -> None:
        if made.driver is not None:
            made.driver.cancel()
            await asyncio.gather(made.driver, return_exceptions=True)
        await asyncio.sleep(self.pace.ending)
        if end is None:
            self.jobs.pop(made.job.name, None)
        else:
            self._move(made.job, end)

    async def _drive(self, made: Running) -> None:
        job, (group,) = made.job, made.job.task_groups
        await asyncio.sleep(self.pace.queued)
        if group.task_spec.compute_resource.cpu_milli >= TOO_MUCH:
            self.tell(job, "OPERATIONAL_INFO", "VM creation failed: CODE_GCE_ZONE_RESOURCE_POOL_EXHAUSTED")
            await asyncio.Event().wait()
        self._move(job, State.SCHEDULED)
        names = (f"{group.name}/tasks/{index}" for index in range(group.task_count))
        made.tasks = [batch_v1.Task.pb(batch_v1.Task(name=name, status={"state": 1})) for name in names]
        self._recount(made)
        await asyncio.sleep(self.pace.scheduled)
        self._move(job, State.RUNNING)
        networked = group.task_count > 1 and group.require_hosts_file
        shared = await self.runs.prepare(job.uid, group.task_count, networked=networked)
        turns = asyncio.Semaphore(group.parallelism)
        try:
            async with asyncio.TaskGroup() as tasks:
                for index in range(group.task_count):
                    tasks.create_task(self._task(made, index, shared, turns))
        except asyncio.CancelledError:
            self._cut_off(made)
            raise
        finally:
            await asyncio.shield(self.runs.tidy(job.uid))
        failed = any(task.status.state == TaskState.FAILED for task in made.tasks)
        self._move(job, State.FAILED if failed else State.SUCCEEDED)

    async def _task(self, made: Running, index: int, shared: Mapping[str, str], turns: asyncio.Semaphore) -> None:
        spec, task = made.job.task_groups[0].task_spec, made.tasks[index]
        async with turns:
            for attempt in range(spec.max_retry_count + 1):
                self._set(made, task, TaskState.ASSIGNED)
                self._set(made, task, TaskState.RUNNING)
                code = await self._attempt(made, index, attempt, shared)
                if code == 0:
                    self._set(made, task, TaskState.SUCCEEDED)
                    return
                if attempt == spec.max_retry_count or not _is_retried(spec, code):
                    self._set(made, task, TaskState.FAILED, code)
                    return
                self._set(made, task, TaskState.PENDING, code)

    async def _attempt(self, made: Running, index: int, attempt: int, shared: Mapping[str, str]) -> int:
        job, (group,) = made.job, made.job.task_groups
        spec, result = group.task_spec, 0
        common = {**spec.environment.variables, **shared, **_variables(job, index, attempt)}

        def say(line: str, severity: str, written: int | None) -> None:
            if job.logs_policy.destination == 1:
                more: dict[str, Any] = {"written_ns": written, "labels": dict(job.labels)}
                self.logs.write(job.uid, index, line, attempt=attempt, severity=severity, **more)

        for runnable in spec.runnables:
            if result and not runnable.always_run:
                continue
            environment = {**common, **runnable.environment.variables}
            running = Attempt(job.uid, index, group.task_count, attempt, runnable, environment)
            try:
                async with asyncio.timeout(spec.max_run_duration.ToNanoseconds() / 1e9 or None):
                    code = await self.runs.run(running, say)
            except TimeoutError:
                code = OVER_TIME
            result = result or (0 if runnable.ignore_exit_status else code)
        return result

    def _set(self, made: Running, task: Any, state: Any, code: int | None = None) -> None:
        before, task.status.state = TaskState(task.status.state).name, state
        why = "" if code is None else f" due to {'Spot Preemption' if code == 50001 else 'task failure'}"
        why += "" if code is None else f" with exit code {code}"
        words = (
            f"Task state is updated from {before} to {TaskState(state).name} on zones/us-central1-a/instances/8{why}."
        )
        event = task.status.status_events.add(type_="STATUS_CHANGED", task_state=state, description=words)
        event.event_time.FromNanoseconds(self._now())
        if code is not None:
            event.task_execution.exit_code = code
        self._recount(made)
        made.job.update_time.CopyFrom(event.event_time)

    def _recount(self, made: Running) -> None:
        counts: dict[str, int] = {}
        for task in made.tasks:
            name = TaskState(task.status.state).name
            counts[name] = counts.get(name, 0) + 1
        self._count(made.job, counts)

    def _cut_off(self, made: Running) -> None:
        for task in made.tasks:
            if task.status.state in (TaskState.RUNNING, TaskState.ASSIGNED):
                self._set(made, task, TaskState.FAILED, 137)
            elif task.status.state == TaskState.PENDING:
                self._set(made, task, TaskState.UNEXECUTED)


def _is_retried(spec: Any, code: int) -> bool:
    if not spec.lifecycle_policies:
        return True
    (policy,) = spec.lifecycle_policies
    listed = code in policy.action_condition.exit_codes
    return listed if policy.action == batch_v1.LifecyclePolicy.Action.RETRY_TASK else not listed


def _variables(job: Any, index: int, attempt: int) -> dict[str, str]:
    count = str(job.task_groups[0].task_count)
    return {
        "BATCH_TASK_INDEX": str(index),
        "BATCH_TASK_COUNT": count,
        "BATCH_TASK_RETRY_ATTEMPT": str(attempt),
        "BATCH_JOB_UID": job.uid,
        "BATCH_NODE_INDEX": str(index),
        "BATCH_NODE_COUNT": count,
    }


def _shown(driver: asyncio.Task[None]) -> None:
    if not driver.cancelled() and (error := driver.exception()) is not None:
        raise error
