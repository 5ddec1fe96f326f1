"""Processes of this machine."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from typing_extensions import Unpack

from asyncsched._tasks import outlast
from asyncsched.errors import (
    AsyncSchedError,
    ConflictError,
    InvalidRequestError,
    SchedulerError,
    UnavailableError,
)
from asyncsched.logs.budget import budget_of
from asyncsched.logs.follow import follower_of, open_directory
from asyncsched.logs.line import LogOrigin
from asyncsched.logs.select import LogQuery
from asyncsched.logs.source import LogSource
from asyncsched.schedulers.api import Scheduler
from asyncsched.schedulers.bounds import Tunables
from asyncsched.schedulers.local.changes import StateReader
from asyncsched.schedulers.local.client import Supervisors
from asyncsched.schedulers.local.client_connection import Connection
from asyncsched.schedulers.local.client_start import Beginning
from asyncsched.schedulers.local.devices import count_devices
from asyncsched.schedulers.local.ending import prune, read_results
from asyncsched.schedulers.local.errors import cannot_start
from asyncsched.schedulers.local.images import CWDImageProvider, ImageProvider
from asyncsched.schedulers.local.logs import ReplicaLog
from asyncsched.schedulers.local.lookup import Apps, Finding, Found
from asyncsched.schedulers.local.options import LocalOpts
from asyncsched.schedulers.local.request import PopenRequest, make_request, wire_form
from asyncsched.schedulers.local.state_dir import Home, Stored, find_home
from asyncsched.schedulers.local.status import Standing, describe_app, list_row
from asyncsched.schedulers.local.status_record import BACKEND, AppRecord, ReplicaRecord, SpoiltError, parse_record
from asyncsched.schedulers.port import Answers, StatePort
from asyncsched.schedulers.prepare import as_mapping
from asyncsched.schedulers.responses import DescribeAppResponse, ListAppResponse
from asyncsched.specs.app import AppDef
from asyncsched.specs.dryrun import AppDryRunInfo, Ignored
from asyncsched.specs.handle import make_app_handle
from asyncsched.specs.options import CfgVal
from asyncsched.specs.plain import JsonValue
from asyncsched.specs.state import AppState, ReplicaStatus
from asyncsched.specs.stream import Stream

__all__ = ["LocalScheduler", "create_scheduler"]

_log = logging.getLogger("asyncsched.schedulers.local")

ROWS_AT_ONCE = 100
MANY_REPLICAS = 100
LOOK_EVERY = 0.05
IGNORES = {
    "max_retries": "a process that failed is not started again",
    "min_replicas": "all replicas start, or none does",
    "mounts": "a process sees the machine's own files",
    "port_map": "a process listens on the machine's own ports",
    "resource.gpu": "every process sees all GPUs, unless auto_set_cuda_visible_devices divides them",
    "resource.capabilities": "the host is this machine",
    "resource.devices": "a process sees the machine's own devices",
}
"""Processors and memory are not limited either: a request is met by a machine that has them."""

SETTLING = 5.0
"""Seconds that ending an app may take beyond its grace period."""


class LocalScheduler(Scheduler[LocalOpts, PopenRequest]):
    """Runs each replica as a process of this machine, under a supervisor that outlives nothing but it.

    Apps end with the process that submitted them, however that ends, unless they are detached; `close` ends them
    too. Every process of the same user finds them through the state directory. Resources are not limited, but for
    GPUs where that is asked for.

    Args:
        session_name: The session that apps are marked with.
        image_provider_class: Makes of the run options what says where a role's image is.
        cache_size: How many of the apps that have ended are kept at least, however old.
        extra_paths: Directories that come before the submitter's ``PATH``.
        keep_for: How long ended apps beyond `cache_size` are kept; the first submit removes the others.
        tunables: What every scheduler takes: `request_timeout`, `retry_for`, `cleanup_timeout`, `clock`.

    Raises:
        ValueError: `cache_size` is not positive.
    """

    options = LocalOpts
    pushes_states = True
    runs_here = True
    ends_with_submitter = True
    can_kill = True
    ignores = IGNORES
    retry_policies = frozenset()

    def __init__(
        self,
        session_name: str,
        image_provider_class: Callable[[Mapping[str, CfgVal]], ImageProvider] = CWDImageProvider,
        cache_size: int = 100,
        extra_paths: Sequence[str] | None = None,
        *,
        keep_for: timedelta = timedelta(days=30),
        **tunables: Unpack[Tunables],
    ) -> None:
        super().__init__(BACKEND, session_name, **tunables)
        if cache_size <= 0:
            raise ValueError(f"a cache of {cache_size} apps holds none")
        self._image_provider_class = image_provider_class
        self._cache_size = cache_size
        self._extra_paths = tuple(extra_paths or ())
        self._keep_for = keep_for
        self._home = Home(find_home(os.environ))
        self._supervisors = Supervisors(self._home, self.clock)
        self._apps = Apps(self._home, self._supervisors)
        self._pruning: asyncio.Task[list[str]] | None = None

    # Submitting

    def adopt(self, beginning: Beginning) -> None:
        """Use a supervisor that has been started ahead, before anything else is done."""
        self._supervisors.adopt(beginning)

    async def _warm_up(self) -> None:
        await self._supervisors.own()

    async def _request(self, app: AppDef, options: LocalOpts, app_id: str) -> PopenRequest:
        await asyncio.to_thread(self._home.choose)
        divide = options.auto_set_cuda_visible_devices
        return await make_request(
            app,
            app_id,
            options,
            self._image_provider_class(as_mapping(options)),
            session=self.session_name,
            state_dir=self._home.app_path(app_id),
            path=os.environ.get("PATH", os.defpath),
            extra_paths=self._extra_paths,
            devices=await asyncio.to_thread(count_devices) if divide else 0,
        )

    def _ignored(self, app: AppDef, options: LocalOpts) -> Iterable[Ignored]:
        divided = options.auto_set_cuda_visible_devices
        return [each for each in super()._ignored(app, options) if not (divided and each.field == "resource.gpu")]

    async def _schedule(self, info: AppDryRunInfo[PopenRequest]) -> None:
        request = info.request
        wire = await asyncio.to_thread(
            wire_form, request, info.app, session=info.session, digest=info.digest, environ=dict(os.environ)
        )
        if request.detach:
            async with self._supervisors.detached() as connection:
                await self._within("submit", self._launch(connection, info, wire))
        else:
            # Closing waits for what has to end with us.
            self.cleanup_timeout = max(self.cleanup_timeout, request.grace_period + SETTLING)
            own = await self._supervisors.own()
            self._apps.submitted(info.app_id)
            await self._within("submit", self._launch(own, info, wire))
        self._start_pruning()

    async def _launch(self, connection: Connection, info: AppDryRunInfo[PopenRequest], wire: Mapping[str, Any]) -> None:
        while not await self._submit_to(connection, info, wire):
            if await self._is_there(info):
                return

    async def _submit_to(
        self, connection: Connection, info: AppDryRunInfo[PopenRequest], wire: Mapping[str, Any]
    ) -> bool:
        """Have the app started; tell whether it was, or one of its id is there."""
        launching = asyncio.ensure_future(connection.call("submit", app=wire))

        async def remove() -> None:
            try:
                answer = await launching  # it starts as a whole or not at all; which one is known in a moment
            except InvalidRequestError:
                return  # it has not even been sent
            if "error" not in answer:
                await self._remove(connection, parse_record(info.app_id, answer["app"]))

        async with self._or_removed(info.app_id, remove):
            answer = await asyncio.shield(launching)
        if "error" not in answer:
            return True
        if answer["error"] == "exists":
            return False
        raise cannot_start(info.app_id, answer)

    async def _remove(self, connection: Connection, app: AppRecord) -> None:
        """End an app of ours at once, and leave no trace of it."""
        await connection.call("kill", app_id=app.app_id)
        while (await connection.call("forget", app_id=app.app_id)).get("error"):
            await self.clock.sleep(LOOK_EVERY)
        await asyncio.to_thread(self._home.remove, Stored(app.app_id, app))

    async def _is_there(self, info: AppDryRunInfo[PopenRequest]) -> bool:
        """Tell whether the app that is to be submitted is there; False, after a pause, if it is just being started."""
        found = await self._apps.find_one(info.app_id)
        if found is None:
            if not await asyncio.to_thread(self._apps.remove_draft, info.app_id):
                await self.clock.sleep(LOOK_EVERY)
            return False
        if found.record.digest != info.digest:
            raise ConflictError(
                f"another app was submitted as {info.app_id}",
                why="its roles or options differ from those of this one",
                fix="use another key, or delete that app first",
                backend=BACKEND,
                operation="submit",
            )
        return True

    # Looking

    async def _describe(self, app_id: str) -> DescribeAppResponse | None:
        found = await self._apps.find_one(app_id)
        return None if found is None else await _described(found)

    async def _describe_many(self, app_ids: Sequence[str]) -> Answers:
        answers: dict[str, DescribeAppResponse | AsyncSchedError | None] = {}
        budget = budget_of(asyncio.get_running_loop())
        for app_id, found in (await self._apps.find(app_ids)).items():
            answers[app_id] = await _described(found) if isinstance(found, Found) else found
            await budget.breathe()  # many apps may have many replicas together
        return answers

    async def _push_states(self, port: StatePort) -> None:
        await StateReader(port, self._apps, self._supervisors, self.clock).run()

    async def _list(self) -> AsyncGenerator[ListAppResponse]:
        rows: list[ListAppResponse] = []
        app_ids = await asyncio.to_thread(self._home.app_ids)
        for start in range(0, len(app_ids), ROWS_AT_ONCE):
            found = await self._apps.find(app_ids[start : start + ROWS_AT_ONCE])
            rows += await asyncio.to_thread(_rows, found)
        rows.sort(key=lambda row: row.created_at.timestamp() if row.created_at else 0.0, reverse=True)
        for row in rows:
            yield row

    # Ending

    async def _cancel(self, app_id: str) -> None:
        await self._ask_to_end("cancel", app_id)

    async def _kill(self, app_id: str) -> None:
        await self._ask_to_end("kill", app_id)

    async def _ask_to_end(self, operation: str, app_id: str) -> None:
        found = await self._apps.find_one(app_id)
        if found is None or found.record.finished_ns is not None:
            return
        if found.standing is Standing.ELSEWHERE:
            raise SchedulerError(
                f"cannot {operation} {app_id} from here",
                why=f"it runs on {found.record.host}",
                fix="do it there",
                backend=BACKEND,
                operation=operation,
            )
        if not found.is_open:
            return  # its supervisor is gone; what is left of it is being ended
        try:
            async with self._supervisors.ask(found.record.supervisor) as connection:
                await connection.ask(operation, app_id=app_id)
        except UnavailableError:
            return  # it went away meanwhile, and took the app with it

    async def _delete(self, app_id: str) -> None:
        found = (await self._apps.find([app_id]))[app_id]
        if isinstance(found, AsyncSchedError) and not isinstance(found, SpoiltError):
            raise found  # the app may run: another release can tell
        if isinstance(found, Found) and not (await _described(found)).state.is_terminal():
            raise ConflictError(
                f"{app_id} has not ended",
                why="a replica of it runs",
                fix="cancel it first",
                backend=BACKEND,
                operation="delete",
            )
        if found is not None:
            judged = found.record if isinstance(found, Found) else found
            await asyncio.to_thread(self._home.remove, Stored(app_id, judged))

    async def _results(self, app_id: str) -> Mapping[tuple[str, int], JsonValue] | None:
        found = await self._apps.find_one(app_id)
        return None if found is None else await asyncio.to_thread(read_results, self._home, found.record)

    async def _prune(self, older_than: timedelta, states: Collection[AppState]) -> list[str]:
        """Remove apps; their logs in a ``log_dir`` are the user's, and stay."""
        return await prune(self._home, self._apps, older_than, states=states)

    def _start_pruning(self) -> None:
        """Remove, once and behind the back of whoever submits, what has become too old."""
        if self._pruning is None:
            work = prune(self._home, self._apps, self._keep_for, keep=self._cache_size)
            self._pruning = asyncio.get_running_loop().create_task(work, context=contextvars.Context())
            self._pruning.add_done_callback(_log_failure)

    # Logs

    async def _log_sources(
        self, app: DescribeAppResponse, replicas: Sequence[ReplicaStatus], query: LogQuery
    ) -> Sequence[LogSource]:
        found = await self._apps.find_one(app.app_id)
        if found is None:
            return []
        record = found.record
        if record.merge_streams and query.streams is not Stream.COMBINED:
            raise ValueError(f"{app.app_id} was submitted with merge_streams: its streams cannot be told apart")
        wanted = {(replica.role, replica.id) for replica in replicas}
        return [self._log(record, each, query) for each in record.replicas if (each.role, each.k) in wanted]

    def _log(self, record: AppRecord, replica: ReplicaRecord, query: LogQuery) -> ReplicaLog:
        path = str(self._home.app_path(record.app_id))
        open_index = partial(open_directory, path, replica.directory)
        return ReplicaLog(
            LogOrigin(app_id=record.app_id, role=replica.role, replica=replica.k),
            open_index=open_index,
            open_logs=partial(open_directory, replica.logs) if replica.logs else open_index,
            query=query,
            follower=follower_of(asyncio.get_running_loop()),
            clock=self.clock,
        )

    async def _close(self) -> None:
        try:
            if self._pruning is not None:
                self._pruning.cancel()
                await outlast([self._pruning], self.cleanup_timeout)
            await self._supervisors.close(self.cleanup_timeout)
        finally:  # a supervisor that hangs takes all the time there is
            self._home.close()


