"""The limits of this process: as wide as they may be here, and as they were in the replicas."""

from __future__ import annotations

import resource
from collections.abc import Mapping

Limits = Mapping[int, tuple[int, int]]

RAISED = (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU)
"""Many replicas need many descriptors; their log may be longer than a file of theirs, and we live longer than they."""


def raise_limits() -> Limits:
    """Allow ourselves as much as we may have, and return what the replicas get back."""
    limits = {kind: resource.getrlimit(kind) for kind in RAISED}
    for kind, (_, hard) in limits.items():
        resource.setrlimit(kind, (hard, hard))
    return limits


def restore(limits: Limits) -> None:
    """Give back what was ours before `raise_limits`."""
    for kind, values in limits.items():
        resource.setrlimit(kind, values)


def largest_file() -> int:
    """Return how long a file of ours may get, in bytes."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    return 1 << 62 if limit == resource.RLIM_INFINITY else limit


def room_for_arguments() -> int:
    """Return how many bytes a program's arguments and environment may have, as Linux counts them."""
    stack = resource.getrlimit(resource.RLIMIT_STACK)[0]
    most = 6 << 20
    return most if stack == resource.RLIM_INFINITY else max(128 << 10, min(most, stack // 4))
