"""From an app's id to what its directory and the cluster tell of it."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from asyncsched.errors import AsyncSchedError
from asyncsched.schedulers.port import Answers
from asyncsched.schedulers.responses import DescribeAppResponse, ListAppResponse
from asyncsched.schedulers.slurm import names
from asyncsched.schedulers.slurm.client import Cluster
from asyncsched.schedulers.slurm.errors import foreign
from asyncsched.schedulers.slurm.status import Evidence, alive, describe_app, list_row
from asyncsched.schedulers.slurm.status_records import AppRecord, JobRow, parse_events, parse_record
from asyncsched.specs.plain import JsonValue
from asyncsched.specs.result import LARGEST_RESULT, read_result

__all__ = ["Home", "Lookup", "StoredApp", "read_file", "remove_tree"]

LARGEST_RECORD = 64 << 20
LARGEST_EVENTS = 1 << 20
LARGEST_ERROR = 64 << 10
REMEMBERED = 4096
LISTED_AT_ONCE = 100
CUT_OFF = 60.0
"""Seconds after which a submit that has left no job is taken to have been cut off."""


class StoredApp(NamedTuple):
    """An app, as its directory tells of it.

    Attributes:
        record: What was submitted.
        directory: Where its files are.
        found: What else is there.
    """

    record: AppRecord
    directory: str
    found: Evidence


class Home:
    """The place in which a user's apps are found: a link for each to its directory. To be used in a thread.

    Args:
        root: Where it is.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.links = root / "apps"
        self._records: OrderedDict[str, tuple[tuple[int, int, int], AppRecord]] = OrderedDict()

    def jobs_in(self, job_dir: str | None) -> str:
        """Return where directories of apps are made, as the option `job_dir` says."""
        named = str(self.root / "jobs") if job_dir is None else os.path.expanduser(job_dir)  # noqa: PTH111 - as text
        return os.path.abspath(named)  # noqa: PTH100 - as text

    def app_ids(self) -> list[str]:
        """Return the ids of all apps."""
        try:
            return [name for name in os.listdir(self.links) if names.is_app_id(name)]  # noqa: PTH208 - names alone
        except FileNotFoundError:
            return []

    def find(self, app_id: str, operation: str = "describe") -> StoredApp | None:
        """Return an app, None if there is none.

        Raises:
            PermissionDeniedError: Its directory belongs to somebody else.
        """
        directory = self.directory_of(app_id, operation)
        record = None if directory is None else self._record(app_id, directory)
        if directory is None or record is None:
            return None
        job = (read_file(f"{directory}/{names.JOB}", 64) or b"").decode(errors="replace").partition(";")[0].strip()
        found = Evidence(
            job if job.isascii() and job.isdigit() else "",
            is_cancelled=os.path.lexists(f"{directory}/{names.CANCELLED}"),
            is_late=os.path.lexists(f"{directory}/{names.LATE}"),
            is_cut_off=time.time_ns() - record.created_ns > CUT_OFF * 1e9,
        )
        return StoredApp(record, directory, found)

    def directory_of(self, app_id: str, operation: str) -> str | None:
        """Return an app's directory, None if there is none."""
        if not names.is_app_id(app_id):
            return None
        try:
            directory = os.readlink(self.links / app_id)  # noqa: PTH115 - as text
            _check_own(directory, operation)
        except (FileNotFoundError, NotADirectoryError, OSError) as error:
            if isinstance(error, FileNotFoundError | NotADirectoryError):
                return None
            raise foreign(str(self.links / app_id), operation) from error
        return directory

    def _record(self, app_id: str, directory: str) -> AppRecord | None:
        path = f"{directory}/{names.APP}"
        try:
            at = os.stat(path, follow_symlinks=False)  # noqa: PTH116 - a thousand in a sweep
        except OSError:
            return None
        mark = (at.st_dev, at.st_ino, at.st_mtime_ns)
        known = self._records.get(app_id)
        if known is not None and known[0] == mark:
            return known[1]
        record = parse_record(app_id, read_file(path, LARGEST_RECORD) or b"")
        if record is not None:
            self._records[app_id] = mark, record
            if len(self._records) > REMEMBERED:
                self._records.popitem(last=False)
        return record

    def remove(self, app_id: str, directory: str) -> None:
        """Remove an app's directory, then the link to it."""
        remove_tree(directory)
        (self.links / app_id).unlink(missing_ok=True)
        self._records.pop(app_id, None)


def remove_tree(directory: str) -> None:
    """Remove a directory with all that is in it, whatever its modes; what cannot be removed stays."""
    from asyncsched.workspace.directory import remove  # few commands need it

    with suppress(OSError):
        remove(directory)


def _check_own(directory: str, operation: str) -> None:
    found = os.lstat(directory)
    own = found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if not stat.S_ISDIR(found.st_mode) or not own:
        raise foreign(directory, operation)


