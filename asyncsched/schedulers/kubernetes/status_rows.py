"""Make the rows of a list from records of jobs or from the API server's Tables, and from pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import cast

from asyncsched.schedulers.kubernetes import names
from asyncsched.schedulers.kubernetes.status import describe_app, pods_of, session_of
from asyncsched.schedulers.kubernetes.status_jobs import JobRecord, Kind, job_record, jobs_of_app
from asyncsched.schedulers.kubernetes.status_pods import PodRecord, integer, items, section, shared_text
from asyncsched.schedulers.kubernetes.status_states import (
    JOB_STATUS,
    VOLCANO_PHASES,
    job_state,
    pod_state,
    state_of_phase,
)
from asyncsched.schedulers.responses import ListAppResponse
from asyncsched.specs.handle import make_app_handle
from asyncsched.specs.state import AppState, combine

__all__ = ["Told", "in_doubt", "list_row", "needs_pods", "rows_of", "tells_states", "told_by_jobs", "told_by_tables"]

Told = tuple[JobRecord, AppState]
"""A job, and its state without regard to pods."""

_START = datetime.fromtimestamp(0, UTC)
_COLUMNS: Mapping[Kind, tuple[str, Mapping[str, AppState]]] = {
    "volcano": ("STATUS", VOLCANO_PHASES),
    "job": ("Status", JOB_STATUS),
}
"""The column with the state, and the meaning of its values."""
_LEAST = "minAvailable"
"""The column with the number of replicas that must succeed, whatever the job's policies are."""


def list_row(jobs: Sequence[JobRecord], backend: str = "kubernetes") -> ListAppResponse | None:
    """Return the row of an app from its jobs alone; None if its first job is not among them.

    Args:
        jobs: The jobs of the app.
        backend: The scheduler's name, for the handle.
    """
    return _row([(job, job_state(job)) for job in jobs], (), backend)


def told_by_jobs(jobs: Iterable[JobRecord]) -> list[Told]:
    """Return jobs with their states."""
    return [(job, job_state(job)) for job in jobs]


def tells_states(kind: Kind, table: object) -> bool:
    """Return whether a Table has the column with the state; the installed CRD decides about its columns."""
    return _COLUMNS[kind][0] in _columns(table)


def told_by_tables(tables: Iterable[tuple[Kind, object]]) -> list[Told]:
    """Return the jobs of Tables with their states; without the column the state is UNKNOWN.

    Args:
        tables: The kind of the jobs, and the JSON of the Table (``as=Table``, ``includeObject=Metadata``).
    """
    return [row for kind, table in tables for row in _read_table(kind, table)]


def needs_pods(job_states: Iterable[Told]) -> set[tuple[str, str]]:
    """Return namespace and name of the apps whose pods are needed to know whether they are active."""
    return {(job.namespace, job.app) for job, state in job_states if _is_unsure(state)}


def rows_of(
    job_states: Iterable[Told], pods: Iterable[PodRecord] = (), backend: str = "kubernetes"
) -> list[ListAppResponse]:
    """Return the rows of the jobs' apps, newest first.

    Args:
        job_states: The jobs with their states.
        pods: Pods of these and other apps; an app without pods is described by its jobs.
        backend: The scheduler's name, for the handles.
    """
    apps: dict[tuple[str, str, str], list[Told]] = {}
    for job, state in job_states:
        apps.setdefault((job.kind, job.namespace, job.app), []).append((job, state))
    by_app: dict[tuple[str, str], list[PodRecord]] = {}
    for pod in pods:
        by_app.setdefault((pod.namespace, pod.app), []).append(pod)
    found = [_row(_own(jobs), by_app.get((namespace, app), ()), backend) for (_, namespace, app), jobs in apps.items()]
    return sorted((row for row in found if row is not None), key=lambda row: row.created_at or _START, reverse=True)


def in_doubt(
    job_states: Iterable[Told], pods: Iterable[PodRecord], rows: Iterable[ListAppResponse]
) -> dict[str, list[str]]:
    """Return, by namespace, the apps whose jobs must be read in full because only their pods show a failure.

    Volcano may count a job as successful although replicas have failed, once enough have succeeded. A Table shows how
    many that is for the whole job, but neither for each task nor what Volcano does about a failure.

    Args:
        job_states: The jobs with their states.
        pods: Their pods.
        rows: The rows made from both.
    """
    failed = {row.app_id for row in rows if row.state is AppState.FAILED}
    succeeded = Counter(pod.owner for pod in pods if pod_state(pod) is AppState.SUCCEEDED)
    found: dict[str, list[str]] = {}
    for job, state in job_states:
        read_from_table = job.kind == "volcano" and not job.tasks and job.is_first
        if read_from_table and _is_unsure(state) and job.app_id in failed and succeeded[job.uid] >= job.least:
            found.setdefault(job.namespace, []).append(job.app)
    return found


def _read_table(kind: Kind, table: object) -> Iterator[Told]:
    columns, (name, words) = _columns(table), _COLUMNS[kind]
    for row in items(_under(table, "rows")):
        job = job_record(section(row, "object"), kind)
        cells = row.get("cells")
        if job is None or not isinstance(cells, list):
            continue
        told = dict(zip(columns, cast("list[object]", cells), strict=False))
        if name not in told:
            yield job, AppState.UNKNOWN
            continue
        word = shared_text(told[name])
        if kind == "volcano":
            yield replace(job, phase=word, least=max(0, integer(told.get(_LEAST)) or 0)), _state(job, word, words)
        else:
            yield job, _state(job, word, words)


def _columns(table: object) -> list[str]:
    return [shared_text(column.get("name")) for column in items(_under(table, "columnDefinitions"))]


def _under(table: object, key: str) -> object:
    return cast("Mapping[str, object]", table).get(key) if isinstance(table, Mapping) else None


def _state(job: JobRecord, word: str, words: Mapping[str, AppState]) -> AppState:
    state = state_of_phase(words, word, "job in a Table")
    if word == "Suspended" and job.cancelled:
        return AppState.CANCELLED
    return AppState.FAILED if word == "Suspended" and job.unscheduled else state


def _own(members: Sequence[Told]) -> list[Told]:
    own = {id(job) for job in jobs_of_app(job for job, _ in members)}
    return [(job, state) for job, state in members if id(job) in own]


def _row(job_states: Sequence[Told], pods: Sequence[PodRecord], backend: str) -> ListAppResponse | None:
    first = next((job for job, _ in job_states if job.is_first), None)
    if first is None or not names.is_dns_label(first.namespace):
        return None
    session = session_of(first)
    return ListAppResponse(
        first.app_id,
        _app_state(job_states, pods),
        make_app_handle(backend, session, first.app_id),
        name=first.app_name,
        session=session,
        created_at=first.created_at,
        native_id=first.uid,
    )


def _app_state(job_states: Sequence[Told], pods: Sequence[PodRecord]) -> AppState:
    states = [state for _, state in job_states]
    state = combine(states, cancelled=AppState.CANCELLED in states) if len(states) > 1 else states[0]
    own = pods_of([job for job, _ in job_states], pods) if _is_unsure(state) else []
    app = describe_app([job for job, _ in job_states], own) if own else None
    if app is None or not app.roles:
        return state  # without roles the number of expected pods is unknown
    # A Table does not show a job's replicas, and the note of its roles may be older than the job.
    return state if app.state.is_terminal() and not all(pod.ended for pod in own) else app.state


def _is_unsure(state: AppState) -> bool:
    return not state.is_terminal() and state is not AppState.UNKNOWN
