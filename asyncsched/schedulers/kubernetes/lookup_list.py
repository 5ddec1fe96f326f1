"""List all apps of some namespaces, newest first, from Tables (a tenth of the objects' size) and one list of pods."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from asyncsched.errors import ConfigError, NotFoundError, PermissionDeniedError, SchedulerError
from asyncsched.schedulers.kubernetes import lookup_paths as paths
from asyncsched.schedulers.kubernetes import names
from asyncsched.schedulers.kubernetes.client import KubeClient
from asyncsched.schedulers.kubernetes.lookup_server import Server
from asyncsched.schedulers.kubernetes.status_jobs import Kind, job_record
from asyncsched.schedulers.kubernetes.status_pods import PodRecord, pod_record, section
from asyncsched.schedulers.kubernetes.status_rows import (
    Told,
    in_doubt,
    needs_pods,
    rows_of,
    tells_states,
    told_by_jobs,
    told_by_tables,
)
from asyncsched.schedulers.responses import ListAppResponse

__all__ = ["ALL", "Namespaces", "list_apps"]

_log = logging.getLogger("asyncsched.schedulers.kubernetes")

ALL = "*"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
PAGE = 500
OURS: Mapping[str, str] = {"labelSelector": names.SELECTOR}
AT_ONCE = 100
"""Most app names in one request: a URL can have about eight thousand characters."""
_BEGINNING = datetime.fromtimestamp(0, UTC)


class Namespaces:
    """The namespaces to list: the configured ones, else default, the context's, and those submitted to.

    Args:
        asked: Names of namespaces, or ``*`` for all.

    Raises:
        ConfigError: One of the names is invalid.
    """

    def __init__(self, asked: Sequence[str] | str | None) -> None:
        self._asked = [asked] if isinstance(asked, str) else list(asked) if asked is not None else None
        for name in self._asked or ():
            if name != ALL and not names.is_dns_label(name):
                raise ConfigError(
                    f"the scheduler's parameter namespaces must have names of namespaces, got {name!r}",
                    why="a name has a-z, 0-9 and -, and at most 63 characters",
                    fix=f"pass a list of names, or {ALL} for all",
                )
        self._used: dict[str, None] = {}
        self._warned: set[str] = set()

    def use(self, namespace: str) -> None:
        """Add a namespace that was submitted to."""
        self._used[namespace] = None

    async def names(self, client: KubeClient) -> list[str]:
        """Return the namespaces; an empty name means all of them."""
        if self._asked is not None:
            return [""] if ALL in self._asked else list(dict.fromkeys(self._asked))
        return list(dict.fromkeys(("default", (await client.target()).namespace, *self._used)))

    def left_out(self, errors: Mapping[str, SchedulerError]) -> None:
        """Warn once about each namespace that could not be read."""
        for namespace, error in errors.items():
            self._warn(namespace, f"the list omits the namespace {namespace or ALL}: {error}")

    def without_pods(self, namespace: str, error: SchedulerError) -> None:
        """Warn once that the pods of a namespace could not be read."""
        what = f"the list shows the jobs of the namespace {namespace or ALL} without their pods: {error}"
        self._warn(namespace, what)

    def _warn(self, namespace: str, what: str) -> None:
        if namespace not in self._warned:
            self._warned.add(namespace)
            _log.warning("%s", what)


async def list_apps(client: KubeClient, server: Server, namespaces: Namespaces) -> AsyncGenerator[ListAppResponse]:
    """Yield one row per app, newest first.

    Raises:
        PermissionDeniedError: The role allows none of the namespaces.
    """
    kinds = await server.kinds()
    wanted = await namespaces.names(client)
    rows: list[ListAppResponse] = []
    refused: dict[str, SchedulerError] = {}
    for namespace in wanted:
        job_states, errors = await _read(client, namespace, kinds)
        rows += await _rows(client, namespaces, namespace, job_states)
        if len(errors) == len(kinds):
            refused[namespace] = errors[0]
    if len(refused) == len(wanted):
        raise next(iter(refused.values()))
    namespaces.left_out(refused)
    rows.sort(key=lambda row: row.created_at or _BEGINNING, reverse=True)
    for row in rows:
        yield row


async def _read(client: KubeClient, namespace: str, kinds: Iterable[Kind]) -> tuple[list[Told], list[SchedulerError]]:
    """Read the jobs of a namespace; a role may allow one kind of job only."""
    job_states: list[Told] = []
    errors: list[SchedulerError] = []
    for kind in kinds:
        try:
            job_states += await (_of_volcano(client, namespace) if kind == "volcano" else _of_jobs(client, namespace))
        except (PermissionDeniedError, NotFoundError) as error:
            errors.append(error)
    return job_states, errors


async def _of_volcano(client: KubeClient, namespace: str) -> Sequence[Told]:
    """Read Volcano's jobs as Tables, or as full objects if the Tables do not show their phases."""
    query = {**OURS, "limit": str(PAGE), "includeObject": "Metadata"}
    path, tables = paths.jobs(namespace, "volcano"), list[tuple[Kind, Mapping[str, Any]]]()
    while True:
        table = (await client.request("GET", path, query=query, accept=TABLE, operation="list")).json
        if not tells_states("volcano", table):
            return await _read_jobs(client, namespace, "volcano")
        tables.append(("volcano", table))
        rest = section(table, "metadata").get("continue")
        if not rest:
            return await asyncio.to_thread(told_by_tables, tables)
        query = {**query, "continue": str(rest)}


