"""``local_cwd``: run an app's replicas as processes on this machine.

Names are imported on first use, because starting a supervisor ahead needs only a few of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asyncsched import _lazy, _platform

if TYPE_CHECKING:
    from asyncsched.schedulers.local.client_start import begin_ahead as begin_ahead
    from asyncsched.schedulers.local.images import CWDImageProvider as CWDImageProvider
    from asyncsched.schedulers.local.images import ImageProvider as ImageProvider
    from asyncsched.schedulers.local.images import LocalDirectoryImageProvider as LocalDirectoryImageProvider
    from asyncsched.schedulers.local.images import ReplicaParam as ReplicaParam
    from asyncsched.schedulers.local.options import LocalOpts as LocalOpts
    from asyncsched.schedulers.local.request import PopenRequest as PopenRequest
    from asyncsched.schedulers.local.scheduler import LocalScheduler as LocalScheduler
    from asyncsched.schedulers.local.scheduler import create_scheduler as create_scheduler

_HOMES = {
    "CWDImageProvider": "asyncsched.schedulers.local.images",
    "ImageProvider": "asyncsched.schedulers.local.images",
    "LocalDirectoryImageProvider": "asyncsched.schedulers.local.images",
    "LocalOpts": "asyncsched.schedulers.local.options",
    "LocalScheduler": "asyncsched.schedulers.local.scheduler",
    "PopenRequest": "asyncsched.schedulers.local.request",
    "ReplicaParam": "asyncsched.schedulers.local.images",
    "begin_ahead": "asyncsched.schedulers.local.client_start",
    "create_scheduler": "asyncsched.schedulers.local.scheduler",
}

__all__ = [
    "CWDImageProvider",
    "ImageProvider",
    "LocalDirectoryImageProvider",
    "LocalOpts",
    "LocalScheduler",
    "PopenRequest",
    "ReplicaParam",
    "begin_ahead",
    "create_scheduler",
]

_NEED_LINUX = frozenset({"LocalScheduler", "begin_ahead", "create_scheduler"})

_find = _lazy.lazily(__name__, _HOMES)


def __getattr__(name: str) -> object:
    if name in _NEED_LINUX:
        _platform.check_linux("local_cwd")
    return _find(name)


__dir__ = _lazy.names_in(__name__, _HOMES)
