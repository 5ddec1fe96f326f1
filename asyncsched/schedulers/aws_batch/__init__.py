"""AWS Batch: ``aws_batch``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asyncsched import _lazy

if TYPE_CHECKING:
    from asyncsched.schedulers.aws_batch.options import AWSBatchOpts as AWSBatchOpts
    from asyncsched.schedulers.aws_batch.request import BatchJob as BatchJob
    from asyncsched.schedulers.aws_batch.scheduler import AWSBatchScheduler as AWSBatchScheduler
    from asyncsched.schedulers.aws_batch.scheduler import create_scheduler as create_scheduler

__all__ = ["AWSBatchOpts", "AWSBatchScheduler", "BatchJob", "create_scheduler"]

_HOMES = {
    "AWSBatchOpts": "asyncsched.schedulers.aws_batch.options",
    "AWSBatchScheduler": "asyncsched.schedulers.aws_batch.scheduler",
    "BatchJob": "asyncsched.schedulers.aws_batch.request",
    "create_scheduler": "asyncsched.schedulers.aws_batch.scheduler",
}

__getattr__ = _lazy.lazily(__name__, _HOMES)
__dir__ = _lazy.names_in(__name__, _HOMES)
