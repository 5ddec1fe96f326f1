"""Parse an app's files and the cluster's answers: its record, its replicas' starts and ends, and its job.

Any of it may be cut off, old, or written by another program: what cannot be parsed is ignored, and nothing raises.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from asyncsched._typing import NamedTuple
from asyncsched.schedulers._common.untrusted import last_line, read_ns, well_formed
from asyncsched.specs.handle import make_app_handle

__all__ = [
    "OVER_MEMORY",
    "PROLOG_FAILED",
    "SACCT_FIELDS",
    "SQUEUE_FIELDS",
    "JobRow",
    "ReplicaRun",
    "SlurmAppRecord",
    "SlurmReplicaRecord",
    "make_separator",
    "parse_events",
    "parse_log",
    "parse_number",
    "parse_record",
    "parse_row",
    "parse_sacct",
    "parse_squeue",
    "write_row",
]

SQUEUE_FIELDS = ("JobID", "HetJobID", "State", "exit_code", "RestartCnt", "EndTime", "Reason", "Name")
SACCT_FIELDS = ("JobIDRaw", "State", "ExitCode", "End", "JobName")

OVER_MEMORY = "Exceeded job memory limit"
"""A node's message when it ends a step for this, which Slurm reports as an ordinary failure."""

PROLOG_FAILED = ("Error running slurm prolog", "Job prolog failed")
"""A node's messages when it could not prepare for a job, which Slurm reports as a cancelled one."""

_MOST_DIGITS = 18
_KEPT = "\x1f"
"""Stands between the fields of a row that is kept."""
_ROUND = re.compile(r"\d+\.\d+[+-]?", re.ASCII)


@dataclass(frozen=True, slots=True)
class SlurmReplicaRecord:
    """A replica, as it was submitted.

    Attributes:
        role: The role's name.
        k: Its number in the role.
        stem: The prefix of its file names.
    """

    role: str
    k: int
    stem: str


@dataclass(frozen=True, slots=True)
class SlurmAppRecord:
    """An app, as it was submitted.

    Attributes:
        app_id: The app's id.
        session: The session that submitted it.
        name: The app's name.
        digest: Its dry-run's digest.
        created_ns: When it was submitted.
        note: Its roles and its metadata.
        replicas: Its replicas, in the order of its roles.
        components: How many components its job has.
        requeue: Whether the cluster may restart it.
        timestamps: Whether the lines of its logs have their time.
    """

    app_id: str
    session: str = ""
    name: str = ""
    digest: str = ""
    created_ns: int = 0
    note: Mapping[str, object] = field(default_factory=dict[str, object])
    replicas: Sequence[SlurmReplicaRecord] = ()
    components: int = 1
    requeue: bool = False
    timestamps: bool = False


class ReplicaRun(NamedTuple):
    """One run of a replica.

    Attributes:
        node: The node that it ran on.
        started_ns: When it began.
        code: Its exit code.
        ended_ns: When it ended.
        round: The round of all replicas that it belonged to, if it is the replica's last run in that round: empty if
            the replica alone is restarted; with ``+`` if all are to be restarted, with ``-`` if it was asked to end.
        is_nowhere: Whether the directory that it starts in was missing.
    """

    node: str
    started_ns: int
    code: int | None = None
    ended_ns: int | None = None
    round: str = ""
    is_nowhere: bool = False


class JobRow(NamedTuple):
    """The cluster's row for a job.

    Attributes:
        job_id: Its number; the first component's, if it has several.
        state: Its state, in Slurm's word.
        code: Its script's exit code.
        signal: The signal that ended it.
        restarts: How often the cluster has restarted it.
        ended_ns: When it ended.
        reason: What it waits for, or why it ended.
        name: Its name.
        is_past: Whether the controller no longer knows the job: the row comes from the accounts, or was kept.
    """

    job_id: str
    state: str
    code: int = 0
    signal: int = 0
    restarts: int = 0
    ended_ns: int | None = None
    reason: str = ""
    name: str = ""
    is_past: bool = False


def parse_record(app_id: str, data: bytes) -> SlurmAppRecord | None:
    """Return the record in a file; None if it is not one of this app."""
    try:
        found: Any = json.loads(data)
        if found["app_id"] != app_id:
            return None
        session, name, digest = (well_formed(str(found.get(key, ""))) for key in ("session", "name", "digest"))
        make_app_handle("slurm", session, app_id)
        return SlurmAppRecord(
            app_id,
            session,
            name,
            digest,
            created_ns=read_ns(found.get("created_ns", 0)),
            note=dict(found.get("note") or {}),
            replicas=tuple(map(_replica, found["replicas"])),
            components=int(found.get("components", 1)),
            requeue=found.get("requeue") is True,
            timestamps=found.get("timestamps") is True,
        )
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        return None


def _replica(value: Mapping[str, Any]) -> SlurmReplicaRecord:
    stem = str(value["stem"])
    if "/" in stem or "\0" in stem or not stem:
        raise ValueError("a stem is part of a file's name")
    return SlurmReplicaRecord(well_formed(str(value["role"])), int(value["k"]), stem)


