"""The log engine: many sources of lines, one bounded stream."""

from __future__ import annotations

from asyncsched.logs.line import LogGap, LogLine, LogOrigin, gap_line, label
from asyncsched.logs.select import LogQuery
from asyncsched.logs.source import LogSource, QueueSource
from asyncsched.logs.split import LineSplitter
from asyncsched.logs.stream import LogSink, LogStatistics, LogStream

__all__ = [
    "LineSplitter",
    "LogGap",
    "LogLine",
    "LogOrigin",
    "LogQuery",
    "LogSink",
    "LogSource",
    "LogStatistics",
    "LogStream",
    "QueueSource",
    "gap_line",
    "label",
]