async def _described(found: Found) -> DescribeAppResponse:
    if len(found.record.replicas) < MANY_REPLICAS:
        return describe_app(found.record, found.standing, found.is_alive)
    return await asyncio.to_thread(describe_app, found.record, found.standing, found.is_alive)


def _rows(found: Mapping[str, Finding]) -> list[ListAppResponse]:
    return [row for app_id, each in found.items() if (row := _row(app_id, each)) is not None]


def _row(app_id: str, found: Finding) -> ListAppResponse | None:
    if isinstance(found, Found):
        return list_row(found.record, found.standing)
    if found is None:
        return None
    _log.warning("%s", found)
    return ListAppResponse(app_id, AppState.UNKNOWN, make_app_handle(BACKEND, "", app_id))


def _log_failure(task: asyncio.Task[Sequence[str]]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.warning("old apps could not be removed: %s", error)


def create_scheduler(
    session_name: str,
    *,
    image_provider_class: Callable[[Mapping[str, CfgVal]], ImageProvider] = CWDImageProvider,
    cache_size: int = 100,
    extra_paths: Sequence[str] | None = None,
    keep_for: timedelta = timedelta(days=30),
    **tunables: Unpack[Tunables],
) -> LocalScheduler:
    """Make the scheduler ``local_cwd``, in which everything runs in the submitter's working directory."""
    return LocalScheduler(session_name, image_provider_class, cache_size, extra_paths, keep_for=keep_for, **tunables)
