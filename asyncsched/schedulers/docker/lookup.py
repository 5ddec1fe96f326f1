"""Find apps by the labels of their containers, and add what lists leave out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from asyncsched._tasks import gather_bounded
from asyncsched.errors import NotFoundError
from asyncsched.schedulers.docker import names
from asyncsched.schedulers.docker.status import describe_app, list_row
from asyncsched.schedulers.docker.status_containers import (
    KILLED,
    Container,
    by_app,
    needs_details,
    read_container,
    with_details,
)
from asyncsched.specs.result import LARGEST_RESULT, UnreadableResult, read_result
from asyncsched.specs.to_plain import JsonValue

if TYPE_CHECKING:
    from asyncsched._dockerd import Daemon
    from asyncsched.schedulers.responses import DescribeAppResponse, ListAppResponse

__all__ = ["DockerLookup", "keep"]

T = TypeVar("T")

_INSPECT_AT_ONCE = 16
_READ_AT_ONCE = 8
_KEPT = 4096


class DockerLookup:
    """Finds containers and what is known about them; caches what can no longer change.

    Args:
        docker: Returns the daemon.
    """

    def __init__(self, docker: Callable[[], Awaitable[Daemon]]) -> None:
        self._docker = docker
        self._details: dict[str, Container] = {}  # of containers that have ended
        self._ends: dict[str, Mapping[str, Any]] = {}  # inspections made by a watch, until they are needed

    async def describe(self, app_id: str) -> DescribeAppResponse | None:
        """Describe one app, with the times of the replicas that have ended."""
        return describe_app(app_id, await self.ends_of(await self.members(app_id, "describe")))

    async def describe_many(self, app_ids: Collection[str]) -> dict[str, DescribeAppResponse | None]:
        """Describe any number of apps with one list request."""
        if len(app_ids) == 1:
            return {app_id: await self.describe(app_id) for app_id in app_ids}
        found = by_app(await self.containers(names.APP_ID, "describe_many", only=set(app_ids)))
        return {app_id: describe_app(app_id, found.get(app_id, ())) for app_id in app_ids}

    async def rows(self) -> AsyncGenerator[ListAppResponse]:
        """Yield a row for each app, the newest first."""
        daemon = await self._docker()
        found = await self.listed_by_app("list")
        newest_first = sorted(found.items(), key=lambda app: max(each.created for each in app[1]), reverse=True)
        for app_id, members in newest_first:
            yield list_row(daemon.backend, app_id, members)

    async def members(self, app_id: str, operation: str) -> Sequence[Container]:
        """Return an app's containers in the order of its replicas."""
        return by_app(await self.containers(f"{names.APP_ID}={app_id}", operation)).get(app_id, [])

    async def containers(
        self, label: str, operation: str, *, only: Collection[str] | None = None
    ) -> Sequence[Container]:
        """Return the containers with a label, restricted to those of these apps."""
        found = await self._listed(label, operation)
        wanted = [container for container in found if only is None or container.app_id in only]
        return await gather_bounded(self._detailed, wanted, _INSPECT_AT_ONCE)

    async def listed_by_app(self, operation: str) -> Mapping[str, Sequence[Container]]:
        """Return the containers of all apps by one list, without what it leaves out."""
        return by_app(await self._listed(names.APP_ID, operation))

    async def _listed(self, label: str, operation: str) -> Sequence[Container]:
        daemon = await self._docker()
        found = map(read_container, await daemon.list_containers([label], operation=operation))
        return [container for container in found if container.labels]

    # What lists leave out

    def keep_end(self, container_id: str, inspected: Mapping[str, Any]) -> None:
        """Keep a watch's inspection of a container that has ended."""
        parts = {name: inspected[name] for name in ("Name", "State", "RestartCount") if name in inspected}
        keep(self._ends, container_id, parts)

    async def ends_of(self, members: Iterable[Container]) -> Sequence[Container]:
        """Return the containers, with the times of those that have ended, which no list has."""

        async def end_of(container: Container) -> Container:
            if container.detailed or not container.over:
                return container
            try:
                return await self._inspect(container)
            except NotFoundError:
                return container  # it has just been removed

        return await gather_bounded(end_of, members, _INSPECT_AT_ONCE)

    async def _detailed(self, container: Container) -> Container:
        """Add what is cached about a container, and inspect it if the list leaves out something that matters."""
        known = self._details.get(container.id)
        if known is None and (seen := self._ends.pop(container.id, None)) is not None:
            known = self._with_details(container, seen)
        if known is not None and (known.state, known.name) == (container.state, container.name):
            return known
        if not needs_details(container):
            return container
        try:
            return await self._inspect(container)
        except NotFoundError:
            return container  # it has just been removed

    async def _inspect(self, container: Container) -> Container:
        daemon = await self._docker()
        return self._with_details(container, await daemon.inspect_container(container.id, operation="describe"))

    def _with_details(self, container: Container, inspected: Mapping[str, Any]) -> Container:
        detailed = with_details(container, inspected)
        # The out-of-memory flag may be set a little later than the end.
        if detailed.over and (detailed.out_of_memory or detailed.exit_code != KILLED):
            keep(self._details, container.id, detailed)
        return detailed

    # Results

    async def results(self, app_id: str) -> Mapping[tuple[str, int], JsonValue] | None:
        """Return the content of the replicas' result files; None if there is no such app."""
        members = await self.members(app_id, "results")
        if not members:
            return None
        found: dict[tuple[str, int], JsonValue] = {}

        async def read(container: Container) -> None:
            try:
                found[container.role, container.replica] = await self._result(container)
            except NotFoundError:
                pass  # it has written no result

        with_label = [each for each in members if each.identity.result and not each.identity.fault]
        await gather_bounded(read, with_label, _READ_AT_ONCE)
        return {place: found[place] for each in with_label if (place := (each.role, each.replica)) in found}

    async def _result(self, container: Container) -> JsonValue:
        daemon = await self._docker()
        from asyncsched._dockerd import read_file  # imported by the line above, in a thread

        try:
            path = container.identity.result
            data = await read_file(daemon, container.id, path, LARGEST_RESULT + 1, operation="results")
        except ValueError as error:
            return UnreadableResult(f"the result {error}")
        return read_result(data)


def keep(known: dict[str, T], key: str, value: T) -> None:
    """Add a value to a cache; drop the oldest if the cache is full."""
    while len(known) >= _KEPT:
        del known[next(iter(known))]
    known[key] = value
