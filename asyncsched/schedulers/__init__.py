"""The scheduler contract, and the schedulers that fulfil it."""

from __future__ import annotations

from asyncsched.schedulers.api import Scheduler, WorkspaceBuilder
from asyncsched.schedulers.feed import FeedStatistics, StatePort
from asyncsched.schedulers.registry import (
    SchedulerFactory,
    get_default_scheduler_name,
    get_scheduler,
    get_scheduler_factories,
)
from asyncsched.schedulers.responses import DescribeAppResponse, ListAppResponse, StateEvent
from asyncsched.schedulers.watch import StateStream
from asyncsched.specs.stream import Stream

__all__ = [
    "DescribeAppResponse",
    "FeedStatistics",
    "ListAppResponse",
    "Scheduler",
    "SchedulerFactory",
    "StateEvent",
    "StatePort",
    "StateStream",
    "Stream",
    "WorkspaceBuilder",
    "get_default_scheduler_name",
    "get_scheduler",
    "get_scheduler_factories",
]
