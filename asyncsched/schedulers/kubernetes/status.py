"""Convert records to the description of an app, without I/O or an SDK."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from asyncsched._typing import NamedTuple
from asyncsched.schedulers._common.untrusted import read_session
from asyncsched.schedulers.kubernetes import names
from asyncsched.schedulers.kubernetes.names_note import read_note
from asyncsched.schedulers.kubernetes.status_jobs import EventRecord, JobRecord, PodGroupRecord
from asyncsched.schedulers.kubernetes.status_pods import PodRecord
from asyncsched.schedulers.kubernetes.status_reasons import NOT_STARTED, NOTHING, Reason, why_job_waits, why_refused
from asyncsched.schedulers.kubernetes.status_replicas import GIVEN_UP, NOT_BEGUN, Around, replica_status
from asyncsched.schedulers.kubernetes.status_states import is_ending, job_state, pod_state
from asyncsched.schedulers.responses import DescribeAppResponse
from asyncsched.specs.result import UnreadableResult, read_result
from asyncsched.specs.state import AppState, FailureCause, ReplicaStatus, RoleStatus, combine, find_cause
from asyncsched.specs.to_plain import JsonValue

__all__ = [
    "WAITS_FOR_MOMENT",
    "Description",
    "Native",
    "describe_app",
    "describing",
    "has_given_up",
    "needs_events",
    "pods_of",
    "results_of",
    "session_of",
    "waits",
    "wanted",
]

WAITS_FOR_MOMENT = 5.0
"""Seconds before events are read for a waiting pod: most pods start sooner."""
_MOST_REPLICAS = 100_000
_MOST_TOLD = 3
_LONGEST_RESULT = 4096
_POD_GONE = "one of its pods was deleted, or failed and is gone"
"""The reason of Volcano's verdict if no pod is left to explain it: Volcano gives none."""


class Native(NamedTuple):
    """The objects behind an app's description, for log sources.

    Attributes:
        jobs: Its jobs.
        pods: Its pods, with existing ones of earlier attempts.
    """

    jobs: tuple[JobRecord, ...]
    pods: tuple[PodRecord, ...]


def describe_app(
    jobs: Sequence[JobRecord],
    pods: Iterable[PodRecord] = (),
    pod_group: PodGroupRecord | None = None,
    events: Iterable[EventRecord] = (),
) -> DescribeAppResponse | None:
    """Describe an app; return None if it has no job.

    Args:
        jobs: Its jobs: one, or with ``kind=job`` one per role, in any order.
        pods: The app's pods; pods of an earlier job of the same name are ignored.
        pod_group: Its PodGroup (Volcano), if it was read.
        events: Events; those of other objects are ignored.
    """
    description = describing(jobs, pods, pod_group, events)
    return description.described() if description is not None else None


def describing(
    jobs: Sequence[JobRecord],
    pods: Iterable[PodRecord] = (),
    pod_group: PodGroupRecord | None = None,
    events: Iterable[EventRecord] = (),
) -> Description | None:
    """Begin what `describe_app` does; the rest may be long, for which the app's note alone may be the reason."""
    jobs = sorted(jobs, key=lambda job: (not job.is_first, job.role_index))
    if not jobs or not jobs[0].is_first:
        return None
    return Description(jobs, pods, pod_group, list(events))


