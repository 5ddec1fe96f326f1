"""Find apps, and read what their directories and the cluster say about them."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import stat
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from asyncsched import _platform
from asyncsched._tasks import finished_in_thread
from asyncsched._typing import NamedTuple
from asyncsched.errors import AsyncSchedError, SchedulerError
from asyncsched.schedulers.responses import DescribeAppResponse, ListAppResponse
from asyncsched.schedulers.slurm import names
from asyncsched.schedulers.slurm.client import Cluster
from asyncsched.schedulers.slurm.errors import absent, foreign, unreadable, unwritable
from asyncsched.schedulers.slurm.lookup_places import check_own
from asyncsched.schedulers.slurm.status import Evidence, alive, describe_app, is_over, list_row, newest
from asyncsched.schedulers.slurm.status_records import (
    JobRow,
    SlurmAppRecord,
    parse_events,
    parse_log,
    parse_number,
    parse_record,
    parse_row,
    write_row,
)
from asyncsched.schedulers.state_reports import Answers, as_answer
from asyncsched.specs.result import LARGEST_RESULT, UnreadableResult, read_result
from asyncsched.specs.to_plain import JsonValue

__all__ = ["AppLinks", "SlurmLookup", "StoredApp", "mark", "read_file", "remove_tree", "write_file"]

_READ = os.O_RDONLY | _platform.NOFOLLOW | _platform.NONBLOCK | _platform.CLOEXEC | _platform.BINARY
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _platform.NOFOLLOW | _platform.CLOEXEC | _platform.BINARY

_NO_FILE = frozenset({errno.EACCES, errno.ELOOP, errno.ENOENT, errno.ENOTDIR, errno.ENXIO, errno.EPERM})
"""Errors for a file that is not there, or that is what a replica made of it: it may take away permissions, too."""

LARGEST_RECORD = 64 << 20
LARGEST_EVENTS = 1 << 20
LARGEST_ERROR = 64 << 10
END_OF_LOG = 4 << 10
REMEMBERED = 4096
LISTED_FIRST, LISTED_NEXT = 100, 1000
"""How many apps of a list are described at a time: most callers need only the newest."""
CUT_OFF = 60.0
"""Seconds without a sign of its submitter after which the submit of an app without a job counts as cut off."""


_Answer = DescribeAppResponse | AsyncSchedError | None


class StoredApp(NamedTuple):
    """An app, as its directory describes it.

    Attributes:
        record: The record of the submit.
        directory: The app's directory.
        found: What else is in the directory.
    """

    record: SlurmAppRecord
    directory: str
    found: Evidence


class AppLinks:
    """The place where a user's apps are found: a link for each to its directory. Use it in a thread.

    Args:
        root: Its path.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.links = root / "apps"
        self._records: OrderedDict[str, tuple[tuple[int, int, int], SlurmAppRecord]] = OrderedDict()

    def jobs_in(self, job_dir: str | None) -> str:
        """Return the directory in which apps' directories are created, for a value of the option `job_dir`."""
        named = str(self.root / "jobs") if job_dir is None else os.path.expanduser(job_dir)  # noqa: PTH111 - as text
        return os.path.abspath(named)  # noqa: PTH100 - as text

    def app_ids(self) -> list[str]:
        """Return the ids of all apps."""
        try:
            return [name for name in os.listdir(self.links) if names.is_app_id(name)]  # noqa: PTH208 - names alone
        except FileNotFoundError:
            return []
        except OSError as error:
            raise unreadable(str(self.links), error, "list") from error

    def find(self, app_id: str, operation: str = "describe") -> StoredApp | None:
        """Return an app, None if there is none; an app whose record is gone has no replicas.

        Raises:
            PermissionDeniedError: Its directory belongs to another user.
            SchedulerError: It cannot be read; an UnavailableError if that may pass.
        """
        directory = self.directory_of(app_id, operation)
        app = None if directory is None else self.read(app_id, directory)
        if app is None and self.is_linked(app_id):
            return StoredApp(SlurmAppRecord(app_id), directory or "", Evidence(is_bare=True))
        return app

    def is_linked(self, app_id: str) -> bool:
        """Return whether an app was submitted and not removed, even if its directory is gone."""
        return names.is_app_id(app_id) and os.path.islink(self.links / app_id)  # noqa: PTH114 - as text

    def read(self, app_id: str, directory: str) -> StoredApp | None:
        """Return the app of a directory, None if there is none."""
        record = self._record(app_id, directory)
        if record is None:
            return None
        told, began = (parse_number(read_file(f"{directory}/{name}", 64) or b"") for name in (names.NUMBER, names.JOB))
        found = Evidence(told.job_id or began.job_id, begun=began.restarts)
        if not found.job_id:
            is_cut_off = _is_cut_off(f"{directory}/{names.LOCK}", record.created_ns)
            is_bare = not os.path.isdir(f"{directory}/{names.EVENTS}")  # noqa: PTH112 - as text
            found = replace(found, is_cut_off=is_cut_off, is_bare=is_bare)
        return StoredApp(record, directory, found)

    def directory_of(self, app_id: str, operation: str) -> str | None:
        """Return an app's directory, None if there is none."""
        if not names.is_app_id(app_id):
            return None
        link = str(self.links / app_id)
        try:
            directory = os.readlink(link)  # noqa: PTH115 - as text
            found = os.lstat(directory)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno not in (*_NO_FILE, errno.EINVAL):
                raise unreadable(link, error, operation) from error
            raise foreign(link, f"it cannot be read: {error.strerror}", operation) from error
        check_own(directory, found, operation)
        return directory

    def _record(self, app_id: str, directory: str) -> SlurmAppRecord | None:
        path = f"{directory}/{names.APP}"
        try:
            at = os.stat(path, follow_symlinks=False)  # noqa: PTH116 - a thousand in a sweep
        except OSError as error:
            _unless_no_file(path, error)
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

    def remove(self, app_id: str, directory: str | None) -> None:
        """Remove an app's directory, if it exists, then the link to it."""
        if directory is not None:
            remove_tree(directory)
        (self.links / app_id).unlink(missing_ok=True)
        self._records.pop(app_id, None)


