"""Run, watch, read and stop apps on any mix of schedulers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asyncsched import _lazy

if TYPE_CHECKING:
    from asyncsched.runner.activity import ActivityStream as ActivityStream
    from asyncsched.runner.convert import AppEvent as AppEvent
    from asyncsched.runner.groups.completed import CompletedJobs as CompletedJobs
    from asyncsched.runner.groups.group import JobGroup as JobGroup
    from asyncsched.runner.groups.job import Job as Job
    from asyncsched.runner.groups.job import JobCounts as JobCounts
    from asyncsched.runner.results import AppList as AppList
    from asyncsched.runner.results import AppStatuses as AppStatuses
    from asyncsched.runner.results import RunnerStatistics as RunnerStatistics
    from asyncsched.runner.results import SchedulerStatistics as SchedulerStatistics
    from asyncsched.runner.runner import Runner as Runner
    from asyncsched.runner.runner import get_runner as get_runner
    from asyncsched.runner.watch import AppEventStream as AppEventStream
    from asyncsched.runner.watch import CompletionStream as CompletionStream

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
    "AppEvent": "asyncsched.runner.convert",
    "AppEventStream": "asyncsched.runner.watch",
    "AppList": "asyncsched.runner.results",
    "AppStatuses": "asyncsched.runner.results",
    "CompletedJobs": "asyncsched.runner.groups.completed",
    "CompletionStream": "asyncsched.runner.watch",
    "Job": "asyncsched.runner.groups.job",
    "JobCounts": "asyncsched.runner.groups.job",
    "JobGroup": "asyncsched.runner.groups.group",
    "Runner": "asyncsched.runner.runner",
    "RunnerStatistics": "asyncsched.runner.results",
    "SchedulerStatistics": "asyncsched.runner.results",
    "get_runner": "asyncsched.runner.runner",
}

__getattr__ = _lazy.lazily(__name__, _HOME)
__dir__ = _lazy.names_in(__name__, _HOME)
