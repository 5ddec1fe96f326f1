"""What is read of an app: its record, the starts and ends of its replicas, and what the cluster tells of its job.

All of it may be cut off, old, or written by somebody else: what is not understood is passed over, and nothing raises.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from asyncsched.schedulers._common.untrusted import well_formed

__all__ = [
    "SACCT_FIELDS",
    "SEPARATOR",
    "SQUEUE_FIELDS",
    "AppRecord",
    "Attempt",
    "JobRow",
    "ReplicaRecord",
    "parse_events",
    "parse_record",
    "parse_sacct",
    "parse_squeue",
]

SEPARATOR = "\x1f"
SQUEUE_FIELDS = ("JobID", "HetJobID", "State", "exit_code", "RestartCnt", "EndTime", "Reason", "Name")
"""The name comes last: it may hold anything."""
SACCT_FIELDS = ("JobIDRaw", "State", "ExitCode", "End", "JobName")

_MOST_DIGITS = 18


@dataclass(frozen=True, slots=True)
class ReplicaRecord:
    """A replica, as it was submitted.

    Attributes:
        role: The role's name.
        k: Its number in the role.
        stem: What the names of its files begin with.
        retries: How often it is started again.
    """

    role: str
    k: int
    stem: str
    retries: int = 0


@dataclass(frozen=True, slots=True)
class AppRecord:
    """An app, as it was submitted.

    Attributes:
        app_id: The app's id.
        session: The session that has submitted it.
        name: The name that it was given.
        digest: That of its dry-run.
        created_ns: When it was submitted.
        note: Its roles and its metadata.
        replicas: Its replicas, in the order of their ranks.
        requeue: Whether the cluster may start it again.
        timestamps: Whether the lines of its logs have their time.
    """

    app_id: str
    session: str = ""
    name: str = ""
    digest: str = ""
    created_ns: int = 0
    note: Mapping[str, object] = field(default_factory=dict[str, object])
    replicas: Sequence[ReplicaRecord] = ()
    requeue: bool = False
    timestamps: bool = False


class Attempt(NamedTuple):
    """One run of a replica."""

    node: str
    started_ns: int
    code: int | None = None
    ended_ns: int | None = None


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
    """

    job_id: str
    state: str
    code: int = 0
    signal: int = 0
    restarts: int = 0
    ended_ns: int | None = None
    reason: str = ""
    name: str = ""


def parse_record(app_id: str, data: bytes) -> AppRecord | None:
    """Return the record that a file holds; None if it is none of this app."""
    try:
        found: object = json.loads(data)
    except (ValueError, RecursionError):
        return None
    record = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    replicas: Any = record.get("replicas")
    try:
        if record["app_id"] != app_id:
            return None
        return AppRecord(
            app_id,
            well_formed(str(record.get("session", ""))),
            well_formed(str(record.get("name", ""))),
            str(record.get("digest", "")),
            int(record.get("created_ns", 0)),
            dict(record.get("note") or {}),
            tuple(_replica(each) for each in replicas),
            record.get("requeue") is True,
            record.get("timestamps") is True,
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None


def _replica(value: Mapping[str, Any]) -> ReplicaRecord:
    stem = str(value["stem"])
    if "/" in stem or "\0" in stem or not stem:
        raise ValueError("a stem is part of a file's name")
    return ReplicaRecord(well_formed(str(value["role"])), int(value["k"]), stem, int(value.get("retries", 0)))


def parse_events(data: bytes) -> list[Attempt]:
    """Return the runs of a replica that its file tells of; an unfinished last line is not read."""
    runs: dict[int, Attempt] = {}
    for line in data.decode(errors="replace").split("\n")[:-1]:
        match line.split(" "):
            case ["start", number, node, time] if (at := _ns(time)) is not None and _number(number) is not None:
                runs.setdefault(int(number), Attempt(node, at))
            case ["exit", number, code, time] if (at := _ns(time)) is not None and _number(code) is not None:
                key = _number(number)
                if key in runs and runs[key].code is None:
                    runs[key] = runs[key]._replace(code=int(code), ended_ns=at)
            case _:
                pass
    return [runs[number] for number in sorted(runs)]


def parse_squeue(text: str) -> Iterator[JobRow]:
    """Yield the jobs that ``squeue`` tells of; a component of a larger job is told by its number in front of it."""
    for line in text.split("\n"):
        fields = line.split(SEPARATOR, len(SQUEUE_FIELDS) - 1)
        if len(fields) < len(SQUEUE_FIELDS):
            continue
        job_id, leader, state, status, restarts, end, reason, name = (each.strip() for each in fields)
        if _number(job_id) is None or leader not in ("N/A", "0", "", job_id):
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
            name.removesuffix(SEPARATOR),
        )


def parse_sacct(text: str) -> Iterator[JobRow]:
    """Yield the jobs that ``sacct`` tells of."""
    for line in text.split("\n"):
        fields = line.split("|", len(SACCT_FIELDS) - 1)
        if len(fields) < len(SACCT_FIELDS) or _number(fields[0]) is None:
            continue
        job_id, state, status, end, name = fields
        code, _, number = status.partition(":")
        yield JobRow(
            job_id, _word(state), _number(code) or 0, _number(number) or 0, ended_ns=_ns(end), name=name.rstrip("|")
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