def remove_tree(directory: str) -> None:
    """Remove a directory and its content, whatever its modes; what cannot be removed stays."""
    from asyncsched.workspace.directory import remove  # rarely needed

    with suppress(OSError):
        remove(directory)


def _is_cut_off(lock: str, created_ns: int) -> bool:
    """Return whether an app's submitter is gone: it holds the lock, and touches it before it sends the job."""
    try:
        fd = os.open(lock, _READ)
    except OSError as error:
        _unless_no_file(lock, error)
        return time.time_ns() - created_ns > CUT_OFF * 1e9
    try:
        _platform.lock_file(fd, shared=True)
        return time.time_ns() - max(created_ns, os.fstat(fd).st_mtime_ns) > CUT_OFF * 1e9
    except OSError:
        return False
    finally:
        os.close(fd)


def read_file(path: str, most: int, *, from_end: bool = False) -> bytes | None:
    """Return at most `most` bytes of a file, its last ones if `from_end`; None if it is not a regular file.

    Raises:
        SchedulerError: It cannot be read; an UnavailableError if that may pass.
    """
    try:
        fd = os.open(path, _READ)
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            os.close(fd)
            return None
        with open(fd, "rb") as file:  # noqa: PTH123 - of a descriptor
            file.seek(max(0, found.st_size - most) if from_end else 0)
            return file.read(most)
    except OSError as error:
        _unless_no_file(path, error)
        return None


def _unless_no_file(path: str, error: OSError) -> None:
    if error.errno not in _NO_FILE:
        raise unreadable(path, error) from error


async def mark(directory: str, name: str, text: str = "", *, operation: str) -> None:
    """Write a small file of an app atomically."""
    try:
        await finished_in_thread(lambda: _replace(Path(directory) / name, f"{text}\n"))
    except OSError as error:
        raise unwritable(directory, error, operation) from error


def _replace(path: Path, text: str) -> None:
    new = path.with_name(f".{path.name}-{os.urandom(6).hex()}")
    try:
        write_file(new, text)
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise


def write_file(path: Path, text: str) -> None:
    """Write a file of an app."""
    fd = os.open(path, _WRITE, 0o600)
    with open(fd, "wb") as file:  # noqa: PTH123 - of a descriptor
        file.write(text.encode(errors="surrogateescape"))


