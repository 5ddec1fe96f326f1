"""Google Cloud Batch: ``gcp_batch``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asyncsched import _lazy

if TYPE_CHECKING:
    from asyncsched.schedulers.gcp_batch.options import GCPBatchOpts as GCPBatchOpts
    from asyncsched.schedulers.gcp_batch.request import GCPBatchJob as GCPBatchJob
    from asyncsched.schedulers.gcp_batch.scheduler import GCPBatchScheduler as GCPBatchScheduler
    from asyncsched.schedulers.gcp_batch.scheduler import create_scheduler as create_scheduler

__all__ = ["GCPBatchJob", "GCPBatchOpts", "GCPBatchScheduler", "create_scheduler"]

_HOMES = {
    "GCPBatchJob": "asyncsched.schedulers.gcp_batch.request",
    "GCPBatchOpts": "asyncsched.schedulers.gcp_batch.options",
    "GCPBatchScheduler": "asyncsched.schedulers.gcp_batch.scheduler",
    "create_scheduler": "asyncsched.schedulers.gcp_batch.scheduler",
}

__getattr__ = _lazy.lazily(__name__, _HOMES)
__dir__ = _lazy.names_in(__name__, _HOMES)
