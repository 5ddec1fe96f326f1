"""What is on disk and on the wire: names, versions, and the index's records."""

from __future__ import annotations

import struct

FORMAT = (1, 0)
"""Of the state record. A reader takes a newer minor one, and names the version of a newer major one."""

PROTOCOL = 1
"""Of the control socket. A detached supervisor outlives an upgrade of the package, so both sides say theirs."""

LONGEST_MESSAGE = 64 << 20
"""Bytes of a message to a supervisor, its newline included; it hangs up on whoever sends more."""

RECORD = struct.Struct("<QQIBBH")
"""Of the index: time in ns, offset, length, kind, flags, spare. Fixed, so that a reader can cut to whole ones."""

STDOUT, STDERR, COMBINED = 1, 2, 3
"""Kinds of record that say where a chunk of output lies, in the file of that name."""

ROTATED = 8
"""The kind of a segment's last record: the log goes on in the next segment."""

END = 9
"""The kind of a log's last record: nothing is written after it."""

LINE_START = 1
"""A flag: the chunk begins where a line begins. A reader that has lost what came before looks for it."""

STEMS = {STDOUT: "stdout", STDERR: "stderr", COMBINED: "combined"}

APPS = "apps"
SUPERVISORS = "supervisors"
STATE = "state.json"
WORKSPACE = "workspace"
"""The directory of an app that its replicas start in, where it was given a workspace."""
COPIED = ".workspace"
"""Ends the name of such a directory before it is a part of its app."""
RESULT = "result.json"
MARK = "ASYNCSCHED_SUPERVISED"
"""Set in every replica; a process that has lost its parents is known by it."""

TOLD_REPLICAS = 100
"""Replicas up to which the event of an app's change holds its record; with more it holds the app's id alone."""

TOLD_BYTES = 32 * 1024
"""Likewise, bytes of the record."""

NOT_EXECUTED = "could not be executed: "
"""Begins the reason of a replica whose program the kernel has refused after all."""


def index_name(segment: int) -> str:
    """Return the name of a segment's index."""
    return f"index.{segment}" if segment else "index"


def log_name(kind: int, segment: int) -> str:
    """Return the name of the file that holds a stream's output in a segment."""
    return f"{STEMS[kind]}.{segment}.log" if segment else f"{STEMS[kind]}.log"


def socket_name(pid: int, start: int) -> str:
    """Return the name of a supervisor's socket."""
    return f"{pid}-{start}.sock"


def unfinished_name(pid: int, start: int, serial: int, name: str) -> str:
    """Return the name under which a supervisor makes an app's directory; it is no app's."""
    return f".{pid}-{start}-{serial}.{name}"
