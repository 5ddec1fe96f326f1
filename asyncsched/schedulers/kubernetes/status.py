"""From records to the description of an app, and to the rows of a list: no I/O, no SDK."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from asyncsched.schedulers.kubernetes.status_jobs import EventRecord, JobRecord, Kind, PodGroupRecord
from asyncsched.schedulers.kubernetes.status_pods import PodRecord
from asyncsched.schedulers.responses import DescribeAppResponse, ListAppResponse

__all__ = ["describe", "list_row", "list_rows", "needs_events"]


def describe(
    jobs: Sequence[JobRecord],
    pods: Iterable[PodRecord] = (),
    pod_group: PodGroupRecord | None = None,
    events: Iterable[EventRecord] = (),
) -> DescribeAppResponse | None:
    """Describe an app; None where there is no job of it.

    Args:
        jobs: Its jobs: one, but for several roles of ``kind=job``, whose Jobs come in any order.
        pods: The app's pods; those of an earlier job of the same name are passed over.
        pod_group: Volcano's PodGroup of it, where it was read.
        events: Events of any objects; those of others are passed over.
    """
    raise NotImplementedError


def needs_events(jobs: Sequence[JobRecord], pods: Sequence[PodRecord]) -> bool:
    """Tell whether an app waits for something that only its PodGroup or events can tell."""
    raise NotImplementedError


def list_row(session: str, jobs: Sequence[JobRecord]) -> ListAppResponse | None:
    """Return the row of an app from its jobs alone."""
    raise NotImplementedError


def list_rows(tables: Iterable[tuple[Kind, Mapping[str, object]]]) -> list[ListAppResponse]:
    """Return the rows that Tables (``as=Table``, ``includeObject=Metadata``) tell of, newest first.

    Args:
        tables: The kind of what was listed, and the Table as its JSON has it.
    """
    raise NotImplementedError
