"""Runs, watches, reads and stops apps on any mix of schedulers, by their handles."""

from __future__ import annotations

from asyncsched.runner.answers import AppEvent
from asyncsched.runner.monitor import AppEventStream, CompletionStream
from asyncsched.runner.report import AppList, RunnerStatistics, SchedulerStatistics
from asyncsched.runner.runner import Runner, get_runner

__all__ = [
    "AppEvent",
    "AppEventStream",
    "AppList",
    "CompletionStream",
    "Runner",
    "RunnerStatistics",
    "SchedulerStatistics",
    "get_runner",
]
