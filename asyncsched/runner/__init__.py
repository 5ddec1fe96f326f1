"""Runs, watches, reads and stops apps on any mix of schedulers, by their handles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asyncsched import _lazy

if TYPE_CHECKING:
    from asyncsched.runner.activity import ActivityStream as ActivityStream
    from asyncsched.runner.answers import AppEvent as AppEvent
    from asyncsched.runner.groups.completed import CompletedJobs as CompletedJobs
    from asyncsched.runner.groups.group import JobGroup as JobGroup
    from asyncsched.runner.groups.job import Job as Job
    from asyncsched.runner.groups.outcome import JobCounts as JobCounts
    from asyncsched.runner.monitor import AppEventStream as AppEventStream
    from asyncsched.runner.monitor import CompletionStream as CompletionStream
    from asyncsched.runner.report import AppList as AppList
    from asyncsched.runner.report import AppStatuses as AppStatuses
    from asyncsched.runner.report import RunnerStatistics as RunnerStatistics
    from asyncsched.runner.report import SchedulerStatistics as SchedulerStatistics
    from asyncsched.runner.runner import Runner as Runner
    from asyncsched.runner.runner import get_runner as get_runner

__all__ = [
    "ActivityStream",
    "AppEvent",
    "AppEventStream",
    "AppList",
    "AppStatuses",
    "CompletedJobs",
    "CompletionStream",
    "Job",
    "JobCounts",
    "JobGroup",
    "Runner",
    "RunnerStatistics",
    "SchedulerStatistics",
    "get_runner",
]

_HOME = {
    "ActivityStream": "asyncsched.runner.activity",
    "AppEvent": "asyncsched.runner.answers",
    "AppEventStream": "asyncsched.runner.monitor",
    "AppList": "asyncsched.runner.report",
    "AppStatuses": "asyncsched.runner.report",
    "CompletedJobs": "asyncsched.runner.groups.completed",
    "CompletionStream": "asyncsched.runner.monitor",
    "Job": "asyncsched.runner.groups.job",
    "JobCounts": "asyncsched.runner.groups.outcome",
    "JobGroup": "asyncsched.runner.groups.group",
    "Runner": "asyncsched.runner.runner",
    "RunnerStatistics": "asyncsched.runner.report",
    "SchedulerStatistics": "asyncsched.runner.report",
    "get_runner": "asyncsched.runner.runner",
}

__getattr__ = _lazy.lazily(__name__, _HOME)
__dir__ = _lazy.names_in(__name__, _HOME)