class Description:
    """The description of one app in the making.

    Attributes:
        counts: How many replicas each role has.
    """

    def __init__(
        self,
        jobs: Sequence[JobRecord],
        pods: Iterable[PodRecord],
        pod_group: PodGroupRecord | None,
        events: Sequence[EventRecord],
    ) -> None:
        self.jobs, self.first = jobs, jobs[0]
        self.tasks = dict(self.first.tasks)
        self.pods = pods_of(jobs, pods)
        self.pod_group, self.events = pod_group, events
        self.roles, self.metadata = read_note(self.first.note, self.first.tasks)
        self.newest = _newest(self.pods)
        self.task_names = names.task_names(self.first.app, [(role.name, role.num_replicas) for role in self.roles])
        self.counts = self._counts()

    def described(self) -> DescribeAppResponse:
        """Return the description."""
        state = self._state()
        never_begun = self._never_begun() if state is AppState.FAILED else NOTHING
        statuses = list(self._statuses(state, never_begun))
        replicas = [replica for status in statuses for replica in status.replicas]
        why = self._waiting() if state in (AppState.SUBMITTED, AppState.PENDING) else never_begun
        first = self.first
        return DescribeAppResponse(
            app_id=first.app_id,
            state=state,
            num_restarts=self._restarts(),
            msg=self._message(state, replicas, why),
            roles_statuses=statuses,
            roles=self.roles,
            name=first.app_name,
            session=session_of(first),
            created_at=first.created_at,
            started_at=_earliest(replica.started_at for replica in replicas),
            finished_at=self._finished_at(state, replicas),
            metadata=self.metadata,
            cause=self._cause(state, replicas, why),
            native_id=first.uid,
            native=Native(tuple(self.jobs), tuple(self.pods)),
        )

    # States

    def _state(self) -> AppState:
        if _is_unreleased(self.first):
            return AppState.PENDING  # regardless of the Jobs of other roles
        states = [self._state_of(job) for job in self.jobs]
        if (by_containers := self._by_containers()) is not None and not all(each.is_terminal() for each in states):
            return by_containers
        if len(self.jobs) < len(self.roles) and self.first.kind == "job" and not any(map(is_ending, self.jobs)):
            states.append(AppState.PENDING)  # the Job of a role does not exist yet
        return combine(states, cancelled=AppState.CANCELLED in states) if len(states) > 1 else states[0]

    def _state_of(self, job: JobRecord) -> AppState:
        state = job_state(job)
        own = [pod for pod in self.newest.values() if pod.owner == job.uid]
        alive = [pod for pod in own if not pod_state(pod).is_terminal()]
        if state is AppState.CANCELLED and alive:
            return AppState.RUNNING  # its pods are terminating
        if state in (AppState.SUBMITTED, AppState.PENDING) and any(pod.started for pod in own):
            return AppState.RUNNING
        if _gives_up(job) and not any(pod.started for pod in own):
            return AppState.PENDING  # it is ending without ever having run
        return AppState.PENDING if state is AppState.SUBMITTED and own else state

    def _by_containers(self) -> AppState | None:
        """Return the verdict of the main containers if others keep their pods running, else None."""
        ended = [pod for pod in self.newest.values() if pod_state(pod).is_terminal()]
        kept = [pod for pod in ended if pod.phase == "Running"]
        if not kept or len(ended) < sum(self.counts) or any(map(is_ending, self.jobs)):
            return None
        verdict = combine([pod_state(pod) for pod in ended])
        if verdict is not AppState.FAILED:
            return verdict
        if self.first.has_enough(Counter(self._task_of(pod) for pod in ended if pod_state(pod) is AppState.SUCCEEDED)):
            return AppState.SUCCEEDED
        return None if any(role.max_retries for role in self.roles) else verdict

    def _task_of(self, pod: PodRecord) -> str:
        """Return the name of a pod's task in the job; each replica of a role may be a separate task."""
        return pod.task if pod.task in self.tasks else f"{pod.task}-{pod.replica}"

    # Replicas

    def _statuses(self, state: AppState, never_begun: Reason) -> Iterator[RoleStatus]:
        around = Around(
            jobs=self.jobs,
            app_state=state,
            cancelled=any(map(is_ending, self.jobs)),
            events=self.events,
            alone=sum(self.counts) == 1,
            never_begun=never_begun,
            missing=sum(self.counts) - len(self.newest),
        )
        for index, (role, count) in enumerate(zip(self.roles, self.counts, strict=True)):
            own = [replica_status(role, index, k, self.newest.get((role.name, k)), around) for k in range(count)]
            yield RoleStatus(role.name, own)

    def _counts(self) -> list[int]:
        """Return how many replicas each role has, according to the job: the request may have been edited."""
        numbers = names.numbers_of_tasks(self.tasks)
        left, counts = _MOST_REPLICAS, list[int]()
        for index, role in enumerate(self.roles):
            if self.first.kind == "job":
                found = next((job.tasks[0][1] for job in self.jobs if job.role_index == index), role.num_replicas)
            else:
                task = self.task_names[index]
                of_each = sum(number < role.num_replicas for number in numbers.get(task, ()))
                found = self.tasks.get(task, of_each or role.num_replicas)
            counts.append(min(found, left))
            left -= counts[-1]
        return counts

    def _restarts(self) -> int:
        if self.first.kind == "volcano":
            return volcano_restarts(self.first)
        return sum(pod.attempt for pod in self.newest.values())

    # Reasons

    def _waiting(self) -> Reason:
        """Return what the whole app waits for."""
        for job in self.jobs:
            reason = why_job_waits(job, self._pods_of(job), self.pod_group, self.events)
            if reason.text:
                return reason
        return Reason(_held_back(self.first))

    def _never_begun(self) -> Reason:
        """Return why the app was ended before all its pods existed, although none of its programs had failed."""
        if any(pod_state(pod) is AppState.FAILED for pod in self.pods):
            return NOTHING
        by_volcano = self.first.phase == "Terminated"
        if by_volcano and (refused := why_refused(self.first, self._pods_of(self.first), self.events)) is not NOTHING:
            return refused
        began = any(pod.started for pod in self.pods)
        if self.first.unscheduled or (by_volcano and self.first.pending_limited and not began):
            return NOT_BEGUN
        return GIVEN_UP if by_volcano and not began else NOTHING

    def _pods_of(self, job: JobRecord) -> int:
        return sum(pod.owner == job.uid for pod in self.newest.values())

    def _message(self, state: AppState, replicas: Sequence[ReplicaStatus], why: Reason) -> str:
        if any(map(is_ending, self.jobs)) and not state.is_terminal():
            return "cancelling"
        if state is AppState.SUCCEEDED and not any(each.state is AppState.FAILED for each in replicas):
            return ""
        if state in (AppState.SUBMITTED, AppState.PENDING):
            # Jobs and pods have separate watches: a pod's failure may arrive before its job's.
            return why.text or _reasons(replicas, AppState.FAILED) or _reasons(replicas, AppState.PENDING)
        if state is AppState.FAILED and why.text:
            return why.text
        failed = _reasons(replicas, AppState.FAILED)
        if state is AppState.RUNNING:
            failing = "failing: " if failed and any(job.condition("FailureTarget") for job in self.jobs) else ""
            return f"{failing}{failed}" or _reasons(replicas, AppState.PENDING)
        return failed or (self._verdict() if state is AppState.FAILED else "")

    def _verdict(self) -> str:
        """Return the job's explanation of its failure."""
        for job in self.jobs:
            if condition := job.condition("Failed"):
                return f"{condition.reason}: {condition.message}".strip(": ")
        restarts = volcano_restarts(self.first)
        again = f"it failed again after {restarts} restart{'s' * (restarts != 1)}"
        return self.first.message or (again if restarts else _POD_GONE)

    def _cause(self, state: AppState, replicas: Sequence[ReplicaStatus], why: Reason) -> FailureCause | None:
        if why.cause is not None:
            return why.cause
        if state in (AppState.SUBMITTED, AppState.PENDING):
            has_failed = any(replica.state is AppState.FAILED for replica in replicas)
            return find_cause(AppState.FAILED if has_failed else AppState.PENDING, replicas)
        cause = find_cause(state, replicas)
        deadline = any(each.reason == "DeadlineExceeded" for job in self.jobs for each in job.conditions)
        return FailureCause.TIMEOUT if cause is FailureCause.UNKNOWN and deadline else cause

    def _finished_at(self, state: AppState, replicas: Sequence[ReplicaStatus]) -> datetime | None:
        if not state.is_terminal():
            return None
        ends = [replica.finished_at for replica in replicas if replica.finished_at is not None]
        return max(ends) if ends else self.first.finished_at


