"""The files of an app: their names in its directory, and which ids can name a directory."""

from __future__ import annotations

import re
from hashlib import sha256
from urllib.parse import quote

__all__ = [
    "APP",
    "BATCH",
    "BATCH_LOG",
    "BEFORE",
    "CANCELLED",
    "EVENTS",
    "FAILED",
    "JOB",
    "LATE",
    "LOCK",
    "NOT_OURS",
    "NUMBER",
    "RUN",
    "TOLD",
    "WORKSPACE",
    "error_name",
    "events_name",
    "is_app_id",
    "log_name",
    "result_name",
    "stem_of",
    "task_name",
]

APP = "app.json"
"""The record of the submit."""
EVENTS = "events"
"""The directory of the files that may change an app's state, and of no others: watchers learn of changes at once."""
NUMBER = "job"
"""The job's number, written by the submit."""
JOB = f"{EVENTS}/job"
"""The same for watchers; also written by the job when it starts, with how often the cluster has restarted it."""
BEFORE = f"{EVENTS}/before"
"""The current step of the job's script before replicas start, as the reason if it ends there; then empty."""
FAILED = "failed"
"""The exit code of a replica that has failed for good, while others may cause a restart of all."""
CANCELLED = f"{EVENTS}/cancelled"
"""Exists once the app's end was requested."""
LATE = f"{EVENTS}/late"
"""Exists once the app was ended because it had not run in time."""
TOLD = "told"
"""The cluster's row for a job that has ended, kept by the process that described it: the cluster forgets it."""
WORKSPACE = "workspace"
"""The copy of the app's workspace, in which its replicas start."""
LOCK = "lock"
"""Locked while the job is passed to the cluster: by the submitter, and by ``sbatch``, which may outlive it.

Its content identifies the directory, and the job that may run in it: a job of an earlier submit that seemed to fail
finds other content and ends."""
BATCH = "batch.sh"
BATCH_LOG = "batch.log"
NOT_OURS = "this directory is not there, or belongs to another user on this node, so no replica was started"
"""The last line of that log if a node does not find the directory that was submitted: nothing in another one is run."""
RUN = "run.sh"
"""Runs one task, and restarts it after a failure if allowed."""

LONGEST_NAME = 100

_APP_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)


def is_app_id(text: str) -> bool:
    """Return whether an app may have this id: it names a directory and a job."""
    return _APP_ID.fullmatch(text) is not None


def stem_of(role: str, replica: int) -> str:
    """Return the prefix of a replica's file names, for any name of its role."""
    safe = quote(role, safe=" +=@,", errors="surrogatepass")
    if safe.startswith("."):
        safe = f"%2E{safe[1:]}"
    if len(safe) > LONGEST_NAME:
        safe = f"{safe[:LONGEST_NAME]}-{sha256(role.encode(errors='surrogatepass')).hexdigest()[:16]}"
    return f"{safe}-{replica}"


def task_name(rank: int) -> str:
    """Return the name of the file that defines the task of this rank; it contains secrets."""
    return f"task.{rank}"


def events_name(stem: str) -> str:
    """Return the name of the file that records a replica's starts and ends."""
    return f"{EVENTS}/{stem}.ev"


def log_name(stem: str, attempt: int, stream: str) -> str:
    """Return the name of a log: ``out`` or ``err`` of one attempt."""
    return f"{stem}.{attempt}.{stream}"


def result_name(stem: str) -> str:
    """Return the name of the file for a replica's result."""
    return f"{stem}.result"


def error_name(stem: str) -> str:
    """Return the name of the file for the error that a replica reports itself."""
    return f"{stem}.error"
