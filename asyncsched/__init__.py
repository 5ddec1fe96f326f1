"""Launch, watch, read and stop jobs on any scheduler from asyncio.

Every name below is imported on its first use (PEP 562): ``import asyncsched`` alone loads neither asyncio nor a
scheduler's SDK.
"""

from __future__ import annotations

# Type checkers know this name; importing `typing` would cost more than this whole package.
TYPE_CHECKING = False

# A public name is one line here, for type checkers ...
if TYPE_CHECKING:
    from asyncsched.errors import AppStatusError as AppStatusError
    from asyncsched.errors import AsyncSchedError as AsyncSchedError
    from asyncsched.errors import AuthError as AuthError
    from asyncsched.errors import ClosedError as ClosedError
    from asyncsched.errors import ComponentError as ComponentError
    from asyncsched.errors import ConfigError as ConfigError
    from asyncsched.errors import ConflictError as ConflictError
    from asyncsched.errors import InvalidRequestError as InvalidRequestError
    from asyncsched.errors import InvalidRunConfigException as InvalidRunConfigException
    from asyncsched.errors import LogStreamError as LogStreamError
    from asyncsched.errors import MalformedAppHandleException as MalformedAppHandleException
    from asyncsched.errors import MalformedHandleError as MalformedHandleError
    from asyncsched.errors import MissingExtraError as MissingExtraError
    from asyncsched.errors import MountError as MountError
    from asyncsched.errors import NotFoundError as NotFoundError
    from asyncsched.errors import PermissionDeniedError as PermissionDeniedError
    from asyncsched.errors import ReplicaFailure as ReplicaFailure
    from asyncsched.errors import RunOptionError as RunOptionError
    from asyncsched.errors import SchedulerError as SchedulerError
    from asyncsched.errors import ThrottledError as ThrottledError
    from asyncsched.errors import UnavailableError as UnavailableError
    from asyncsched.errors import UnknownAppError as UnknownAppError
    from asyncsched.errors import UnknownAppException as UnknownAppException
    from asyncsched.errors import UnknownResourceError as UnknownResourceError
    from asyncsched.errors import UnknownSchedulerError as UnknownSchedulerError
    from asyncsched.errors import UnknownSchedulerException as UnknownSchedulerException
    from asyncsched.errors import UsageError as UsageError
    from asyncsched.errors import WaitTimeoutError as WaitTimeoutError
    from asyncsched.errors import WorkspaceError as WorkspaceError
    from asyncsched.errors import WrongLoopError as WrongLoopError
    from asyncsched.logs import LogGap as LogGap
    from asyncsched.logs import LogLine as LogLine
    from asyncsched.logs import LogStatistics as LogStatistics
    from asyncsched.logs import LogStream as LogStream
    from asyncsched.runner import ActivityStream as ActivityStream
    from asyncsched.runner import AppEvent as AppEvent
    from asyncsched.runner import AppEventStream as AppEventStream
    from asyncsched.runner import AppList as AppList
    from asyncsched.runner import AppStatuses as AppStatuses
    from asyncsched.runner import CompletedJobs as CompletedJobs
    from asyncsched.runner import CompletionStream as CompletionStream
    from asyncsched.runner import Job as Job
    from asyncsched.runner import JobCounts as JobCounts
    from asyncsched.runner import JobGroup as JobGroup
    from asyncsched.runner import Runner as Runner
    from asyncsched.runner import RunnerStatistics as RunnerStatistics
    from asyncsched.runner import SchedulerStatistics as SchedulerStatistics
    from asyncsched.runner import get_runner as get_runner
    from asyncsched.schedulers import DescribeAppResponse as DescribeAppResponse
    from asyncsched.schedulers import ListAppResponse as ListAppResponse
    from asyncsched.schedulers import Scheduler as Scheduler
    from asyncsched.schedulers import SchedulerFactory as SchedulerFactory
    from asyncsched.schedulers import StateEvent as StateEvent
    from asyncsched.schedulers import StateStream as StateStream
    from asyncsched.schedulers import WorkspaceBuilder as WorkspaceBuilder
    from asyncsched.schedulers import get_default_scheduler_name as get_default_scheduler_name
    from asyncsched.schedulers import get_scheduler as get_scheduler
    from asyncsched.schedulers import get_scheduler_factories as get_scheduler_factories
    from asyncsched.specs import AppDef as AppDef
    from asyncsched.specs import AppDryRunInfo as AppDryRunInfo
    from asyncsched.specs import AppHandle as AppHandle
    from asyncsched.specs import AppState as AppState
    from asyncsched.specs import AppStatus as AppStatus
    from asyncsched.specs import BindMount as BindMount
    from asyncsched.specs import DeviceMount as DeviceMount
    from asyncsched.specs import FailureCause as FailureCause
    from asyncsched.specs import ReplicaStatus as ReplicaStatus
    from asyncsched.specs import Resource as Resource
    from asyncsched.specs import RetryPolicy as RetryPolicy
    from asyncsched.specs import Role as Role
    from asyncsched.specs import RoleStatus as RoleStatus
    from asyncsched.specs import Secret as Secret
    from asyncsched.specs import SecretRef as SecretRef
    from asyncsched.specs import Stream as Stream
    from asyncsched.specs import UnreadableResult as UnreadableResult
    from asyncsched.specs import VolumeMount as VolumeMount
    from asyncsched.specs import macros as macros
    from asyncsched.specs import named_resources as named_resources
    from asyncsched.specs import parse_mounts as parse_mounts
    from asyncsched.specs import resource as resource
    from asyncsched.specs import runopts as runopts

