"""The two ways in which a ported program calls: awaiting, and blocking."""

from __future__ import annotations

import abc
from collections.abc import Coroutine, Mapping
from typing import Any

from typing_extensions import override

from asyncsched import sync
from asyncsched.schedulers import DescribeAppResponse, Scheduler, get_scheduler_factories
from asyncsched.specs import AppDef, Role
from asyncsched.sync import SyncScheduler
from tests.documents.places import Place

__all__ = ["Awaiting", "Blocking", "Way", "run_through"]


FACTORIES = get_scheduler_factories()
"""Not asked for in a loop: it reads what is installed."""


class Way(abc.ABC):
    """How a row calls what is ported.

    Attributes:
        place: Where it runs; None for a row that needs no service.
    """

    def __init__(self, place: Place | None = None) -> None:
        self.place = place
        self._made: list[Any] = []

    @abc.abstractmethod
    async def __call__(self, answer: Any) -> Any:
        """Return an answer: it stands where a port adds ``await``."""

    @abc.abstractmethod
    def of(self, scheduler: Scheduler[Any, Any]) -> Any:
        """Return the scheduler as this way calls it."""

    @abc.abstractmethod
    def factories(self) -> Mapping[str, Any]:
        """Return the factories by name."""

    @abc.abstractmethod
    async def all(self, items: Any) -> list[Any]:
        """Return what an iterator gives: it stands where a port writes ``async for``."""

    @abc.abstractmethod
    async def close(self) -> None:
        """Close what was made."""

    def made(self, scheduler: Any) -> Any:
        """Return a scheduler, which is closed at the end."""
        self._made.append(scheduler)
        return scheduler

    def scheduler(self) -> Any:
        """Return a scheduler of the row's backend."""
        assert self.place is not None
        return self.made(self.of(self.place.make()))

    def role(self, script: str = "", name: str = "main", **more: Any) -> Role:
        """Return a role that runs a shell script where the row runs."""
        image = self.place.image if self.place is not None else "image"
        return Role(name, image, entrypoint="sh", args=["-c", script], **more)

    async def submit(self, scheduler: Any, *roles: Role) -> str:
        """Launch an app."""
        assert self.place is not None
        app_id: str = await self(scheduler.submit(AppDef("job", list(roles)), self.place.cfg))
        return app_id

    async def ended(self, scheduler: Any, app_id: str) -> DescribeAppResponse:
        """Return an app at its end."""
        events = await self.all(scheduler.watch([app_id]))
        ended: DescribeAppResponse = events[-1].current
        return ended


class Awaiting(Way):
    """Coroutines and async generators."""

    @override
    async def __call__(self, answer: Any) -> Any:
        return await answer

    @override
    def of(self, scheduler: Scheduler[Any, Any]) -> Any:
        return scheduler

    @override
    def factories(self) -> Mapping[str, Any]:
        return FACTORIES

    @override
    async def all(self, items: Any) -> list[Any]:
        return [item async for item in items]

    @override
    async def close(self) -> None:
        for scheduler in self._made:
            await scheduler.close()


class Blocking(Way):
    """`asyncsched.sync`; nothing is awaited on the way."""

    @override
    async def __call__(self, answer: Any) -> Any:
        return answer

    @override
    def of(self, scheduler: Scheduler[Any, Any]) -> Any:
        return SyncScheduler(scheduler)

    @override
    def factories(self) -> Mapping[str, Any]:
        return sync.get_scheduler_factories()

    @override
    async def all(self, items: Any) -> list[Any]:
        return list(items)

    @override
    async def close(self) -> None:
        for scheduler in self._made:
            scheduler.close()


def run_through(program: Coroutine[Any, Any, None]) -> None:
    """Run a program that never waits, in this thread and without a loop."""
    try:
        program.send(None)
    except StopIteration:
        return
    program.close()
    raise AssertionError("a blocking program has awaited something")
