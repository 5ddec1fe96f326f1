"""Find the apps of a state directory, whichever process runs them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from asyncsched._tasks import gather_bounded
from asyncsched.errors import AsyncSchedError
from asyncsched.logs.loop_time import budget_of
from asyncsched.schedulers.local.client import Supervisors
from asyncsched.schedulers.local.errors import SupervisorGoneError, failed
from asyncsched.schedulers.local.state_dir import StateDir, Stored
from asyncsched.schedulers.local.status import SupervisorState, describe_app
from asyncsched.schedulers.local.status_record import (
    AppRecord,
    ReplicaRecord,
    SpoiltError,
    SupervisorRecord,
    parse_record,
)
from asyncsched.schedulers.local.supervisor import host
from asyncsched.schedulers.local.supervisor.formats import COPIED
from asyncsched.schedulers.responses import DescribeAppResponse
from asyncsched.schedulers.state_reports import as_answer

__all__ = ["Apps", "FoundApp", "LookupResult", "describe_all", "described"]

AT_ONCE = 16
UNFINISHED = 60.0
"""Seconds after which an unfinished start counts as failed, if its process cannot be checked."""
COPY = 86400.0
"""The same for copying a workspace, which may be large, and copied on another machine."""
MANY_REPLICAS = 100
"""Replicas from which records are read and described in a thread."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FoundApp:
    """An app that was found.

    Attributes:
        record: Its record, from its supervisor or from the disk.
        supervisor_state: Whether that supervisor is running.
        alive: For an app without a supervisor, the replicas whose first process is still running.
    """

    record: AppRecord
    supervisor_state: SupervisorState = SupervisorState.LED
    alive: frozenset[tuple[str, int]] = frozenset()

    def is_alive(self, replica: ReplicaRecord) -> bool:
        """Return whether a replica's first process is still running."""
        return (replica.role, replica.k) in self.alive

    @property
    def is_open(self) -> bool:
        """Whether a reachable supervisor runs it."""
        return self.supervisor_state is SupervisorState.LED and self.record.finished_ns is None


LookupResult = FoundApp | AsyncSchedError | None


async def described(found: FoundApp) -> DescribeAppResponse:
    """Describe an app that was found."""
    if len(found.record.replicas) < MANY_REPLICAS:
        return describe_app(found.record, found.supervisor_state, found.is_alive)
    return await asyncio.to_thread(describe_app, found.record, found.supervisor_state, found.is_alive)


async def describe_all(findings: Mapping[str, LookupResult]) -> dict[str, DescribeAppResponse | AsyncSchedError | None]:
    """Describe the found apps; an error that a retry would not help is the answer for its app."""
    answers: dict[str, DescribeAppResponse | AsyncSchedError | None] = {}
    budget = budget_of(asyncio.get_running_loop())
    for app_id, found in findings.items():
        if isinstance(found, FoundApp):
            answers[app_id] = await described(found)
        else:
            answers[app_id] = None if found is None else as_answer(found)
        await budget.breathe()  # together, many apps may have many replicas
    return answers