async def _of_jobs(client: KubeClient, namespace: str) -> Sequence[Told]:
    """Read Jobs as full objects: in a Table, a Job with waiting pods shows as running."""
    return await _read_jobs(client, namespace, "job")


async def _read_jobs(client: KubeClient, namespace: str, kind: Kind, query: Mapping[str, str] = OURS) -> Sequence[Told]:
    read = partial(job_record, kind=kind)
    page = await client.items(paths.jobs(namespace, kind), read, query=query, operation="list")
    return told_by_jobs(page.items)


async def _rows(
    client: KubeClient, namespaces: Namespaces, namespace: str, job_states: Sequence[Told]
) -> list[ListAppResponse]:
    """Make the rows of a namespace; read its pods if some app is active, because a sidecar may keep a job alive."""
    wanted = needs_pods(job_states)

    def pod_of_these(raw: Mapping[str, Any]) -> PodRecord | None:
        pod = pod_record(raw)
        return pod if pod is not None and (pod.namespace, pod.app) in wanted else None

    pods: list[PodRecord] = []
    if wanted:
        try:
            pods = (await client.items(paths.pods(namespace), pod_of_these, query=OURS, operation="list")).items
        except PermissionDeniedError as error:
            namespaces.without_pods(namespace, error)
    rows = await asyncio.to_thread(rows_of, job_states, pods)
    if pods and (doubtful := await asyncio.to_thread(in_doubt, job_states, pods, rows)):
        known = {job.uid: (job, state) for job, state in await _reread(client, doubtful)}
        return await asyncio.to_thread(rows_of, [known.get(job.uid, (job, state)) for job, state in job_states], pods)
    return rows


async def _reread(client: KubeClient, apps: Mapping[str, Sequence[str]]) -> list[Told]:
    """Read Volcano's jobs as full objects.

    Args:
        client: The client of the cluster.
        apps: The names of the apps, by namespace.
    """
    job_states: list[Told] = []
    for namespace, in_namespace in apps.items():
        for start in range(0, len(in_namespace), AT_ONCE):
            query = {"labelSelector": f"{names.APP} in ({','.join(in_namespace[start : start + AT_ONCE])})"}
            job_states += await _read_jobs(client, namespace, "volcano", query)
    return job_states
