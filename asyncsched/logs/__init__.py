"""The log engine: many sources of lines, one bounded stream."""

from __future__ import annotations

from asyncsched.logs.connection import ConnectionSource, NotStarted
from asyncsched.logs.hub import HubEvent, HubStatistics, LogHub
from asyncsched.logs.line import LogGap, LogLine, LogOrigin, gap_line, label
from asyncsched.logs.resume import Hole, Resume
from asyncsched.logs.select import LogQuery
from asyncsched.logs.source import LogSource, QueueSource
from asyncsched.logs.split import LineSplitter
from asyncsched.logs.stamps import StampReader
from asyncsched.logs.stream import LogSink, LogStatistics, LogStream
from asyncsched.logs.subscriber import HubSource

__all__ = [
    "ConnectionSource",
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
