"""The formats on disk and on the wire: names, versions, and the index's records."""

from __future__ import annotations

import struct

FORMAT = (1, 0)
"""The version of the state record. A reader accepts newer minor versions, and refuses newer major ones."""

PROTOCOL = 1
"""The version of the control socket. Both sides send it, because a detached supervisor may survive an upgrade."""

LONGEST_MESSAGE = 64 << 20
"""Longest message to a supervisor in bytes, including its newline; after a longer one it disconnects."""

RECORD = struct.Struct("<QQIBBH")
"""A record of the index: time in ns, offset, length, kind, flags, spare; of fixed size, so that a reader can seek."""

STDOUT, STDERR, COMBINED = 1, 2, 3
"""Kinds of records for chunks of output, in the file of that name."""

ROTATED = 8
"""The kind of a segment's last record: the log continues in the next segment."""

END = 9
"""The kind of a log's last record."""

LINE_START = 1
"""A flag: the chunk begins at the start of a line. A reader looks for it after lost output."""

STEMS = {STDOUT: "stdout", STDERR: "stderr", COMBINED: "combined"}

APPS = "apps"
SUPERVISORS = "supervisors"
STATE = "state.json"
WORKSPACE = "workspace"
"""The directory with the copy of the workspace, in which replicas start."""
COPIED = ".workspace"
"""The suffix of such a directory's name before it is moved into the app's directory."""
RESULT = "result.json"
MARK = "ASYNCSCHED_SUPERVISED"
"""A variable of every replica, which identifies processes that have lost their parents."""

TOLD_REPLICAS = 100
"""Most replicas for which the event of a change contains the record; with more it has only the app's id."""

TOLD_BYTES = 32 * 1024
"""The same limit in bytes of the record."""

NOT_EXECUTED = "could not be executed: "
"""The start of the reason when the kernel refused a program that passed the checks."""


def index_name(segment: int) -> str:
    """Return the name of a segment's index."""
    return f"index.{segment}" if segment else "index"


def log_name(kind: int, segment: int) -> str:
    """Return the name of the file with a stream's output in a segment."""
    return f"{STEMS[kind]}.{segment}.log" if segment else f"{STEMS[kind]}.log"


def socket_name(pid: int, start: int) -> str:
    """Return the name of a supervisor's socket."""
    return f"{pid}-{start}.sock"


def unfinished_name(pid: int, start: int, serial: int, name: str) -> str:
    """Return the temporary name under which a supervisor makes an app's directory; no app's id has this form."""
    return f".{pid}-{start}-{serial}.{name}"
