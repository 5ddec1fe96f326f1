"""The scheduler that `asyncsched.schedulers.blocking.from_blocking` makes: it calls a foreign object in threads."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeVar, Unpack, cast

from asyncsched._typing import override
from asyncsched.errors import ConfigError, InvalidRequestError, SchedulerError, UsageError
from asyncsched.logs.line import LogOrigin, utc
from asyncsched.logs.query import LogQuery
from asyncsched.logs.source import LogSource
from asyncsched.schedulers.api import Scheduler
from asyncsched.schedulers.blocking_answers import Submitted, in_clear, options_of, read_response, read_row, translate
from asyncsched.schedulers.blocking_logs import ThreadLines
from asyncsched.schedulers.blocking_threads import CallThreads
from asyncsched.schedulers.ending import not_ended
from asyncsched.schedulers.lifetime import Tunables
from asyncsched.schedulers.request_checks import as_mapping
from asyncsched.schedulers.responses import DescribeAppResponse, ListAppResponse
from asyncsched.specs.app import AppDef
from asyncsched.specs.dryrun import AppDryRunInfo, Ignored
from asyncsched.specs.handle import make_app_handle
from asyncsched.specs.masking import find_secrets
from asyncsched.specs.names import make_unique
from asyncsched.specs.run_options import CfgVal
from asyncsched.specs.state import ReplicaStatus
from asyncsched.specs.stream import Stream

__all__ = ["BlockingScheduler"]

ResultT = TypeVar("ResultT")

_log = logging.getLogger("asyncsched.schedulers")

MAX_SUBMITTED = 10_000
"""Dry-runs and apps of this scheduler to remember."""


class BlockingScheduler(Scheduler[Any, Any]):
    """Calls a foreign object in threads."""

    def __init__(
        self,
        obj: Any,
        backend: str,
        session_name: str,
        max_calls: int,
        max_readers: int,
        **tunables: Unpack[Tunables],
    ) -> None:
        super().__init__(backend, session_name, **tunables)
        self._obj = obj
        self._calls = CallThreads(f"{backend} call", max_calls, parameter="max_calls")
        self._readers = CallThreads(f"{backend} log reader", max_readers, parameter="max_readers")
        self._infos: OrderedDict[str, Any] = OrderedDict()
        self._ids: OrderedDict[str, str] = OrderedDict()
        self._apps: OrderedDict[str, Submitted] = OrderedDict()
        tell_options = getattr(obj, "run_opts", None)
        try:
            told = tell_options() if callable(tell_options) else None
        except Exception as error:
            raise translate(error, backend, "dryrun") from error
        self.options = options_of(told, backend)

    # Submitting

    @override
    def _app_id(self, app: AppDef, options: Any, key: str | None) -> str:
        if key is not None:
            raise ConfigError(
                f"{self.backend} does not support key",
                why="it chooses an app's id when it schedules the app, so it cannot find an app by a key",
                fix="leave out key, and keep the returned handle",
            )
        return make_unique(app.name)

    @override
    async def _request(self, app: AppDef, options: Any, app_id: str) -> Any:
        cfg: Mapping[str, CfgVal] = as_mapping(options)
        secrets = find_secrets(app, cfg)
        hidden = getattr(self._obj, "_submit_dryrun", None)
        plain = in_clear(app, without_hooks=hidden is None)
        make = hidden if hidden is not None else self._obj.submit_dryrun
        info = await self._within("dryrun", self._call("dryrun", lambda: make(plain, cfg), secrets))
        if not hasattr(info, "request"):
            raise ConfigError(
                f"the dry-run of {self.backend} returned a {type(info).__name__}",
                why="it has no request",
                fix="have it return AppDryRunInfo(request, fmt)",
            )
        _keep(self._infos, app_id, info)
        return info.request

    @override
    def _named(self, request: Any) -> str | None:
        return None

    @override
    def _adopt(self, request: Any) -> tuple[str, Any]:
        return make_unique(self.backend), request

    @override
    def _ignored(self, app: AppDef, options: Any) -> Iterable[Ignored]:
        yield from super()._ignored(app, options)
        why = (
            "it chooses the id when it schedules the app, and schedule returns that id. Scheduling one dry-run twice "
            "submits once only within one scheduler object, and a cancelled submit is ended, not removed"
        )
        for role in app.roles:
            yield Ignored(role.name, "app_id", why)

    @override
    async def _schedule(self, info: AppDryRunInfo[Any]) -> None:
        if info.app_id in self._ids:
            return
        theirs = self._infos.get(info.app_id)
        if theirs is None:  # made by hand, or in another process
            theirs = AppDryRunInfo(info.request)
        theirs.request = info.request
        launch = _Launch(self._obj, theirs, info.app_id)
        secrets = find_secrets(info.request, info.app, info.cfg)
        async with self._or_removed(info.app_id, partial(self._take_back, launch)):
            launch.ended = await self._calls.begin(self._guarded("schedule", launch.run, secrets))
            app_id = await _wait_for(launch)
            try:
                make_app_handle(self.backend, self.session_name, app_id)
            except ValueError as error:
                why = f"schedule returned {app_id!r}"
                raise SchedulerError(f"{self.backend} returned no app id", why=why, backend=self.backend) from error
        self._infos.pop(info.app_id, None)
        _keep(self._ids, info.app_id, app_id)
        if info.app is not None:
            sizes = [(role.name, role.num_replicas) for role in info.app.roles]
            _keep(self._apps, app_id, Submitted(info.app.name, self.session_name, sizes))

    @override
    def _scheduled_id(self, app_id: str) -> str:
        return self._ids[app_id]

    async def _take_back(self, launch: _Launch) -> None:
        """End the app of a cancelled submit, as soon as its id is known."""
        launch.unwanted = True
        if launch.ended is None:
            return
        try:
            await _wait_for(launch)
        except Exception:  # noqa: BLE001 - it was not submitted, and its caller gets the reason
            return
        if not launch.taken_back:
            await self._call("cancel", launch.take_back)

    # Reading states

    @override
    async def _describe(self, app_id: str) -> DescribeAppResponse | None:
        return await self._call("describe", partial(self._look, self._known(app_id)))

    def _look(self, app_id: str) -> DescribeAppResponse | None:
        """Describe the app with the object; runs in a thread."""
        return read_response(self._obj.describe(app_id), app_id, self._apps.get(app_id, Submitted()))

    def _known(self, app_id: str) -> str:
        return self._ids.get(app_id, app_id)

    @override
    async def _list(self) -> AsyncGenerator[ListAppResponse]:
        ask = self._method("list", "list")
        for row in await self._call("list", lambda: [read_row(each, self._apps) for each in ask()]):
            row.app_handle = make_app_handle(self.backend, row.session, row.app_id)
            yield row

    # Ending

    @override
    async def _cancel(self, app_id: str) -> None:
        def end(known: str) -> None:
            found = self._look(known)
            if found is not None and not found.state.is_terminal():
                _ender(self._obj)(known)

        await self._call("cancel", partial(end, self._known(app_id)))

    @override
    async def _delete(self, app_id: str) -> None:
        remove = self._method("delete", "delete")

        def work(known: str) -> None:
            found = self._look(known)
            if found is None:
                return
            if not found.state.is_terminal():
                raise not_ended(app_id, self.backend)
            remove(known)

        await self._call("delete", partial(work, self._known(app_id)))

    @override
    async def _close(self) -> None:
        patience = self.cleanup_timeout / 2
        stuck = await self._calls.settle(patience) + await self._readers.settle(patience)
        if stuck:
            # They are daemon threads, so neither the loop nor the process waits for them.
            _log.warning(
                "%s was closed while %d of its calls had not returned: their threads end when they do",
                self.backend,
                stuck,
            )
        close = getattr(self._obj, "close", None)
        if callable(close):
            await self._call("close", close)

    # Reading logs

    @override
    async def _log_sources(
        self, app: DescribeAppResponse, replicas: Sequence[ReplicaStatus], query: LogQuery
    ) -> Sequence[LogSource]:
        read = self._method("log_iter", "log_iter")
        if query.attempts is not None:
            raise UsageError(f"{self.backend} does not know the attempt of a line", fix="leave out attempts")
        return [self._source(read, app.app_id, replica, query) for replica in replicas]

    def _source(
        self, read: Callable[..., Iterable[object]], app_id: str, replica: ReplicaStatus, query: LogQuery
    ) -> LogSource:
        lines = partial(
            read,
            self._known(app_id),
            replica.role,
            k=replica.id,
            since=_time(query.since_ns),
            until=_time(query.until_ns),
            streams=None if query.streams is Stream.COMBINED else query.streams,
        )
        counts = query.tail and query.tail_lines is not None
        return ThreadLines(
            self._readers,
            lambda: self._guarded_lines(partial(lines, should_tail=query.tail)),
            LogOrigin(app_id, replica.role, replica.id, query.streams, None),
            follows=query.tail,
            count=(lambda: sum(1 for _ in self._guarded_lines(partial(lines, should_tail=False)))) if counts else None,
        )

    def _guarded_lines(self, read: Callable[[], Iterable[object]]) -> Iterable[object]:
        try:
            yield from read()
        except GeneratorExit:
            raise
        except BaseException as error:
            raise translate(error, self.backend, "log_iter") from error

    # Calling the object

    async def _call(self, operation: str, work: Callable[[], ResultT], secrets: Iterable[str] = ()) -> ResultT:
        return await self._calls.run(self._guarded(operation, work, secrets))

    def _guarded(
        self, operation: str, work: Callable[[], ResultT], secrets: Iterable[str] = ()
    ) -> Callable[[], ResultT]:
        def guarded() -> ResultT:
            try:
                return work()
            except BaseException as error:
                ours = translate(error, self.backend, operation, secrets)
                if ours is error:
                    raise
                # Its message may contain a secret, which our error leaves out.
                raise ours from (error if str(error) in ours.why or not secrets else None)

        return guarded

    def _method(self, name: str, operation: str) -> Callable[..., Any]:
        method = getattr(self._obj, name, None)
        if not callable(method):
            raise InvalidRequestError(
                f"{self.backend} does not support {operation}",
                why=f"its {type(self._obj).__name__} has no method {name}",
                backend=self.backend,
                operation=operation,
            )
        return cast("Callable[..., Any]", method)


class _Launch:
    """A call of `schedule`, which may become unwanted while it runs."""

    def __init__(self, obj: Any, info: Any, provisional: str) -> None:
        self._obj = obj
        self._info = info
        self._provisional = provisional
        self._app_id: Any = None
        self.ended: Any = None
        self.unwanted = False
        self.taken_back = False

    def run(self) -> str:
        """Schedule the app and return its id; runs in a thread."""
        self._app_id = self._obj.schedule(self._info)
        if self.unwanted:  # the caller may be gone and cannot end it
            self.taken_back = True
            self.take_back()
        return cast("str", self._app_id)

    def take_back(self) -> None:
        """End the app; runs in a thread."""
        if self._app_id:
            _ender(self._obj)(self._app_id)


async def _wait_for(launch: _Launch) -> str:
    return cast("str", await asyncio.shield(launch.ended))


def _ender(obj: Any) -> Callable[[str], None]:
    return cast("Callable[[str], None]", getattr(obj, "cancel", None) or obj._cancel_existing)


def _keep(kept: OrderedDict[str, ResultT], name: str, value: ResultT) -> None:
    kept[name] = value
    if len(kept) > MAX_SUBMITTED:
        kept.popitem(last=False)


def _time(ns: int | None) -> datetime | None:
    return None if ns is None else utc(ns)
