"""Which lines are wanted, and what is refused."""

from __future__ import annotations

import copy
import json
import pickle
import re
from collections.abc import Collection
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched.logs import LogGap, LogLine, gap_line
from asyncsched.logs.line import utc
from asyncsched.logs.query import LogQuery, check_stream, in_range, make_query, matching, to_ns
from asyncsched.specs.stream import Stream
from asyncsched.testing import VirtualClock
from tests.logs._fakes import SECOND, lines, origin

CLOCK = VirtualClock(1_700_000_000.0)


def stamped(*seconds: int) -> list[LogLine]:
    return [lines(f"{second}", ns=second * SECOND)[0] for second in seconds]


def query(**fields: object) -> LogQuery:
    return LogQuery(app_id="app", **fields)  # type: ignore[arg-type]  # any of its fields


def test_since_includes_and_until_excludes() -> None:
    wanted = in_range(stamped(1, 2, 3, 4), query(since_ns=2 * SECOND, until_ns=4 * SECOND))

    assert ["2\n", "3\n"] == wanted


def test_lines_without_a_time_are_always_in_it() -> None:
    assert ["a\n"] == in_range(lines("a"), query(since_ns=5, until_ns=6))


@pytest.mark.parametrize(
    ("after", "before", "told"),
    [(1, 3, False), (1, 5, True), (5, 7, True), (1, 99, True), (1, None, True), (20, 30, False)],
)
def test_a_gap_is_told_if_lines_of_the_time_may_be_missing(after: int, before: int | None, told: bool) -> None:
    gap = LogGap(after=utc(after * SECOND), before=None if before is None else utc(before * SECOND))
    found = in_range([gap_line(gap, origin(), after * SECOND)], query(since_ns=4 * SECOND, until_ns=10 * SECOND))

    assert told == bool(len(found))


def test_attempts_and_streams() -> None:
    some = [
        *lines("out 0", source=origin(stream=Stream.STDOUT, attempt=0)),
        *lines("err 0", source=origin(stream=Stream.STDERR, attempt=0)),
        *lines("out 1", source=origin(stream=Stream.STDOUT, attempt=1)),
    ]

    assert ["out 1\n"] == in_range(some, query(attempts=frozenset({1})))
    assert ["err 0\n"] == in_range(some, query(streams=Stream.STDERR))
    assert some == in_range(some, query())


def test_a_regex_looks_at_the_line_without_its_newline() -> None:
    some = lines("end", "ending", "the end")

    assert ["end\n", "the end\n"] == matching(some, query(regex=re.compile("end$")))
    assert ["end\n"] == matching(some, query(regex=re.compile(r"\Aend\Z")))


@given(st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1)), st.integers(-14, 14))  # noqa: DTZ001 - made aware
def test_a_time_keeps_its_microseconds(when: datetime, hours: int) -> None:
    aware = when.replace(tzinfo=timezone(timedelta(hours=hours)))
    ns = to_ns(aware, CLOCK)

    assert ns is not None
    assert aware == utc(ns)


def test_a_timedelta_means_ago() -> None:
    assert 1_700_000_000 * SECOND - 1_500_000_000 == to_ns(timedelta(seconds=1.5), CLOCK)


def test_a_naive_time_is_local() -> None:
    naive = datetime(2026, 7, 1, 12, 0, 0, 1)  # noqa: DTZ001 - what the test is about

    assert to_ns(naive.astimezone(), CLOCK) == to_ns(naive, CLOCK)


@pytest.mark.parametrize(
    "wrong",
    [
        {"k": -1},
        {"k": [0, -2]},
        {"k": True},
        {"k": 1.5},
        {"attempts": -1},
        {"regex": "("},
        {"tail_lines": -1},
        {"gaps": "ignore"},
        {"streams": "stdin"},
        {"since": datetime(2026, 2, 1, tzinfo=UTC), "until": datetime(2026, 1, 1, tzinfo=UTC)},
    ],
    ids=repr,
)
def test_wrong_arguments_are_refused_at_the_call(wrong: dict[str, object]) -> None:
    with pytest.raises((ValueError, re.error, TypeError)):
        make_query("app", clock=CLOCK, **wrong)  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize(("schedulers", "whose"), [(["a"], "a"), ({"b", "a"}, "one of a, b")])
def test_streams_that_a_scheduler_cannot_separate_are_refused(schedulers: Collection[str], whose: str) -> None:
    wanted = make_query("app", streams=Stream.STDERR, clock=CLOCK)
    with pytest.raises(ValueError, match="cannot separate") as caught:
        check_stream(wanted, [Stream.COMBINED], schedulers)

    expected = f"{whose} cannot separate stdout from stderr; got streams=stderr; use streams=Stream.COMBINED"
    assert expected == str(caught.value)


def test_none_means_all_and_an_empty_name_too() -> None:
    everything = make_query("app", "", None, clock=CLOCK)

    assert everything.wants("any", 99)
    assert make_query("app", ["a", "b"], [0, 2], clock=CLOCK).wants("b", 2)
    assert not make_query("app", ["a", "b"], [0, 2], clock=CLOCK).wants("b", 1)


# Lines.


def test_a_line_is_a_string() -> None:
    (line,) = lines("hello", ns=1_700_000_000_123_456_789)

    assert "hello\n" == line
    assert {"hello\n": 1} == {line: 1}
    assert "hello" == line.text
    assert ("app", "worker", 0, Stream.COMBINED, 0) == (
        line.app_id,
        line.role,
        line.replica,
        line.stream,
        line.attempt,
    )
    assert datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=UTC) == line.timestamp
    assert "worker/0" in repr(line)
    assert "2023-11-14T22:13:20.123456789Z" == json.loads(json.dumps(line.to_dict()))["timestamp"]


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda line: pickle.loads(pickle.dumps(line))])
def test_lines_and_gaps_can_be_copied_and_sent_to_other_processes(again: object) -> None:
    gap = LogGap(after=utc(SECOND), reason="rotated")
    for line in (*lines("a", ns=5), gap_line(gap, origin(), 6)):
        other = again(line)  # type: ignore[operator]  # one of the functions above

        assert type(line) is type(other)
        assert (line, line.source, line.ns, line.gap) == (other, other.source, other.ns, other.gap)


def test_a_line_that_was_made_by_hand_has_a_repr() -> None:
    assert "<LogLine 'x'>" == repr(LogLine("x"))