def volcano_restarts(job: JobRecord) -> int:
    """Return how often Volcano restarted the job; its count rises once more when it gives up."""
    return min(job.retry_count, max(job.max_retry - 1, 0)) if job.max_retry else job.retry_count


def _held_back(job: JobRecord) -> str:
    """Return why a healthy Job does not start."""
    if not job.suspended:
        return ""
    if job.queue:
        return f"waiting in the queue {job.queue} for Kueue to admit it"
    if _is_unreleased(job):
        return "not released yet: if the submitting process has ended, submit the app again or delete it"
    return "suspended"


def _gives_up(job: JobRecord) -> bool:
    """Return whether a job is about to fail."""
    is_failing = job.condition("FailureTarget") is not None and job.condition("Failed") is None
    return job.phase == "Terminating" or (is_failing and not job.succeeded)


def _is_unreleased(job: JobRecord) -> bool:
    """Return whether a Job is still suspended since its creation."""
    held = job.suspended and not job.queue and not job.cancelled and not job.unscheduled
    return held and job.kind == "job" and job.started_at is None


def _reasons(replicas: Iterable[ReplicaStatus], state: AppState) -> str:
    """Return the distinct reasons of the replicas in a state, each with its replicas."""
    found: dict[str, list[str]] = {}
    for replica in replicas:
        if replica.state is state and replica.reason:
            found.setdefault(replica.reason, []).append(f"{replica.role}/{replica.id}")
    lines = [f"{_some(who)}: {reason}" for reason, who in list(found.items())[:_MOST_TOLD]]
    more = len(found) - len(lines)
    return "; ".join([*lines, f"and {more} more"] if more else lines)


