"""``local_cwd``: an app's replicas as processes of this machine."""

from __future__ import annotations

from asyncsched.schedulers.local.images import (
    CWDImageProvider,
    ImageProvider,
    LocalDirectoryImageProvider,
    ReplicaParam,
)
from asyncsched.schedulers.local.options import LocalOptions
from asyncsched.schedulers.local.request import PopenRequest
from asyncsched.schedulers.local.scheduler import LocalScheduler, create_scheduler

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