class SlurmLookup:
    """Describes apps: with one command for all, and a second one for jobs that the cluster has forgotten.

    Args:
        home: The place of the apps.
        cluster: The cluster.
    """

    def __init__(self, home: AppLinks, cluster: Cluster) -> None:
        self._home = home
        self._cluster = cluster

    async def describe(self, app_id: str, operation: str = "describe") -> DescribeAppResponse | None:
        """Describe one app."""
        answer = (await self.describe_many([app_id], operation))[app_id]
        if isinstance(answer, AsyncSchedError):
            raise answer
        return answer

    async def describe_many(self, app_ids: Sequence[str], operation: str = "describe") -> Answers:
        """Describe apps; the error of a single app is its answer."""
        looked = await asyncio.to_thread(self._look, app_ids, operation)
        stored = {app_id: app for app_id, app in looked.items() if isinstance(app, StoredApp)}
        rows = await self._rows(stored, operation)
        answers: dict[str, _Answer] = {
            app_id: None if isinstance(app, StoredApp) else app for app_id, app in looked.items()
        }
        return answers | await asyncio.to_thread(_describe_all, stored, rows)

    def _look(self, app_ids: Sequence[str], operation: str) -> dict[str, StoredApp | AsyncSchedError | None]:
        looked: dict[str, StoredApp | AsyncSchedError | None] = {}
        for app_id in app_ids:
            try:
                looked[app_id] = self._home.find(app_id, operation)
            except AsyncSchedError as error:
                looked[app_id] = as_answer(error)
        return looked

    async def _rows(self, stored: dict[str, StoredApp], operation: str) -> dict[str, JobRow]:
        """Return the cluster's rows for the apps' jobs, by app; finds jobs whose number is not in a file yet, too."""
        if not stored:
            return {}
        known = await self._cluster.jobs(operation)
        living, all_jobs = alive(known.values()), newest(known.values())
        gone: list[str] = []
        for app_id, app in stored.items():
            if not app.found.job_id:
                # Until its submit was answered, a job that has ended belongs to an earlier submit.
                numbers = all_jobs if app.found.is_bare or app.found.is_cut_off else living
                stored[app_id] = app._replace(found=replace(app.found, job_id=numbers.get(app_id, "")))
                if not (app.record.replicas or app_id in numbers):  # nothing is known of it
                    gone.append(app_id)
        for app_id in gone:
            del stored[app_id]
        rows = _own_rows(stored, known)
        lost = {app_id: app for app_id, app in stored.items() if app.found.job_id and app_id not in rows}
        if lost:
            rows |= await asyncio.to_thread(_kept_rows, lost)
        missing = [app_id for app_id in lost if app_id not in rows]
        if not missing:
            return rows
        try:
            told = await self._cluster.forgotten([stored[app_id].found.job_id for app_id in missing], operation)
        except SchedulerError as error:  # the files of these apps may be enough, and the others are known
            for app_id in missing:
                stored[app_id] = stored[app_id]._replace(found=replace(stored[app_id].found, silence=str(error)))
            return rows
        return _own_rows(stored, told) | rows

    async def rows(self) -> AsyncGenerator[ListAppResponse]:
        """Yield a row for each app, newest first.

        Raises:
            UnavailableError: There is no app, and no Slurm on this machine.
        """
        looked = await asyncio.to_thread(lambda: self._look(self._home.app_ids(), "list"))
        if not looked and await asyncio.to_thread(shutil.which, "squeue") is None:
            raise absent("list")
        stored = [app.record for app in looked.values() if isinstance(app, StoredApp)]
        stored.sort(key=lambda record: record.created_ns, reverse=True)
        for start in (0, *range(LISTED_FIRST, len(stored), LISTED_NEXT)):
            size = LISTED_NEXT if start else LISTED_FIRST
            some = [record.app_id for record in stored[start : start + size]]
            for app in (await self.describe_many(some, "list")).values():
                if isinstance(app, DescribeAppResponse):
                    yield list_row(app)

    async def stored(self, app_id: str, operation: str) -> StoredApp | None:
        """Return an app as its directory describes it."""
        return await asyncio.to_thread(self._home.find, app_id, operation)

    async def results(self, app_id: str) -> Mapping[tuple[str, int], JsonValue] | None:
        """Return the results of an app's replicas."""
        app = await self.stored(app_id, "results")
        return None if app is None else await asyncio.to_thread(_results, app)