def _some(who: Sequence[str]) -> str:
    return who[0] if len(who) == 1 else f"{who[0]} and {len(who) - 1} more"


def _earliest(times: Iterable[datetime | None]) -> datetime | None:
    return min((each for each in times if each is not None), default=None)


# The objects of an app


def pods_of(jobs: Sequence[JobRecord], pods: Iterable[PodRecord]) -> list[PodRecord]:
    """Return the pods of these jobs, sorted by role, replica and attempt."""
    owners = {job.uid for job in jobs}
    own = [pod for pod in pods if pod.app == jobs[0].app and pod.owner in owners]
    return sorted(own, key=lambda pod: (pod.task, pod.replica, _age(pod)))


def _age(pod: PodRecord) -> tuple[int, float]:
    return pod.attempt, pod.created_at.timestamp() if pod.created_at is not None else 0.0


def _newest(pods: Iterable[PodRecord]) -> dict[tuple[str, int], PodRecord]:
    """Return the current pod of each replica: the newest one, but a pod that is being deleted only if it is alone."""
    found: dict[tuple[str, int], PodRecord] = {}
    for pod in pods:
        before = found.get((pod.role, pod.replica))
        if before is None or (pod.deleted_at is None, _age(pod)) >= (before.deleted_at is None, _age(before)):
            found[pod.role, pod.replica] = pod
    return found


def session_of(job: JobRecord) -> str:
    """Return the session that submitted a job; empty if the annotation is not valid in a handle."""
    try:
        return read_session(job.session)
    except ValueError:
        return ""


def needs_events(jobs: Sequence[JobRecord], pods: Iterable[PodRecord], now: float) -> bool:
    """Return whether events are needed to explain what an app waits for, or why Volcano ended it.

    Args:
        jobs: The app's jobs.
        pods: Its pods.
        now: The time in seconds since 1970; a wait that has just started is likely to end by itself.
    """
    if has_given_up(jobs):
        return wanted(jobs) > len(_newest(pods_of(jobs, pods)))
    return any(not _is_young(since, now) for since in _waiting_since(jobs, pods))


def has_given_up(jobs: Iterable[JobRecord]) -> bool:
    """Return whether Volcano ended an app that was not cancelled."""
    return any(job.phase == "Terminated" for job in jobs)


def waits(jobs: Sequence[JobRecord], pods: Iterable[PodRecord]) -> bool:
    """Return whether an app waits for something that only its PodGroup or events can explain."""
    return any(True for _ in _waiting_since(jobs, pods))


def _waiting_since(jobs: Sequence[JobRecord], pods: Iterable[PodRecord]) -> Iterator[datetime | None]:
    """Yield the creation times of what an app waits for: pods that have not started, or a job that lacks pods."""
    if not jobs or all(job_state(job).is_terminal() for job in jobs):
        return
    newest = _newest(pods_of(jobs, pods)).values()
    if wanted(jobs) > len(newest):
        yield from () if any(job.suspended for job in jobs) else (jobs[0].created_at,)
    else:
        yield from (pod.created_at for pod in newest if not pod.started)


def _is_young(since: datetime | None, now: float) -> bool:
    # `since` is from the server's clock; if the local clock is behind it, nothing counts as young.
    return since is not None and 0 <= now - since.timestamp() < WAITS_FOR_MOMENT


def wanted(jobs: Iterable[JobRecord]) -> int:
    """Return how many pods these jobs want."""
    return sum(replicas for job in jobs for _, replicas in job.tasks)


def results_of(app: DescribeAppResponse) -> Mapping[tuple[str, int], JsonValue]:
    """Return the contents of the replicas' result files; pods keep up to 4 KiB of each."""
    pods = app.native.pods if isinstance(app.native, Native) else ()
    return {place: _result(text) for place, pod in _newest(pods).items() if (text := _termination_message(pod))}


def _termination_message(pod: PodRecord) -> str:
    container = pod.container
    if container is None or container.phase != "terminated" or container.reason in NOT_STARTED:
        return ""  # a message of the runtime is not a result
    return container.message


def _result(text: str) -> JsonValue:
    data = text.encode()
    if len(data) >= _LONGEST_RESULT:
        return UnreadableResult(f"the result is larger than {_LONGEST_RESULT} bytes")
    return read_result(data)
