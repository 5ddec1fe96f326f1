"""The rows of a list, from jobs as records or from Tables as the API server makes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import cast

from asyncsched.schedulers.kubernetes import names
from asyncsched.schedulers.kubernetes.status import session_of
from asyncsched.schedulers.kubernetes.status_jobs import JobRecord, Kind, job_record, jobs_of_app
from asyncsched.schedulers.kubernetes.status_pods import items, section, shared_text
from asyncsched.schedulers.kubernetes.status_states import JOB_STATUS, VOLCANO_PHASES, job_state, state_of_phase
from asyncsched.schedulers.responses import ListAppResponse
from asyncsched.specs.handle import make_app_handle
from asyncsched.specs.state import AppState, combine

__all__ = ["list_row", "list_rows", "rows_of_tables"]

_START = datetime.fromtimestamp(0, UTC)
_COLUMNS: Mapping[Kind, tuple[str, Mapping[str, AppState]]] = {
    "volcano": ("STATUS", VOLCANO_PHASES),
    "job": ("Status", JOB_STATUS),
}
"""Which column tells the state, and what its words mean."""


def list_row(jobs: Sequence[JobRecord], backend: str = "kubernetes") -> ListAppResponse | None:
    """Return the row of an app from its jobs alone; None where the one that it is named after is not among them.

    Args:
        jobs: The jobs of the app.
        backend: The scheduler's name, for the handle.
    """
    return _row([(job, job_state(job)) for job in jobs], backend)


def list_rows(jobs: Iterable[JobRecord], backend: str = "kubernetes") -> list[ListAppResponse]:
    """Return the rows of the apps that jobs belong to, newest first."""
    return _rows(((job, job_state(job)) for job in jobs), backend)


def rows_of_tables(tables: Iterable[tuple[Kind, object]], backend: str = "kubernetes") -> list[ListAppResponse]:
    """Return the rows that Tables tell of, newest first; without a column for it an app's state is UNKNOWN.

    Args:
        tables: The kind of what was listed, and the Table (``as=Table``, ``includeObject=Metadata``) as its JSON is.
        backend: The scheduler's name, for the handles.
    """
    return _rows((row for kind, table in tables for row in _read_table(kind, table)), backend)


def _read_table(kind: Kind, table: object) -> Iterator[tuple[JobRecord, AppState]]:
    if not isinstance(table, Mapping):
        return
    columns = [column.get("name") for column in items(cast("Mapping[str, object]", table).get("columnDefinitions"))]
    name, words = _COLUMNS[kind]
    place = columns.index(name) if name in columns else -1
    for row in items(cast("Mapping[str, object]", table).get("rows")):
        job = job_record(section(row, "object"), kind)
        cells = row.get("cells")
        if job is None or not isinstance(cells, list):
            continue
        known = cast("list[object]", cells)
        told = 0 <= place < len(known)
        yield job, _state(job, shared_text(known[place]), words) if told else AppState.UNKNOWN


def _state(job: JobRecord, word: str, words: Mapping[str, AppState]) -> AppState:
    state = state_of_phase(words, word, "job in a Table")
    if word == "Suspended" and job.cancelled:
        return AppState.CANCELLED
    return AppState.FAILED if word == "Suspended" and job.unscheduled else state


def _rows(jobs: Iterable[tuple[JobRecord, AppState]], backend: str) -> list[ListAppResponse]:
    apps: dict[tuple[str, str], list[tuple[JobRecord, AppState]]] = {}
    for job, state in jobs:
        apps.setdefault((job.namespace, job.app), []).append((job, state))
    rows = [row for members in apps.values() if (row := _row(_own(members), backend)) is not None]
    return sorted(rows, key=lambda row: row.created_at or _START, reverse=True)


def _own(members: Sequence[tuple[JobRecord, AppState]]) -> list[tuple[JobRecord, AppState]]:
    own = {id(job) for job in jobs_of_app(job for job, _ in members)}
    return [(job, state) for job, state in members if id(job) in own]


def _row(jobs: Sequence[tuple[JobRecord, AppState]], backend: str) -> ListAppResponse | None:
    first = next((job for job, _ in jobs if job.is_first), None)
    if first is None or not names.is_dns_label(first.namespace):
        return None
    states = [state for _, state in jobs]
    session = session_of(first)
    return ListAppResponse(
        first.app_id,
        combine(states, cancelled=AppState.CANCELLED in states) if len(states) > 1 else states[0],
        make_app_handle(backend, session, first.app_id),
        name=first.app_name,
        session=session,
        created_at=first.created_at,
        native_id=first.uid,
    )