class Apps:
    """Finds apps: on the disk, and from their supervisors while they run.

    Args:
        home: The state directory.
        supervisors: Connects to supervisors.
    """

    def __init__(self, home: StateDir, supervisors: Supervisors) -> None:
        self._home = home
        self._supervisors = supervisors
        self._mine: set[str] = set()  # submitted by this scheduler, and not known to have ended
        self._watched: dict[str, AppRecord | None] = {}

    def submitted(self, app_id: str) -> None:
        """Record that this process's supervisor runs the app, so that it is asked first."""
        self._mine.add(app_id)

    def watch(self, app_id: str) -> None:
        """Keep the newest record of an app: records come from two places, and the older one may arrive later."""
        self._watched.setdefault(app_id, None)

    def unwatch(self, app_id: str) -> None:
        """Stop keeping the newest record of an app."""
        self._watched.pop(app_id, None)

    def unwatch_all(self) -> None:
        """Stop keeping the newest records of all apps."""
        self._watched.clear()

    def is_watched(self, app_id: str) -> bool:
        """Return whether the newest record of an app is kept."""
        return app_id in self._watched

    def newest(self, record: AppRecord) -> AppRecord:
        """Return the newest known record of this run of an app, if it is watched."""
        if record.app_id not in self._watched:
            return record
        known = self._watched[record.app_id]
        if known is not None and known.run == record.run and known.revision > record.revision:
            return known
        self._watched[record.app_id] = record
        return record

    async def find_one(self, app_id: str) -> FoundApp | None:
        """Find one app; raise the error if it cannot be read."""
        found = (await self.find([app_id]))[app_id]
        if isinstance(found, AsyncSchedError):
            raise found
        return found

    async def find(self, app_ids: Sequence[str]) -> dict[str, LookupResult]:
        """Find several apps."""
        result: dict[str, LookupResult] = dict.fromkeys(app_ids)
        result.update(await self._ask_own([app_id for app_id in app_ids if app_id in self._mine]))
        others = [app_id for app_id in app_ids if result[app_id] is None]
        if others:
            result.update(await asyncio.to_thread(self._look, others))
            looked = [result[app_id] for app_id in others]
            result.update(
                await self._ask_others([each for each in looked if isinstance(each, FoundApp) and each.is_open])
            )
        return {app_id: self._newest_found(found) for app_id, found in result.items()}

    def _newest_found(self, found: LookupResult) -> LookupResult:
        if not isinstance(found, FoundApp) or (newest := self.newest(found.record)) is found.record:
            return found
        return replace(found, record=newest)

    async def _ask_own(self, app_ids: Sequence[str]) -> dict[str, LookupResult]:
        if not app_ids or not self._supervisors.own_socket:
            return {}
        try:
            own = await self._supervisors.own()
            records = await _describe(own.ask("describe", app_ids=list(app_ids)), app_ids)
        except SupervisorGoneError:
            return {}
        self._mine -= {app_id for app_id in app_ids if app_id not in records}
        return {app_id: FoundApp(record) for app_id, record in records.items()}

    async def _ask_others(self, running: Iterable[FoundApp]) -> dict[str, LookupResult]:
        """Ask the supervisors of these apps, each once."""
        groups: dict[str, list[FoundApp]] = {}
        for found in running:
            groups.setdefault(found.record.supervisor.socket, []).append(found)
        results = await gather_bounded(self._ask_group, list(groups.values()), AT_ONCE)
        return {app_id: found for result in results for app_id, found in result.items()}

    async def _ask_group(self, group: Sequence[FoundApp]) -> dict[str, LookupResult]:
        app_ids = [found.record.app_id for found in group]
        records: dict[str, AppRecord] = {}
        try:
            async with self._supervisors.ask(group[0].record.supervisor) as connection:
                records = await _describe(connection.ask("describe", app_ids=app_ids), app_ids)
        except SupervisorGoneError:
            pass
        except AsyncSchedError as error:
            return dict.fromkeys(app_ids, error)
        result: dict[str, LookupResult] = {app_id: FoundApp(record) for app_id, record in records.items()}
        missing = [app_id for app_id in app_ids if app_id not in records]
        if missing:  # the app or its supervisor has ended, so the record on the disk is final
            result.update(await asyncio.to_thread(self._look, missing, asked=True))
        return result

    # In a thread

    def remove_unfinished(self, app_id: str) -> bool:
        """Remove what is left of an app whose start or removal was interrupted; return whether it was."""
        found = self._home.read(app_id)
        if isinstance(found, AsyncSchedError) and not isinstance(found, SpoiltError):
            raise found
        was_starting = isinstance(found, AppRecord) and found.started_ns is None and not _may_start(found)
        cut_off = found is None or was_starting
        if cut_off:
            self._home.remove(Stored(app_id, found))
        return cut_off

    def remove_all_unfinished(self) -> None:
        """Remove what killed processes left: unfinished directories of apps, and unfinished copies of workspaces."""
        for name in self._home.unfinished():
            made = self._home.changed_at(name)
            pid, _, rest = name[1:].partition("-")
            start = rest.partition("-")[0]
            longest = COPY if name.endswith(COPIED) else UNFINISHED
            is_old = made is not None and time.time() - made > longest
            if is_old and pid.isdecimal() and start.isdecimal() and not _is_running(int(pid), int(start)):
                self._home.remove_unfinished(name)

    def _look(self, app_ids: Sequence[str], *, asked: bool = False) -> dict[str, LookupResult]:
        return {app_id: self._look_for(app_id, asked=asked) for app_id in app_ids}

    def _look_for(self, app_id: str, *, asked: bool) -> LookupResult:
        try:
            return self._look_at(app_id, asked=asked)
        except AsyncSchedError as error:
            return error

    def _look_at(self, app_id: str, *, asked: bool) -> LookupResult:
        record = self._home.read(app_id)
        if not isinstance(record, AppRecord):
            return record
        if record.finished_ns is not None:
            return FoundApp(record)
        supervisor_state = _supervisor_state(record)
        if supervisor_state is SupervisorState.LED and asked and not _is_alive(record.supervisor):
            again = self._home.read(app_id)  # it may have been written between the two reads
            if not isinstance(again, AppRecord) or again.finished_ns is not None:
                return FoundApp(again) if isinstance(again, AppRecord) else again
            record, supervisor_state = again, SupervisorState.LOST
        if record.started_ns is None:
            return None  # it is being set up: nothing of it runs, and perhaps never will
        if supervisor_state is not SupervisorState.LOST:
            return FoundApp(record, supervisor_state)
        return FoundApp(record, supervisor_state, frozenset(_alive(record)) if _is_here(record) else frozenset())


