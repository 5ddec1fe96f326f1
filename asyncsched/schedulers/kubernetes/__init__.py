"""Kubernetes: ``kubernetes``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asyncsched import _lazy

if TYPE_CHECKING:
    from asyncsched.schedulers.kubernetes.options import KubernetesOpts as KubernetesOpts
    from asyncsched.schedulers.kubernetes.request import KubernetesJob as KubernetesJob
    from asyncsched.schedulers.kubernetes.scheduler import KubernetesScheduler as KubernetesScheduler
    from asyncsched.schedulers.kubernetes.scheduler import create_scheduler as create_scheduler

__all__ = ["KubernetesJob", "KubernetesOpts", "KubernetesScheduler", "create_scheduler"]

_HOMES = {
    "KubernetesJob": "asyncsched.schedulers.kubernetes.request",
    "KubernetesOpts": "asyncsched.schedulers.kubernetes.options",
    "KubernetesScheduler": "asyncsched.schedulers.kubernetes.scheduler",
    "create_scheduler": "asyncsched.schedulers.kubernetes.scheduler",
}

__getattr__ = _lazy.lazily(__name__, _HOMES)
__dir__ = _lazy.names_in(__name__, _HOMES)
