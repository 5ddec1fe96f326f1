"""The schedulers of one runner, each created on first use."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any, TypeAlias, cast

from asyncsched._tasks import close_all, outlast
from asyncsched.errors import ConfigError
from asyncsched.schedulers.api import Scheduler
from asyncsched.schedulers.registry import (
    SchedulerFactory,
    check_parameters,
    find_built_in,
    find_factory,
    get_default_scheduler_name,
    get_scheduler_factories,
    known_names,
)
from asyncsched.specs.given import not_a_scheduler_name, unexpected
from asyncsched.specs.stream import Stream

__all__ = ["AnyScheduler", "Backends", "close_schedulers"]

AnyScheduler: TypeAlias = Scheduler[Any, Any]
"""A scheduler with any types of options and requests."""

IMPORT_TIMEOUT = 15.0
CLOSE_MARGIN = 5.0


class Backends:
    """Creates schedulers by name and closes those it created. It does not close schedulers that it was given.

    Args:
        session: The session that submitted apps belong to.
        schedulers: Schedulers and factories by name; None for all installed ones.
        params: Further arguments for factories, by the scheduler's name.

    Raises:
        ConfigError: `params` is not grouped by scheduler, names a scheduler that already exists, or has an unknown
            parameter. Parameters of plugins are checked when the scheduler is created.
        UnknownSchedulerError: `params` names a scheduler that is not among the given ones.
    """

    def __init__(
        self,
        session: str,
        schedulers: Mapping[str, AnyScheduler | SchedulerFactory] | None,
        params: Mapping[str, Mapping[str, object]],
    ) -> None:
        given = _check_given(schedulers)
        for name, each in params.items():
            _check_shape(name, each, given)
        self._session = session
        self._params = params
        # Finding plugins reads the disk, so it waits until a scheduler that is not built in is used.
        self._factories = None if schedulers is None else {name: _as_factory(each) for name, each in given.items()}
        self._ready = {name: each for name, each in given.items() if isinstance(each, Scheduler)}
        self._made: list[AnyScheduler] = []
        self._making: dict[str, asyncio.Future[AnyScheduler]] = {}
        if schedulers is not None:
            self.check(params)
        for name, each in params.items():
            if factory := find_built_in(name) if self._factories is None else self._factories[name]:
                check_parameters(name, factory, each)

    async def names(self) -> tuple[str, ...]:
        """Return all names, the default first."""
        return tuple(await asyncio.to_thread(self._all_factories))

    def chosen(self, name: str | None) -> str:
        """Return the name of the scheduler for a call; None means the first one."""
        if name is None:
            if self._factories == {}:
                raise ConfigError("this runner has no scheduler", fix="leave schedulers out, or pass at least one")
            return get_default_scheduler_name() if self._factories is None else next(iter(self._factories))
        if not isinstance(cast("object", name), str):
            raise not_a_scheduler_name(name)
        return name

    @property
    def ready(self) -> Mapping[str, AnyScheduler]:
        """The schedulers that have been created."""
        return self._ready

    def check(self, names: Collection[str]) -> None:
        """Raise UnknownSchedulerError for unknown names; no scheduler is created."""
        for name in names:
            self._find(name)

    def _find(self, name: str) -> SchedulerFactory:
        built_in = find_built_in(name) if self._factories is None else None
        return built_in or find_factory(name, self._all_factories())

    def _all_factories(self) -> Mapping[str, SchedulerFactory]:
        if self._factories is None:
            self._factories = get_scheduler_factories()
        return self._factories

    def log_streams(self, names: Collection[str]) -> frozenset[Stream]:
        """Return the streams that all of these schedulers separate; schedulers not yet created are not considered."""
        ready = [self._ready[name].log_streams for name in names if name in self._ready]
        return frozenset(Stream).intersection(*ready)

    async def open(self, name: str) -> AnyScheduler:
        """Return the scheduler of this name. It is created in a thread, because its module may have to be imported.

        Concurrent calls wait for the same scheduler. If cancelled, it is created anyway, because a thread cannot be
        stopped.
        """
        if name in self._ready:
            return self._ready[name]
        # Awaits the future rather than reading `_ready`: the future may be done before `_keep` has been called.
        return await asyncio.shield(self._making.get(name) or self._start(name))

    def _start(self, name: str) -> asyncio.Future[AnyScheduler]:
        making = asyncio.get_running_loop().run_in_executor(None, self._make, name)
        self._making[name] = making
        making.add_done_callback(lambda _: self._keep(name, making))
        return making

    def _make(self, name: str) -> AnyScheduler:
        self.check(self._params)  # otherwise a misspelt name would silently lose its parameters
        factory, params = self._find(name), self._params.get(name, {})
        check_parameters(name, factory, params)
        return factory(self._session, **params)

    def _keep(self, name: str, making: asyncio.Future[AnyScheduler]) -> None:
        del self._making[name]
        # Also retrieves the exception, as every waiter may have been cancelled.
        if not making.cancelled() and making.exception() is None:
            self._ready[name] = making.result()
            self._made.append(making.result())

    async def close(self) -> None:
        """Close the schedulers created here, including those still being created. Never raises."""
        try:
            await outlast(self._making.values(), IMPORT_TIMEOUT)
        finally:  # a cancelled close still closes everything
            await close_schedulers(self._made)


async def close_schedulers(schedulers: Collection[AnyScheduler]) -> None:
    """Close schedulers, within the longest of their own cleanup timeouts, doubled. Never raises."""
    longest = max((2 * scheduler.cleanup_timeout for scheduler in schedulers), default=0.0)
    await close_all([scheduler.close() for scheduler in schedulers], longest + CLOSE_MARGIN)


def _check_given(schedulers: object) -> Mapping[str, AnyScheduler | SchedulerFactory]:
    """Return the given schedulers and factories; raise UsageError for anything else."""
    fix = "write schedulers={'mine': scheduler}; left out, it is all that are installed"
    if not isinstance(schedulers, (Mapping, type(None))):
        raise unexpected("schedulers", schedulers, "a mapping of schedulers or factories by name", fix)
    given = cast("Mapping[str, AnyScheduler | SchedulerFactory]", schedulers or {})
    for name, each in given.items():
        if not isinstance(each, Scheduler) and not callable(each):
            raise unexpected(f"schedulers[{name!r}]", each, "a scheduler, or a factory that makes one", fix)
    return given


def _check_shape(name: str, params: object, given: Mapping[str, AnyScheduler | SchedulerFactory]) -> None:
    if not isinstance(params, Mapping) and name in (*known_names(), *given):
        raise ConfigError(
            f"{name} must be a mapping of parameters, got a value of type {type(params).__name__}",
            fix=f'write {name}={{"parameter": value}}',
        )
    if not isinstance(params, Mapping):
        raise ConfigError(
            f"scheduler parameters must be grouped by scheduler, got {name}=...",
            fix=f"write SCHEDULER={{{name!r}: ...}} with the name of a scheduler",
        )
    if isinstance(given.get(name), Scheduler):
        raise ConfigError(
            f"{name} is an existing scheduler, which takes no parameters", fix="pass them to its constructor"
        )


def _as_factory(scheduler: AnyScheduler | SchedulerFactory) -> SchedulerFactory:
    if not isinstance(scheduler, Scheduler):
        return scheduler
    given = scheduler  # for the closure: its type has been narrowed
    return lambda session_name, **kwargs: given
