"""The files of an app: their names in its directory, and what may name a directory."""

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
"""What is known of an app when it is submitted."""
EVENTS = "events"
"""The directory of what may change an app's state, and of nothing else: who watches it is told of that at once."""
NUMBER = "job"
"""The job's number, written by the submit."""
JOB = f"{EVENTS}/job"
"""The same for who watches; written by the job when it starts as well, with how often the cluster has restarted it."""
BEFORE = f"{EVENTS}/before"
"""What the job's script does before replicas start, as the words for its end should it go no further; then empty."""
FAILED = "failed"
"""The exit code of a replica that has failed for good, while others may have all of them started again."""
CANCELLED = f"{EVENTS}/cancelled"
"""Is there once somebody has asked for the app's end."""
LATE = f"{EVENTS}/late"
"""Is there once the app was ended because it had not run in time."""
WORKSPACE = "workspace"
"""The copy of the app's workspace, in which its replicas start."""
LOCK = "lock"
"""Held while the job is handed to the cluster: by the submitter, and by ``sbatch``, which may outlive it.

It names the directory, as the job does that may run in it: a job of an earlier submit, which seemed to fail, finds
another name and ends."""
BATCH = "batch.sh"
BATCH_LOG = "batch.log"
NOT_OURS = "this directory is not there, or belongs to another user on this node, so no replica was started"
"""The last line of that log where a node does not find the directory that was submitted: nothing in another is run."""
RUN = "run.sh"
"""Runs one task, again if it fails and may."""

LONGEST_NAME = 100

_APP_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)


def is_app_id(text: str) -> bool:
    """Tell whether an app may have this id: it names a directory and a job."""
    return _APP_ID.fullmatch(text) is not None


def stem_of(role: str, replica: int) -> str:
    """Return what the names of a replica's files begin with, whatever its role is called."""
    safe = quote(role, safe=" +=@,", errors="surrogatepass")
    if safe.startswith("."):
        safe = f"%2E{safe[1:]}"
    if len(safe) > LONGEST_NAME:
        safe = f"{safe[:LONGEST_NAME]}-{sha256(role.encode(errors='surrogatepass')).hexdigest()[:16]}"
    return f"{safe}-{replica}"


def task_name(rank: int) -> str:
    """Return the name of the file that says what the task of this rank runs; secrets stand in it."""
    return f"task.{rank}"


def events_name(stem: str) -> str:
    """Return the name of the file in which a replica's starts and ends are written down."""
    return f"{EVENTS}/{stem}.ev"


def log_name(stem: str, attempt: int, stream: str) -> str:
    """Return the name of a log: ``out`` or ``err`` of one attempt."""
    return f"{stem}.{attempt}.{stream}"


def result_name(stem: str) -> str:
    """Return the name of the file for a replica's result."""
    return f"{stem}.result"


def error_name(stem: str) -> str:
    """Return the name of the file for the error that a replica reports by itself."""
    return f"{stem}.error"
