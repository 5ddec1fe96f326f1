"""Raise this process's resource limits, and restore them in the replicas."""

from __future__ import annotations

import resource

from . import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

    Limits: TypeAlias = Mapping[int, tuple[int, int]]


RAISED = (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU)
"""Limits to raise: many replicas need many descriptors, and a supervisor's logs and CPU time may exceed theirs."""


def raise_limits() -> Limits:
    """Raise the limits to their maximum, and return the old ones, for the replicas."""
    limits = {kind: resource.getrlimit(kind) for kind in RAISED}
    for kind, (_, hard) in limits.items():
        resource.setrlimit(kind, (hard, hard))
    return limits


def restore(limits: Limits) -> None:
    """Restore the limits from before `raise_limits`."""
    for kind, values in limits.items():
        resource.setrlimit(kind, values)


def largest_file() -> int:
    """Return the limit of a file's size, in bytes."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    return 1 << 62 if limit == resource.RLIM_INFINITY else limit


def room_for_arguments() -> int:
    """Return the limit of a program's arguments and environment in bytes, as Linux counts them."""
    stack = resource.getrlimit(resource.RLIMIT_STACK)[0]
    most = 6 << 20
    return most if stack == resource.RLIM_INFINITY else max(128 << 10, min(most, stack // 4))
