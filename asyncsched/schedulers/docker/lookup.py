"""Finding apps by the labels of their containers, with what lists leave out."""

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
    """Finds containers and what is known of them; remembers what does not change any more.

    Args:
        docker: Gives the daemon.
    """

    def __init__(self, docker: Callable[[], Awaitable[Daemon]]) -> None:
        self._docker = docker
        self._details: dict[str, Container] = {}  # of containers that are over
        self._ends: dict[str, Mapping[str, Any]] = {}  # inspections that a watch has made, until they are needed

    async def describe(self, app_id: str) -> DescribeAppResponse | None:
        """Describe one app, with the times of the replicas that have ended."""
        return describe_app(app_id, await self.ends_of(await self.members(app_id, "describe")))

    async def describe_many(self, app_ids: Collection[str]) -> dict[str, DescribeAppResponse | None]:
        """Describe any number of apps by one list."""
        if len(app_ids) == 1:
            return {app_id: await self.describe(app_id) for app_id in app_ids}
        found = by_app(await self.containers(names.APP_ID, "describe_many", only=set(app_ids)))
        return {app_id: describe_app(app_id, found.get(app_id, ())) for app_id in app_ids}

    async def rows(self) -> AsyncGenerator[ListAppResponse]:
        """Yield a row for each app, the newest first."""
        daemon = await self._docker()
        found = by_app(map(read_container, await daemon.list_containers([names.APP_ID], operation="list")))
        newest_first = sorted(found.items(), key=lambda app: max(each.created for each in app[1]), reverse=True)
        for app_id, members in newest_first:
            yield list_row(daemon.backend, app_id, members)

    async def members(self, app_id: str, operation: str) -> Sequence[Container]:
        """Return an app's containers in the order of its replicas."""
        return by_app(await self.containers(f"{names.APP_ID}={app_id}", operation)).get(app_id, [])

    async def containers(
        self, label: str, operation: str, *, only: Collection[str] | None = None
    ) -> Sequence[Container]:
        """Return the containers with a label, those only that belong to one of these apps."""
        daemon = await self._docker()
        found = [read_container(entry) for entry in await daemon.list_containers([label], operation=operation)]
        wanted = [container for container in found if only is None or container.app_id in only]
        return await gather_bounded(self._detailed, wanted, _INSPECT_AT_ONCE)

    # What lists leave out

    def keep_end(self, container_id: str, inspected: Mapping[str, Any]) -> None:
        """Remember what a watch was told of a container that has ended."""
        parts = {name: inspected[name] for name in ("Name", "State", "RestartCount") if name in inspected}
        keep(self._ends, container_id, parts)

    async def ends_of(self, members: Iterable[Container]) -> Sequence[Container]:
        """Return the same containers, those that have ended with the times of it, which no list has."""

        async def end_of(container: Container) -> Container:
            if container.detailed or not container.over:
                return container
            try:
                return await self._inspect(container)
            except NotFoundError:
                return container  # it was removed a moment ago

        return await gather_bounded(end_of, members, _INSPECT_AT_ONCE)

    async def _detailed(self, container: Container) -> Container:
        """Add what is known of a container, and ask for what somebody would miss."""
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
            return container  # it was removed a moment ago

    async def _inspect(self, container: Container) -> Container:
        daemon = await self._docker()
        return self._with_details(container, await daemon.inspect_container(container.id, operation="describe"))

    def _with_details(self, container: Container, inspected: Mapping[str, Any]) -> Container:
        detailed = with_details(container, inspected)
        # Word of a lack of memory may come a little later than that of the end.
        if detailed.over and (detailed.out_of_memory or detailed.exit_code != KILLED):
            keep(self._details, container.id, detailed)
        return detailed

    # Results

    async def results(self, app_id: str) -> Mapping[tuple[str, int], JsonValue] | None:
        """Return what an app's replicas have written to their result files; None if there is no such app."""
        members = await self.members(app_id, "results")
        if not members:
            return None
        found: dict[tuple[str, int], JsonValue] = {}

        async def read(container: Container) -> None:
            try:
                found[container.role, container.replica] = await self._result(container)
            except NotFoundError:
                pass  # it has written none

        with_label = [each for each in members if each.identity.result and not each.identity.fault]
        await gather_bounded(read, with_label, _READ_AT_ONCE)
        return {place: found[place] for each in with_label if (place := (each.role, each.replica)) in found}

    async def _result(self, container: Container) -> JsonValue:
        daemon = await self._docker()
        from asyncsched._dockerd import read_file  # loaded by the line above, in a thread

        try:
            path = container.identity.result
            data = await read_file(daemon, container.id, path, LARGEST_RESULT + 1, operation="results")
        except ValueError as error:
            return UnreadableResult(f"the result {error}")
        return read_result(data)


def keep(known: dict[str, T], key: str, value: T) -> None:
    """Remember something; the oldest goes when there is no room."""
    while len(known) >= _KEPT:
        del known[next(iter(known))]
    known[key] = value