def parse_number(data: bytes) -> JobRow:
    """Return a job's number from a file, empty if there is none, and how often the job was restarted."""
    number, _, restarts = data.decode(errors="replace").strip().partition(";")
    return JobRow("" if _number(number) is None else number, "", restarts=_number(restarts) or 0)


def parse_events(data: bytes) -> list[ReplicaRun]:
    """Return the runs recorded in a replica's file; an unfinished last line is ignored."""
    runs: dict[int, ReplicaRun] = {}
    for line in data.decode(errors="replace").split("\n")[:-1]:
        word, *fields = line.split(" ")
        at, number = (_ns(fields[-1]), _number(fields[0])) if fields else (None, None)
        if at is None or number is None:
            continue
        run = runs.get(number)
        match word, *fields[1:-1]:
            case ["start", node] if run is None:
                runs[number] = ReplicaRun(node, at)
            case ["nowhere"] if run is not None:
                runs[number] = run._replace(is_nowhere=True)
            case ["exit", code] if run is not None and run.code is None and _number(code) is not None:
                runs[number] = run._replace(code=int(code), ended_ns=at)
            case ["end", code, place] if run is not None and run.code is None and _number(code) is not None:
                runs[number] = run._replace(code=int(code), ended_ns=at, round=place if _ROUND.fullmatch(place) else "")
            case _:
                pass
    return [runs[number] for number in sorted(runs)]


def parse_log(data: bytes) -> str:
    """Return the most informative line of the output of the job's script and its nodes: usually the last."""
    telling = [words.encode() for words in (OVER_MEMORY, *PROLOG_FAILED)]
    return last_line(next((line for line in data.split(b"\n") if any(word in line for word in telling)), data))


def make_separator() -> str:
    """Return a separator for a command's fields: a job's name may contain anything else, even newlines."""
    return f"\x1f{os.urandom(16).hex()}"


def _rows(text: str, separator: str, size: int) -> Iterator[list[str]]:
    """Yield the fields of each row; skip rows that do not begin with a job's number."""
    fields = text.split(separator)
    for start in range(0, len(fields) - size, size):
        job_id = fields[start].rpartition("\n")[2].strip()
        if _number(job_id) is not None:
            yield [job_id, *fields[start + 1 : start + size]]


def parse_squeue(text: str, separator: str) -> Iterator[JobRow]:
    """Yield the jobs in the output of ``squeue``; a component of a larger job has its leader's number."""
    for job_id, leader, state, status, restarts, end, reason, name in _rows(text, separator, len(SQUEUE_FIELDS)):
        if leader.strip() not in ("N/A", "0", "", job_id):
            continue
        code = _number(status) or 0
        yield JobRow(
            job_id,
            _word(state),
            code >> 8 & 0xFF,
            code & 0x7F,
            _number(restarts) or 0,
            _ns(end),
            "" if reason in ("None", "N/A") else reason[:500],
            name,
        )


def write_row(row: JobRow) -> str:
    """Return a row to keep in a file, as `squeue` would write it."""
    seconds = "" if row.ended_ns is None else str(row.ended_ns // 1_000_000_000)
    status, restarts = row.code << 8 | row.signal, str(row.restarts)
    return _KEPT.join((row.job_id, "", row.state, str(status), restarts, seconds, row.reason, row.name, ""))


def parse_row(data: bytes) -> JobRow | None:
    """Return the row in a file, None if it holds none."""
    row = next(parse_squeue(data.decode(errors="replace"), _KEPT), None)
    return None if row is None else row._replace(is_past=True)


def parse_sacct(text: str, separator: str) -> Iterator[JobRow]:
    """Yield the jobs in the output of ``sacct``, except those that a controller has lost.

    A controller that is started without its saved state has the accounts close all its jobs as ``CANCELLED``. A job
    that was cancelled is ``CANCELLED by`` a user.
    """
    for job_id, state, status, end, name in _rows(text, separator, len(SACCT_FIELDS)):
        if state.strip() == "CANCELLED":
            continue
        code, _, number = status.partition(":")
        yield JobRow(
            job_id,
            _word(state),
            _number(code) or 0,
            _number(number) or 0,
            ended_ns=_ns(end),
            name=name,
            is_past=True,
        )


def _word(state: str) -> str:
    """Return a state without its suffix, as in ``CANCELLED by 1000`` and ``CANCELLED+``."""
    return (state.split() or [""])[0].rstrip("+").upper()


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


def _ns(text: str) -> int | None:
    """Return a time in seconds as nanoseconds; it may have a decimal comma."""
    whole, _, fraction = text.replace(",", ".").partition(".")
    seconds, parts = _number(whole), _number(fraction or "0")
    if seconds is None or parts is None or len(whole) > 11:
        return None
    return seconds * 1_000_000_000 + int(f"{fraction:0<9}"[:9] or "0")
