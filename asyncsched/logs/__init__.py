"""The log engine: many sources of lines, one bounded stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asyncsched import _lazy
from asyncsched.logs.line import LogGap, LogLine, LogOrigin, gap_line, label
from asyncsched.logs.select import LogQuery
from asyncsched.logs.stream import LogStatistics, LogStream

if TYPE_CHECKING:
    from asyncsched.logs.connection import ConnectionSource, NotStarted
    from asyncsched.logs.core import LogSink
    from asyncsched.logs.files import FileSource
    from asyncsched.logs.hub import HubEvent, HubStatistics, LogHub
    from asyncsched.logs.resume import Hole, Resume
    from asyncsched.logs.source import LogSource, QueueSource
    from asyncsched.logs.split import LineSplitter
    from asyncsched.logs.stamps import StampReader
    from asyncsched.logs.subscriber import HubSource

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
    "HubEvent": "asyncsched.logs.hub",
    "HubSource": "asyncsched.logs.subscriber",
    "HubStatistics": "asyncsched.logs.hub",
    "LineSplitter": "asyncsched.logs.split",
    "LogHub": "asyncsched.logs.hub",
    "LogSink": "asyncsched.logs.core",
    "LogSource": "asyncsched.logs.source",
    "NotStarted": "asyncsched.logs.connection",
    "QueueSource": "asyncsched.logs.source",
    "Resume": "asyncsched.logs.resume",
    "StampReader": "asyncsched.logs.stamps",
}

__getattr__ = _lazy.lazily(__name__, _HOME)
__dir__ = _lazy.names_in(__name__, _HOME)
