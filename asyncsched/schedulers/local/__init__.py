"""``local_cwd``: an app's replicas as processes of this machine.

Its names are imported on their first use: who begins a supervisor ahead needs few of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncsched.schedulers.local.images import CWDImageProvider as CWDImageProvider
    from asyncsched.schedulers.local.images import ImageProvider as ImageProvider
    from asyncsched.schedulers.local.images import LocalDirectoryImageProvider as LocalDirectoryImageProvider
    from asyncsched.schedulers.local.images import ReplicaParam as ReplicaParam
    from asyncsched.schedulers.local.options import LocalOptions as LocalOptions
    from asyncsched.schedulers.local.request import PopenRequest as PopenRequest
    from asyncsched.schedulers.local.scheduler import LocalScheduler as LocalScheduler
    from asyncsched.schedulers.local.scheduler import create_scheduler as create_scheduler

_HOMES = {
    "CWDImageProvider": "images",
    "ImageProvider": "images",
    "LocalDirectoryImageProvider": "images",
    "LocalOptions": "options",
    "LocalScheduler": "scheduler",
    "PopenRequest": "request",
    "ReplicaParam": "images",
    "create_scheduler": "scheduler",
}

__all__ = [
    "CWDImageProvider",
    "ImageProvider",
    "LocalDirectoryImageProvider",
    "LocalOptions",
    "LocalScheduler",
    "PopenRequest",
    "ReplicaParam",
    "create_scheduler",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value  # the next look-up does not come here
    return value
