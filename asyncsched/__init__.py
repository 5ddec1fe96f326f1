"""Launch, watch, read and stop jobs on any scheduler from asyncio.

Every name below is imported on its first use (PEP 562): ``import asyncsched`` alone loads
neither asyncio nor a scheduler's SDK.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    from asyncsched.errors import LogStreamError as LogStreamError
    from asyncsched.errors import MalformedHandleError as MalformedHandleError
    from asyncsched.errors import MissingExtraError as MissingExtraError
    from asyncsched.errors import NotFoundError as NotFoundError
    from asyncsched.errors import PermissionDeniedError as PermissionDeniedError
    from asyncsched.errors import ReplicaFailure as ReplicaFailure
    from asyncsched.errors import RunOptionError as RunOptionError
    from asyncsched.errors import SchedulerError as SchedulerError
    from asyncsched.errors import ThrottledError as ThrottledError
    from asyncsched.errors import UnavailableError as UnavailableError
    from asyncsched.errors import UnknownAppError as UnknownAppError
    from asyncsched.errors import UnknownSchedulerError as UnknownSchedulerError
    from asyncsched.errors import UsageError as UsageError
    from asyncsched.errors import WorkspaceError as WorkspaceError
    from asyncsched.errors import WrongLoopError as WrongLoopError

# ... and one line here, which says where it lives. A test compares both.
_HOME = {
    "AppStatusError": "asyncsched.errors",
    "AsyncSchedError": "asyncsched.errors",
    "AuthError": "asyncsched.errors",
    "ClosedError": "asyncsched.errors",
    "ComponentError": "asyncsched.errors",
    "ConfigError": "asyncsched.errors",
    "ConflictError": "asyncsched.errors",
    "InvalidRequestError": "asyncsched.errors",
    "LogStreamError": "asyncsched.errors",
    "MalformedHandleError": "asyncsched.errors",
    "MissingExtraError": "asyncsched.errors",
    "NotFoundError": "asyncsched.errors",
    "PermissionDeniedError": "asyncsched.errors",
    "ReplicaFailure": "asyncsched.errors",
    "RunOptionError": "asyncsched.errors",
    "SchedulerError": "asyncsched.errors",
    "ThrottledError": "asyncsched.errors",
    "UnavailableError": "asyncsched.errors",
    "UnknownAppError": "asyncsched.errors",
    "UnknownSchedulerError": "asyncsched.errors",
    "UsageError": "asyncsched.errors",
    "WorkspaceError": "asyncsched.errors",
    "WrongLoopError": "asyncsched.errors",
}

__version__ = "0.1.0"
__all__ = list(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]  # the imports above tell it


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(home), name)
    globals()[name] = value  # the next look-up does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