# ... and one line here, with the module that defines it. A test compares both.
_HOME = {
    "ActivityStream": "asyncsched.runner",
    "AppDef": "asyncsched.specs",
    "AppDryRunInfo": "asyncsched.specs",
    "AppEvent": "asyncsched.runner",
    "AppEventStream": "asyncsched.runner",
    "AppHandle": "asyncsched.specs",
    "AppList": "asyncsched.runner",
    "AppState": "asyncsched.specs",
    "AppStatus": "asyncsched.specs",
    "AppStatusError": "asyncsched.errors",
    "AppStatuses": "asyncsched.runner",
    "AsyncSchedError": "asyncsched.errors",
    "AuthError": "asyncsched.errors",
    "BindMount": "asyncsched.specs",
    "ClosedError": "asyncsched.errors",
    "CompletedJobs": "asyncsched.runner",
    "CompletionStream": "asyncsched.runner",
    "ComponentError": "asyncsched.errors",
    "ConfigError": "asyncsched.errors",
    "ConflictError": "asyncsched.errors",
    "DescribeAppResponse": "asyncsched.schedulers",
    "DeviceMount": "asyncsched.specs",
    "FailureCause": "asyncsched.specs",
    "InvalidRequestError": "asyncsched.errors",
    "InvalidRunConfigException": "asyncsched.errors",
    "Job": "asyncsched.runner",
    "JobCounts": "asyncsched.runner",
    "JobGroup": "asyncsched.runner",
    "ListAppResponse": "asyncsched.schedulers",
    "LogGap": "asyncsched.logs",
    "LogLine": "asyncsched.logs",
    "LogStatistics": "asyncsched.logs",
    "LogStream": "asyncsched.logs",
    "LogStreamError": "asyncsched.errors",
    "MalformedAppHandleException": "asyncsched.errors",
    "MalformedHandleError": "asyncsched.errors",
    "MissingExtraError": "asyncsched.errors",
    "MountError": "asyncsched.errors",
    "NotFoundError": "asyncsched.errors",
    "PermissionDeniedError": "asyncsched.errors",
    "ReplicaFailure": "asyncsched.errors",
    "ReplicaStatus": "asyncsched.specs",
    "Resource": "asyncsched.specs",
    "RetryPolicy": "asyncsched.specs",
    "Role": "asyncsched.specs",
    "RoleStatus": "asyncsched.specs",
    "RunOptionError": "asyncsched.errors",
    "Runner": "asyncsched.runner",
    "RunnerStatistics": "asyncsched.runner",
    "Scheduler": "asyncsched.schedulers",
    "SchedulerError": "asyncsched.errors",
    "SchedulerFactory": "asyncsched.schedulers",
    "SchedulerStatistics": "asyncsched.runner",
    "Secret": "asyncsched.specs",
    "SecretRef": "asyncsched.specs",
    "StateEvent": "asyncsched.schedulers",
    "StateStream": "asyncsched.schedulers",
    "Stream": "asyncsched.specs",
    "ThrottledError": "asyncsched.errors",
    "UnavailableError": "asyncsched.errors",
    "UnknownAppError": "asyncsched.errors",
    "UnknownAppException": "asyncsched.errors",
    "UnknownResourceError": "asyncsched.errors",
    "UnknownSchedulerError": "asyncsched.errors",
    "UnknownSchedulerException": "asyncsched.errors",
    "UnreadableResult": "asyncsched.specs",
    "UsageError": "asyncsched.errors",
    "VolumeMount": "asyncsched.specs",
    "WaitTimeoutError": "asyncsched.errors",
    "WorkspaceBuilder": "asyncsched.schedulers",
    "WorkspaceError": "asyncsched.errors",
    "WrongLoopError": "asyncsched.errors",
    "get_default_scheduler_name": "asyncsched.schedulers",
    "get_runner": "asyncsched.runner",
    "get_scheduler": "asyncsched.schedulers",
    "get_scheduler_factories": "asyncsched.schedulers",
    "macros": "asyncsched.specs",
    "named_resources": "asyncsched.specs",
    "parse_mounts": "asyncsched.specs",
    "resource": "asyncsched.specs",
    "runopts": "asyncsched.specs",
}

__version__ = "0.1.0"
__all__ = list(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]  # the imports above tell it


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(home), name)
    globals()[name] = value  # the next look-up does not reach this function
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
