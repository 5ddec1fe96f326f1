"""What is read of an app: its record, the starts and ends of its replicas, and what the cluster tells of its job.

All of it may be cut off, old, or written by somebody else: what is not understood is passed over, and nothing raises.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from asyncsched.schedulers._common.untrusted import last_line, well_formed

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
    "parse_sacct",
    "parse_squeue",
]

SQUEUE_FIELDS = ("JobID", "HetJobID", "State", "exit_code", "RestartCnt", "EndTime", "Reason", "Name")
SACCT_FIELDS = ("JobIDRaw", "State", "ExitCode", "End", "JobName")

OVER_MEMORY = "Exceeded job memory limit"
"""What a node writes that ends a step for this, which Slurm tells as a failure like any other."""

PROLOG_FAILED = ("Error running slurm prolog", "Job prolog failed")
"""What a node writes that could not prepare for a job, which Slurm tells as one that was cancelled."""

_MOST_DIGITS = 18
_ROUND = re.compile(r"\d+\.\d+[+-]?", re.ASCII)


@dataclass(frozen=True, slots=True)
class SlurmReplicaRecord:
    """A replica, as it was submitted.

    Attributes:
        role: The role's name.
        k: Its number in the role.
        stem: What the names of its files begin with.
    """

    role: str
    k: int
    stem: str


@dataclass(frozen=True, slots=True)
class SlurmAppRecord:
    """An app, as it was submitted.

    Attributes:
        app_id: The app's id.
        session: The session that has submitted it.
        name: The name that it was given.
        digest: That of its dry-run.
        created_ns: When it was submitted.
        note: Its roles and its metadata.
        replicas: Its replicas, in the order of its roles.
        components: How many components its job has.
        requeue: Whether the cluster may start it again.
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
        node: Where.
        started_ns: When it began.
        code: Its exit code.
        ended_ns: When it ended.
        round: Which start of all replicas it was of, if it is the replica's last one in that: empty if the replica is
            started again by itself; with ``+`` if all are to be started again, with ``-`` if it was asked to end.
        is_nowhere: Whether the directory that it is to start in was not there.
    """

    node: str
    started_ns: int
    code: int | None = None
    ended_ns: int | None = None
    round: str = ""
    is_nowhere: bool = False


class JobRow(NamedTuple):
    """What the cluster tells of a job.

    Attributes:
        job_id: Its number: that of the first component, if it has several.
        state: Its state, in the cluster's word.
        code: What its script has returned.
        signal: The signal that has ended it.
        restarts: How often the cluster has started it again.
        ended_ns: When it ended.
        reason: What it waits for, or why it ended.
        name: Its name.
        is_past: Whether the accounts tell it, and the controller knows it no more.
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
    """Return the record that a file holds; None if it is none of this app."""
    try:
        found: Any = json.loads(data)
        if found["app_id"] != app_id:
            return None
        session, name, digest = (well_formed(str(found.get(key, ""))) for key in ("session", "name", "digest"))
        return SlurmAppRecord(
            app_id,
            session,
            name,
            digest,
            created_ns=int(found.get("created_ns", 0)),
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
    """Return what a file tells of a job: its number, empty if it tells none, and how often it was started again."""
    number, _, restarts = data.decode(errors="replace").strip().partition(";")
    return JobRow("" if _number(number) is None else number, "", restarts=_number(restarts) or 0)


def parse_events(data: bytes) -> list[ReplicaRun]:
    """Return the runs of a replica that its file tells of; an unfinished last line is not read."""
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
    """Return the line that says most of what the job's script and its nodes have written: the last, as a rule."""
    telling = [words.encode() for words in (OVER_MEMORY, *PROLOG_FAILED)]
    return last_line(next((line for line in data.split(b"\n") if any(word in line for word in telling)), data))


def make_separator() -> str:
    """Return what a command is to write behind each field: a job's name may hold anything else, newlines as well."""
    return f"\x1f{os.urandom(16).hex()}"


def _rows(text: str, separator: str, size: int) -> Iterator[list[str]]:
    """Yield the fields of each row; one that does not begin with the number of a job is left out."""
    fields = text.split(separator)
    for start in range(0, len(fields) - size, size):
        job_id = fields[start].rpartition("\n")[2].strip()
        if _number(job_id) is not None:
            yield [job_id, *fields[start + 1 : start + size]]


def parse_squeue(text: str, separator: str) -> Iterator[JobRow]:
    """Yield the jobs that ``squeue`` tells of; a component of a larger job is told by the number of its leader."""
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


def parse_sacct(text: str, separator: str) -> Iterator[JobRow]:
    """Yield the jobs that ``sacct`` tells of."""
    for job_id, state, status, end, name in _rows(text, separator, len(SACCT_FIELDS)):
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
    """Return a state without what may stand behind it, as in ``CANCELLED by 1000`` and ``CANCELLED+``."""
    return (state.split() or [""])[0].rstrip("+").upper()


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


def _ns(text: str) -> int | None:
    """Return the nanoseconds of a time in seconds, which may have a comma for a point."""
    whole, _, fraction = text.replace(",", ".").partition(".")
    seconds, parts = _number(whole), _number(fraction or "0")
    if seconds is None or parts is None or len(whole) > 11:
        return None
    return seconds * 1_000_000_000 + int(f"{fraction:0<9}"[:9] or "0")