def _supervisor_state(record: AppRecord) -> SupervisorState:
    """Return whether an app's supervisor is running and reachable."""
    here = _here()
    if _is_here(record):
        return SupervisorState.LED
    # Either this machine was restarted since, or it was another machine.
    restarted = record.host == here["host"] and record.boot_id != here["boot_id"] != ""
    return SupervisorState.LOST if restarted else SupervisorState.ELSEWHERE


def _is_here(record: AppRecord) -> bool:
    return {"host": record.host, "boot_id": record.boot_id, "pid_namespace": record.pid_namespace} == _here()


_place: dict[str, str] = {}


def _here() -> dict[str, str]:
    """Return where this process runs, which is kept once the kernel has told all of it."""
    if _place:
        return _place
    try:
        found = host.place()
    except OSError as error:
        raise failed("this machine cannot be identified", error) from error
    if all(found.values()):
        _place.update(found)
    return found


def _may_start(record: AppRecord) -> bool:
    """Return whether an app that has not started yet may still start."""
    supervisor_state = _supervisor_state(record)
    if supervisor_state is SupervisorState.ELSEWHERE:  # its supervisor cannot be checked from here
        return time.time() - record.created_ns / 1e9 < UNFINISHED
    return supervisor_state is SupervisorState.LED and _is_alive(record.supervisor)


def _is_alive(supervisor: SupervisorRecord) -> bool:
    return _is_running(supervisor.pid, supervisor.start)


def _is_running(pid: int, start: int) -> bool:
    try:
        return host.is_alive(pid, start)
    except OSError as error:
        raise failed(f"the process {pid} cannot be looked at", error) from error


def _alive(record: AppRecord) -> Iterable[tuple[str, int]]:
    for replica in record.replicas:
        if replica.exit_code is None and replica.start is not None and _is_running(replica.pid, replica.start):
            yield replica.role, replica.k


async def _describe(asking: Any, app_ids: Sequence[str]) -> dict[str, AppRecord]:
    """Read a supervisor's answer about apps."""
    found: list[dict[str, Any]] = (await asking).get("apps", [])

    def parse() -> dict[str, AppRecord]:
        return {str(each["app_id"]): parse_record(str(each["app_id"]), each) for each in found}

    if sum(len(each["replicas"]) for each in found) < MANY_REPLICAS:
        return parse()
    return await asyncio.to_thread(parse)
