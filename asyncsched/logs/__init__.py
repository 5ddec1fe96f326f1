"""The log engine: many sources of lines, one bounded stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asyncsched import _lazy
from asyncsched.logs.line import LogGap, LogLine, LogOrigin, gap_line, label
from asyncsched.logs.query import LogQuery
from asyncsched.logs.stream import LogStatistics, LogStream

if TYPE_CHECKING:
    from asyncsched.logs.connection import ConnectionSource, NotStarted
    from asyncsched.logs.engine import LogSink
    from asyncsched.logs.files import FileSource
    from asyncsched.logs.resume import Hole, Resume
    from asyncsched.logs.rfc3339 import StampReader
    from asyncsched.logs.shared_query import HubEvent, HubStatistics, LogHub
    from asyncsched.logs.shared_source import HubSource
    from asyncsched.logs.source import LogSource, QueueSource
    from asyncsched.logs.split import LineSplitter

__all__ = [
    "ConnectionSource",
    "FileSource",
    "Hole",
    "HubEvent",
    "HubSource",
    "HubStatistics",
    "LineSplitter",
    "LogGap",
    "LogHub",
    "LogLine",
    "LogOrigin",
    "LogQuery",
    "LogSink",
    "LogSource",
    "LogStatistics",
    "LogStream",
    "NotStarted",
    "QueueSource",
    "Resume",
    "StampReader",
    "gap_line",
    "label",
]

# What backends are made of is imported by the backends that are used, not by everybody who reads a log.
_HOME = {
    "ConnectionSource": "asyncsched.logs.connection",
    "FileSource": "asyncsched.logs.files",
    "Hole": "asyncsched.logs.resume",
    "HubEvent": "asyncsched.logs.shared_query",
    "HubSource": "asyncsched.logs.shared_source",
    "HubStatistics": "asyncsched.logs.shared_query",
    "LineSplitter": "asyncsched.logs.split",
    "LogHub": "asyncsched.logs.shared_query",
    "LogSink": "asyncsched.logs.engine",
    "LogSource": "asyncsched.logs.source",
    "NotStarted": "asyncsched.logs.connection",
    "QueueSource": "asyncsched.logs.source",
    "Resume": "asyncsched.logs.resume",
    "StampReader": "asyncsched.logs.rfc3339",
}

__getattr__ = _lazy.lazily(__name__, _HOME)
__dir__ = _lazy.names_in(__name__, _HOME)
