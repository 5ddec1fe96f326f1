from __future__ import annotations

from datetime import UTC, datetime, timedelta

from asyncsched.specs.state import AppState, ReplicaStatus
from asyncsched.views.timeline import time_line

T0 = datetime(2030, 1, 1, tzinfo=UTC)


def replica(number: int, start: float | None, end: float | None) -> ReplicaStatus:
    return ReplicaStatus(
        id=number,
        role="main",
        state=AppState.RUNNING if end is None else AppState.SUCCEEDED,
        hostname="",
        started_at=None if start is None else T0 + timedelta(seconds=start),
        finished_at=None if end is None else T0 + timedelta(seconds=end),
    )


def test_bars_are_shares_of_the_whole_time() -> None:
    line = time_line([replica(0, 0, 5), replica(1, 5, None), replica(2, None, None)], T0 + timedelta(seconds=10))

    assert line is not None
    assert (T0, T0 + timedelta(seconds=10), 0) == (line.begin, line.end, line.others)
    assert [("main/0", 0.0, 0.5), ("main/1", 0.5, 0.5)] == [(bar.name, bar.start, bar.length) for bar in line.bars]


def test_nothing_has_started() -> None:
    assert time_line([replica(0, None, None)], T0) is None


def test_very_many_are_counted() -> None:
    line = time_line([replica(number, 0, 0) for number in range(5)], T0, most=2)

    assert line is not None
    assert (2, 3) == (len(line.bars), line.others)
