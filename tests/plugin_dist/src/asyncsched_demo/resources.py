"""A named resource: a function without arguments that returns a `Resource`."""

from __future__ import annotations

from asyncsched import Resource


def tiny() -> Resource:
    """Half of nothing."""
    return Resource(cpu=1, gpu=0, memMB=64)
