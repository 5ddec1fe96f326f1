"""All apps of some namespaces, newest first: by Tables, which are a tenth of what the objects would be."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Any

from asyncsched.errors import NotFoundError, PermissionDeniedError, SchedulerError
from asyncsched.schedulers.kubernetes import lookup_paths as paths
from asyncsched.schedulers.kubernetes import names
from asyncsched.schedulers.kubernetes.client import KubeClient
from asyncsched.schedulers.kubernetes.lookup_server import Server
from asyncsched.schedulers.kubernetes.status import list_rows
from asyncsched.schedulers.kubernetes.status_jobs import Kind
from asyncsched.schedulers.responses import ListAppResponse

__all__ = ["ALL", "Namespaces", "list_apps"]

_log = logging.getLogger("asyncsched.schedulers.kubernetes")

ALL = "*"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
PAGE = 500


class Namespaces:
    """Where lists look: in what was asked for, else in default, the context's and those that were submitted to.

    Args:
        asked: Names of namespaces, or ``*`` for all.
    """

    def __init__(self, asked: Sequence[str] | str | None) -> None:
        self._asked = [asked] if isinstance(asked, str) else list(asked) if asked is not None else None
        self._used: dict[str, None] = {}
        self._warned: set[str] = set()

    def use(self, namespace: str) -> None:
        """Note that something was submitted there."""
        self._used[namespace] = None

    async def names(self, client: KubeClient) -> list[str]:
        """Return the namespaces; an empty name is all of them."""
        if self._asked is not None:
            return [""] if ALL in self._asked else list(dict.fromkeys(self._asked))
        return list(dict.fromkeys(("default", (await client.target()).namespace, *self._used)))

    def left_out(self, errors: Mapping[str, SchedulerError]) -> None:
        """Tell once of each namespace that could not be read."""
        for namespace, error in errors.items():
            if namespace not in self._warned:
                self._warned.add(namespace)
                _log.warning("the list leaves out the namespace %s: %s", namespace or ALL, error)


async def list_apps(client: KubeClient, server: Server, namespaces: Namespaces) -> AsyncGenerator[ListAppResponse]:
    """Yield a row for each app, newest first.

    Raises:
        PermissionDeniedError: None of the namespaces may be read.
    """
    kinds = await server.kinds()
    wanted = await namespaces.names(client)
    tables: list[tuple[Kind, Mapping[str, object]]] = []
    refused: dict[str, SchedulerError] = {}
    for namespace in wanted:
        found, errors = await _read(client, namespace, kinds)
        tables += found
        if len(errors) == len(kinds):
            refused[namespace] = errors[0]
    if len(refused) == len(wanted):
        raise next(iter(refused.values()))
    namespaces.left_out(refused)
    for row in list_rows(tables):
        yield row


async def _read(
    client: KubeClient, namespace: str, kinds: Iterable[Kind]
) -> tuple[list[tuple[Kind, Mapping[str, object]]], list[SchedulerError]]:
    """Read the Tables of a namespace; a role may be for one kind of job only."""
    tables: list[tuple[Kind, Mapping[str, object]]] = []
    errors: list[SchedulerError] = []
    for kind in kinds:
        try:
            tables += [(kind, table) for table in await _tables(client, paths.jobs(namespace, kind))]
        except (PermissionDeniedError, NotFoundError) as error:
            errors.append(error)
    return tables, errors


async def _tables(client: KubeClient, path: str) -> list[Mapping[str, Any]]:
    query = {"labelSelector": names.SELECTOR, "limit": str(PAGE), "includeObject": "Metadata"}
    found: list[Mapping[str, Any]] = []
    while True:
        table = (await client.request("GET", path, query=query, accept=TABLE, operation="list")).json
        found.append(table)
        rest = table.get("metadata", {}).get("continue") if isinstance(table, dict) else None
        if not rest:
            return found
        query = {**query, "continue": str(rest)}
