"""A timeline of an app's replicas, as bars."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from asyncsched._typing import NamedTuple
from asyncsched.specs.state import AppState, ReplicaStatus

__all__ = ["MOST", "Bar", "TimeLine", "time_line"]

MOST = 200
"""Most replicas in a timeline."""


class Bar(NamedTuple):
    """The bar of a replica.

    Attributes:
        name: The replica.
        state: Its state.
        start: When it started, as a share of the whole time.
        length: How long it ran, as a share of it.
    """

    name: str
    state: AppState
    start: float
    length: float


class TimeLine(NamedTuple):
    """The timeline of replicas.

    Attributes:
        begin: When the first of them started.
        end: When the last of them ended, or now.
        bars: The replicas that have started, in order.
        others: How many more have started.
    """

    begin: datetime
    end: datetime
    bars: tuple[Bar, ...]
    others: int


def time_line(replicas: Sequence[ReplicaStatus], now: datetime, most: int = MOST) -> TimeLine | None:
    """Return the timeline of replicas; None if none has started.

    Args:
        replicas: All of them.
        now: The end of the bars of running replicas.
        most: How many to show.
    """
    ran = [(each, each.started_at, each.finished_at or now) for each in replicas if each.started_at is not None]
    if not ran:
        return None
    begin = min(started for _, started, _ in ran)
    end = max(ended for _, _, ended in ran)
    whole = max((end - begin).total_seconds(), 0.001)
    bars = [
        Bar(
            f"{replica.role}/{replica.id}",
            replica.state,
            (started - begin).total_seconds() / whole,
            max((ended - started).total_seconds(), 0.0) / whole,
        )
        for replica, started, ended in ran[:most]
    ]
    return TimeLine(begin, end, tuple(bars), len(ran) - len(bars))