def _own_rows(stored: Mapping[str, StoredApp], rows: Mapping[str, JobRow]) -> dict[str, JobRow]:
    """Return the rows that belong to these apps: their jobs' numbers may be those of other jobs by now."""
    return {app_id: row for app_id, app in stored.items() if (row := rows.get(app.found.job_id)) and row.name == app_id}


def _kept_rows(stored: Mapping[str, StoredApp]) -> dict[str, JobRow]:
    """Return the rows that were kept for these apps' jobs, except those of an earlier start of the job."""
    kept: dict[str, JobRow] = {}
    for app_id, app in stored.items():
        row = parse_row(read_file(f"{app.directory}/{names.TOLD}", END_OF_LOG) or b"")
        if row is not None and row.restarts >= app.found.begun and _own_rows({app_id: app}, {row.job_id: row}):
            kept[app_id] = row
    return kept


def _keep(directory: str, row: JobRow) -> None:
    """Keep the cluster's last row for a job, if possible."""
    path, text = Path(directory, names.TOLD), f"{write_row(row)}\n"
    with suppress(OSError, SchedulerError):
        if read_file(str(path), END_OF_LOG) != text.encode(errors="surrogateescape"):
            _replace(path, text)


def _results(app: StoredApp) -> dict[tuple[str, int], JsonValue]:
    found: dict[tuple[str, int], JsonValue] = {}
    for replica in app.record.replicas:
        path = f"{app.directory}/{names.result_name(replica.stem)}"
        data = read_file(path, LARGEST_RESULT + 1)
        if data is not None:
            found[replica.role, replica.k] = read_result(data)
        elif os.path.lexists(path):  # a link may lead anywhere, and a pipe would wait for a writer
            found[replica.role, replica.k] = UnreadableResult("the result is not a regular file that can be read")
    return found


def _describe_all(stored: Mapping[str, StoredApp], rows: Mapping[str, JobRow]) -> dict[str, _Answer]:
    described: dict[str, _Answer] = {}
    for app_id, app in stored.items():
        try:
            described[app_id] = _describe(app, rows.get(app_id))
        except SchedulerError as error:
            described[app_id] = as_answer(error)
    return described


def _describe(app: StoredApp, job: JobRow | None) -> DescribeAppResponse:
    record, directory, found = app
    # Read after the cluster has answered: a mark is always written before its job is ended.
    is_cancelled, is_late = (os.path.lexists(f"{directory}/{name}") for name in (names.CANCELLED, names.LATE))
    found = replace(found, is_cancelled=is_cancelled, is_late=is_late)
    has_run = job is None or job.is_past or job.restarts > 0 or job.state != "PENDING"
    if found.job_id and has_run:
        found = _with_runs(record, directory, found)
    if found.job_id and (job is None or job.state in ("COMPLETED", "FAILED", "CANCELLED")):
        before = (read_file(f"{directory}/{names.BEFORE}", END_OF_LOG) or b"").decode(errors="replace").strip()
        log = parse_log(read_file(f"{directory}/{names.BATCH_LOG}", END_OF_LOG, from_end=True) or b"")
        found = replace(found, before=before, log=log)
    described = describe_app(record, found, job)
    if directory and job is not None and not job.is_past and described.state.is_terminal() and not is_over(found):
        _keep(directory, job)
    return described


def _with_runs(record: SlurmAppRecord, directory: str, found: Evidence) -> Evidence:
    stems = [replica.stem for replica in record.replicas]
    runs = [parse_events(read_file(f"{directory}/{names.events_name(stem)}", LARGEST_EVENTS) or b"") for stem in stems]
    failed = [place for place, each in enumerate(runs) if each and each[-1].code]
    errors = {place: read_file(f"{directory}/{names.error_name(stems[place])}", LARGEST_ERROR) for place in failed}
    texts = {place: data.decode(errors="replace") for place, data in errors.items() if data}
    return replace(found, runs=runs, errors=texts)
