"""Runs, watches, reads and stops apps on any mix of schedulers, by their handles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asyncsched import _lazy

if TYPE_CHECKING:
    from asyncsched.runner.answers import AppEvent as AppEvent
    from asyncsched.runner.monitor import AppEventStream as AppEventStream
    from asyncsched.runner.monitor import CompletionStream as CompletionStream
    from asyncsched.runner.report import AppList as AppList
    from asyncsched.runner.report import RunnerStatistics as RunnerStatistics
    from asyncsched.runner.report import SchedulerStatistics as SchedulerStatistics
    from asyncsched.runner.runner import Runner as Runner
    from asyncsched.runner.runner import get_runner as get_runner

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

_HOME = {
    "AppEvent": "asyncsched.runner.answers",
    "AppEventStream": "asyncsched.runner.monitor",
    "AppList": "asyncsched.runner.report",
    "CompletionStream": "asyncsched.runner.monitor",
    "Runner": "asyncsched.runner.runner",
    "RunnerStatistics": "asyncsched.runner.report",
    "SchedulerStatistics": "asyncsched.runner.report",
    "get_runner": "asyncsched.runner.runner",
}

__getattr__ = _lazy.lazily(__name__, _HOME)
