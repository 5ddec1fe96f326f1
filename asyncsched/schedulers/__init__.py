"""The scheduler contract, and the schedulers that fulfil it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asyncsched import _lazy

if TYPE_CHECKING:
    from asyncsched.schedulers.api import Scheduler as Scheduler
    from asyncsched.schedulers.feed import FeedStatistics as FeedStatistics
    from asyncsched.schedulers.hooks import WorkspaceBuilder as WorkspaceBuilder
    from asyncsched.schedulers.port import StatePort as StatePort
    from asyncsched.schedulers.registry import SchedulerFactory as SchedulerFactory
    from asyncsched.schedulers.registry import get_default_scheduler_name as get_default_scheduler_name
    from asyncsched.schedulers.registry import get_scheduler as get_scheduler
    from asyncsched.schedulers.registry import get_scheduler_factories as get_scheduler_factories
    from asyncsched.schedulers.responses import DescribeAppResponse as DescribeAppResponse
    from asyncsched.schedulers.responses import ListAppResponse as ListAppResponse
    from asyncsched.schedulers.responses import StateEvent as StateEvent
    from asyncsched.schedulers.watch import StateStream as StateStream
    from asyncsched.specs.stream import Stream as Stream

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

_HOME = {
    "DescribeAppResponse": "asyncsched.schedulers.responses",
    "FeedStatistics": "asyncsched.schedulers.feed",
    "ListAppResponse": "asyncsched.schedulers.responses",
    "Scheduler": "asyncsched.schedulers.api",
    "SchedulerFactory": "asyncsched.schedulers.registry",
    "StateEvent": "asyncsched.schedulers.responses",
    "StatePort": "asyncsched.schedulers.port",
    "StateStream": "asyncsched.schedulers.watch",
    "Stream": "asyncsched.specs.stream",
    "WorkspaceBuilder": "asyncsched.schedulers.hooks",
    "get_default_scheduler_name": "asyncsched.schedulers.registry",
    "get_scheduler": "asyncsched.schedulers.registry",
    "get_scheduler_factories": "asyncsched.schedulers.registry",
}

__getattr__ = _lazy.lazily(__name__, _HOME)