def read_file(path: str, most: int) -> bytes | None:
    """Return what a file holds, at most so many bytes; None if it is no file of ours."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(fd, "rb") as file:  # noqa: PTH123 - of a descriptor
        return file.read(most) if stat.S_ISREG(os.fstat(fd).st_mode) else None


class Lookup:
    """Describes apps: with one command for all, and a second one for those that the cluster has forgotten.

    Args:
        home: Where the apps are.
        cluster: The cluster.
    """

    def __init__(self, home: Home, cluster: Cluster) -> None:
        self._home = home
        self._cluster = cluster

    async def describe(self, app_id: str, operation: str = "describe") -> DescribeAppResponse | None:
        """Describe one app."""
        answer = (await self.describe_many([app_id], operation))[app_id]
        if isinstance(answer, AsyncSchedError):
            raise answer
        return answer

    async def describe_many(self, app_ids: Sequence[str], operation: str = "describe") -> Answers:
        """Describe apps; an error of one alone is its answer."""
        looked = await asyncio.to_thread(self._look, app_ids, operation)
        stored = {app_id: app for app_id, app in looked.items() if isinstance(app, StoredApp)}
        rows = await self._rows(stored, operation)
        answers: dict[str, DescribeAppResponse | AsyncSchedError | None] = {
            app_id: None if isinstance(app, StoredApp) else app for app_id, app in looked.items()
        }
        return answers | await asyncio.to_thread(_describe_all, stored, rows)

    def _look(self, app_ids: Sequence[str], operation: str) -> dict[str, StoredApp | AsyncSchedError | None]:
        looked: dict[str, StoredApp | AsyncSchedError | None] = {}
        for app_id in app_ids:
            try:
                looked[app_id] = self._home.find(app_id, operation)
            except AsyncSchedError as error:
                looked[app_id] = error
        return looked

    async def _rows(self, stored: dict[str, StoredApp], operation: str) -> dict[str, JobRow]:
        """Return what the cluster tells of the apps' jobs, by app; it finds those that nobody has written down yet."""
        if not stored:
            return {}
        known = await self._cluster.jobs(operation)
        if new := [app_id for app_id, app in stored.items() if not app.found.job_id]:
            numbers = alive(known.values())
            for app_id in new:
                app = stored[app_id]
                stored[app_id] = app._replace(found=replace(app.found, job_id=numbers.get(app_id, "")))
        wanted = {app.found.job_id: app_id for app_id, app in stored.items() if app.found.job_id}
        rows = {app_id: row for job, app_id in wanted.items() if (row := known.get(job)) and row.name == app_id}
        if missing := [job for job, app_id in wanted.items() if app_id not in rows]:
            told = await self._cluster.forgotten(missing, operation)
            rows |= {wanted[job]: row for job, row in told.items() if job in wanted and row.name == wanted[job]}
        return rows

    async def rows(self) -> AsyncGenerator[ListAppResponse]:
        """Yield a row for each app, newest first."""
        looked = await asyncio.to_thread(lambda: self._look(self._home.app_ids(), "list"))
        stored = [app.record for app in looked.values() if isinstance(app, StoredApp)]
        stored.sort(key=lambda record: record.created_ns, reverse=True)
        for start in range(0, len(stored), LISTED_AT_ONCE):
            some = [record.app_id for record in stored[start : start + LISTED_AT_ONCE]]
            for app in (await self.describe_many(some, "list")).values():
                if isinstance(app, DescribeAppResponse):
                    yield list_row(app)

    async def stored(self, app_id: str, operation: str) -> StoredApp | None:
        """Return what the directory of an app tells."""
        return await asyncio.to_thread(self._home.find, app_id, operation)

    async def results(self, app_id: str) -> Mapping[tuple[str, int], JsonValue] | None:
        """Return the results of an app's replicas."""
        app = await self.stored(app_id, "results")
        return None if app is None else await asyncio.to_thread(_results, app)


def _results(app: StoredApp) -> dict[tuple[str, int], JsonValue]:
    found: dict[tuple[str, int], JsonValue] = {}
    for replica in app.record.replicas:
        data = read_file(f"{app.directory}/{names.result_name(replica.stem)}", LARGEST_RESULT + 1)
        if data is not None:
            found[replica.role, replica.k] = read_result(data)
    return found


def _describe_all(stored: Mapping[str, StoredApp], rows: Mapping[str, JobRow]) -> dict[str, DescribeAppResponse]:
    described: dict[str, DescribeAppResponse] = {}
    for app_id, (record, directory, found) in stored.items():
        job = rows.get(app_id)
        if found.job_id and not (job is not None and job.state == "PENDING" and not job.restarts):
            with suppress(OSError):
                found = _with_runs(record, directory, found)
        described[app_id] = describe_app(record, found, job)
    return described


def _with_runs(record: AppRecord, directory: str, found: Evidence) -> Evidence:
    stems = [replica.stem for replica in record.replicas]
    runs = [parse_events(read_file(f"{directory}/{names.events_name(stem)}", LARGEST_EVENTS) or b"") for stem in stems]
    failed = [place for place, each in enumerate(runs) if each and each[-1].code]
    errors = {place: read_file(f"{directory}/{names.error_name(stems[place])}", LARGEST_ERROR) for place in failed}
    texts = {place: data.decode(errors="replace") for place, data in errors.items() if data}
    return replace(found, runs=runs, errors=texts)
