"""The scheduler interface, and the schedulers that implement it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asyncsched import _lazy

if TYPE_CHECKING:
    from asyncsched.schedulers._common.app_notes import app_note as app_note
    from asyncsched.schedulers._common.app_notes import read_app_note as read_app_note
    from asyncsched.schedulers._common.program import Finished as Finished
    from asyncsched.schedulers._common.program import Programs as Programs
    from asyncsched.schedulers._common.program_start import Started as Started
    from asyncsched.schedulers._common.program_start import start_program as start_program
    from asyncsched.schedulers._common.rate_limit import Pacer as Pacer
    from asyncsched.schedulers._common.rate_limit import RateLimits as RateLimits
    from asyncsched.schedulers._common.tombstone import Tombstone as Tombstone
    from asyncsched.schedulers.api import Scheduler as Scheduler
    from asyncsched.schedulers.blocking import from_blocking as from_blocking
    from asyncsched.schedulers.hooks import WorkspaceBuilder as WorkspaceBuilder
    from asyncsched.schedulers.lifetime import Tunables as Tunables
    from asyncsched.schedulers.lines import filter_regex as filter_regex
    from asyncsched.schedulers.lines import split_lines as split_lines
    from asyncsched.schedulers.lines import split_lines_iterator as split_lines_iterator
    from asyncsched.schedulers.registry import SchedulerFactory as SchedulerFactory
    from asyncsched.schedulers.registry import get_default_scheduler_name as get_default_scheduler_name
    from asyncsched.schedulers.registry import get_scheduler as get_scheduler
    from asyncsched.schedulers.registry import get_scheduler_factories as get_scheduler_factories
    from asyncsched.schedulers.request_checks import check_seconds as check_seconds
    from asyncsched.schedulers.responses import DescribeAppResponse as DescribeAppResponse
    from asyncsched.schedulers.responses import ListAppResponse as ListAppResponse
    from asyncsched.schedulers.responses import StateEvent as StateEvent
    from asyncsched.schedulers.state_reports import Answers as Answers
    from asyncsched.schedulers.state_reports import StatePort as StatePort
    from asyncsched.schedulers.state_stream import FeedStatistics as FeedStatistics
    from asyncsched.schedulers.state_stream import StateStream as StateStream
    from asyncsched.specs.stream import Stream as Stream

__all__ = [
    "Answers",
    "DescribeAppResponse",
    "FeedStatistics",
    "Finished",
    "ListAppResponse",
    "Pacer",
    "Programs",
    "RateLimits",
    "Scheduler",
    "SchedulerFactory",
    "Started",
    "StateEvent",
    "StatePort",
    "StateStream",
    "Stream",
    "Tombstone",
    "Tunables",
    "WorkspaceBuilder",
    "app_note",
    "check_seconds",
    "filter_regex",
    "from_blocking",
    "get_default_scheduler_name",
    "get_scheduler",
    "get_scheduler_factories",
    "read_app_note",
    "split_lines",
    "split_lines_iterator",
    "start_program",
]

_HOME = {
    "Answers": "asyncsched.schedulers.state_reports",
    "DescribeAppResponse": "asyncsched.schedulers.responses",
    "FeedStatistics": "asyncsched.schedulers.state_stream",
    "Finished": "asyncsched.schedulers._common.program",
    "ListAppResponse": "asyncsched.schedulers.responses",
    "Pacer": "asyncsched.schedulers._common.rate_limit",
    "Programs": "asyncsched.schedulers._common.program",
    "RateLimits": "asyncsched.schedulers._common.rate_limit",
    "Scheduler": "asyncsched.schedulers.api",
    "SchedulerFactory": "asyncsched.schedulers.registry",
    "Started": "asyncsched.schedulers._common.program_start",
    "StateEvent": "asyncsched.schedulers.responses",
    "StatePort": "asyncsched.schedulers.state_reports",
    "StateStream": "asyncsched.schedulers.state_stream",
    "Stream": "asyncsched.specs.stream",
    "Tombstone": "asyncsched.schedulers._common.tombstone",
    "Tunables": "asyncsched.schedulers.lifetime",
    "WorkspaceBuilder": "asyncsched.schedulers.hooks",
    "app_note": "asyncsched.schedulers._common.app_notes",
    "check_seconds": "asyncsched.schedulers.request_checks",
    "filter_regex": "asyncsched.schedulers.lines",
    "from_blocking": "asyncsched.schedulers.blocking",
    "get_default_scheduler_name": "asyncsched.schedulers.registry",
    "get_scheduler": "asyncsched.schedulers.registry",
    "get_scheduler_factories": "asyncsched.schedulers.registry",
    "read_app_note": "asyncsched.schedulers._common.app_notes",
    "start_program": "asyncsched.schedulers._common.program_start",
    "split_lines": "asyncsched.schedulers.lines",
    "split_lines_iterator": "asyncsched.schedulers.lines",
}

__getattr__ = _lazy.lazily(__name__, _HOME)
__dir__ = _lazy.names_in(__name__, _HOME)
