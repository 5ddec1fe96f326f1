"""Who is read next, and how much."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsched.errors import LogStreamError
from asyncsched.logs import LogGap, LogLine, LogQuery, LogSource, QueueSource, gap_line
from asyncsched.logs.merge import FRESH_IN_A_ROW, Merge
from asyncsched.specs.stream import Stream
from tests.logs._fakes import lines, numbered, origin


class Flood(LogSource):
    """Always ahead of its reader."""

    def __init__(self, replica: int = 0) -> None:
        self.role, self.replica = "worker", replica
        self.wake: Callable[[], None] = lambda: None
        self.reads = 0

    def start(self, wake: Callable[[], None]) -> None:
        self.wake = wake

    def read(self, limit: int) -> Sequence[LogLine]:
        self.reads += 1
        self.wake()  # as a source whose own task goes on while it is read
        return numbered(limit, self.replica, self.reads * limit)

    @property
    def ended(self) -> bool:
        return False

    async def aclose(self) -> None: ...


def merge_of(*sources: LogSource, **query: object) -> Merge:
    merge = Merge(LogQuery(app_id="app", **query))  # type: ignore[arg-type]  # any of its fields
    for source in sources:
        merge.add(source, "app")
    return merge


def all_of(merge: Merge, limit: int = 7) -> list[LogLine]:
    got: list[LogLine] = []
    while merge.ready:
        got += merge.turn(limit)
    return got


def ended(*batch: LogLine, replica: int = 0) -> QueueSource:
    source = QueueSource(role="worker", replica=replica)
    source.put(batch)
    source.end()
    return source


def test_a_quiet_source_comes_before_ones_with_a_backlog() -> None:
    quiet = QueueSource(role="worker", replica=9)
    merge = merge_of(*(Flood(n) for n in range(8)), quiet)
    for _ in range(20):
        merge.turn(10)
    quiet.put(lines("now"))

    assert ["now\n"] == merge.turn(10)


def test_many_busy_quiet_ones_do_not_starve_a_backlog() -> None:
    flood = Flood()
    quiet = [QueueSource(replica=n) for n in range(3)]
    merge = merge_of(flood, *quiet)
    for _ in range(10 * FRESH_IN_A_ROW):
        for source in quiet:
            source.put(lines("chatter"))
        merge.turn(10)

    assert flood.reads >= 9


def test_a_source_that_wakes_while_it_is_read_gets_one_turn_like_the_others() -> None:
    floods = [Flood(n) for n in range(4)]
    merge = merge_of(*floods)
    for _ in range(400):
        merge.turn(10)

    assert [100] * 4 == [flood.reads for flood in floods]


def test_a_source_that_wakes_and_ends_in_one_read_ends_once() -> None:
    class Last(Flood):
        def read(self, limit: int) -> Sequence[LogLine]:
            self.wake()
            return numbered(1)

        @property
        def ended(self) -> bool:
            return True

    merge = merge_of(Last(), QueueSource())
    all_of(merge)

    assert 1 == merge.live


def test_wakes_beyond_need_do_not_pile_up() -> None:
    source = QueueSource()
    merge = merge_of(source)
    all_of(merge)
    for _ in range(1000):
        source.put(lines("x"))

    assert 1 == len(merge._fresh)


def test_a_turn_looks_at_one_source_only() -> None:
    sources = [QueueSource(replica=n) for n in range(100)]
    merge = merge_of(*sources)
    turns = 0
    while merge.ready:
        assert [] == list(merge.turn(10))
        turns += 1

    assert 100 == turns


@pytest.mark.parametrize("broken", ["start", "read", "ended", "backlog"])
def test_a_source_that_raises_ends_alone(broken: str) -> None:
    class Broken(Flood):
        def start(self, wake: Callable[[], None]) -> None:
            super().start(wake)
            self.fail("start")

        def read(self, limit: int) -> Sequence[LogLine]:
            self.fail("read")
            return []

        @property
        def ended(self) -> bool:
            self.fail("ended")
            return False

        @property
        def backlog(self) -> bool:
            self.fail("backlog")
            return False

        def fail(self, where: str) -> None:
            if where == broken:
                raise RuntimeError(where)

    merge = merge_of(Broken(3), ended(*lines("a", "b")))

    assert ["a\n", "b\n"] == all_of(merge)
    assert 0 == merge.live
    assert [(3, broken)] == [(failure.replica, str(failure.cause)) for failure in merge.failures]


def test_a_failure_tells_when_the_last_line_was_written() -> None:
    source = QueueSource(role="worker", replica=1)
    source.put(lines("a", ns=5_000_000_000))
    source.end(OSError("gone"))
    merge = merge_of(source)
    all_of(merge)
    (failure,) = merge.failures

    assert failure.last_timestamp is not None
    assert 5 == failure.last_timestamp.timestamp()


class Past(QueueSource):
    """Has a number of lines behind it when it is started."""

    def __init__(self, past: int, *, replica: int = 0) -> None:
        super().__init__(role="worker", replica=replica)
        self.left = past
        self.put(numbered(past, replica))

    def read(self, limit: int) -> Sequence[LogLine]:
        got = super().read(min(limit, self.left) if self.left else limit)
        self.left = max(self.left - len(got), 0)
        if len(got) < limit and self.held and self._wake is not None:
            self._wake()
        return got

    @property
    def backlog(self) -> bool:
        return self.left > 0


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 12), st.integers(1, 50))
def test_tail_lines_are_the_last_of_each_replica_and_all_that_follows(
    past: int, later: int, wanted: int, limit: int
) -> None:
    sources = [Past(past, replica=n) for n in range(3)]
    merge = merge_of(*sources, tail_lines=wanted)
    for n, source in enumerate(sources):
        source.put(numbered(later, n, past))
        source.end()
    got = all_of(merge, limit)
    for n in range(3):
        if past:
            assert numbered(min(past, wanted) + later, n, past - min(past, wanted)) == [
                line for line in got if line.replica == n
            ]


def test_tail_lines_are_counted_before_the_regex_looks() -> None:
    import re

    merge = merge_of(ended(*lines("a1", "a2", "b3", "a4")), tail_lines=2, regex=re.compile("^a"))

    assert ["a4\n"] == all_of(merge)


def test_a_gap_is_counted_told_and_passes_every_filter(caplog: pytest.LogCaptureFixture) -> None:
    import re

    gap = gap_line(LogGap(reason="rotated"), origin(stream=Stream.STDERR))
    merge = merge_of(ended(*lines("a"), gap, *lines("b")), regex=re.compile("b"), streams=Stream.STDOUT)

    assert [gap] == all_of(merge)
    assert 1 == merge.gaps
    assert 1 == len(caplog.records)
    assert "rotated" in caplog.text


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda line: pickle.loads(pickle.dumps(line))])
def test_a_gap_that_was_copied_is_told_too(again: Callable[[LogLine], LogLine]) -> None:
    line = again(gap_line(LogGap(reason="rotated"), origin()))
    merge = merge_of(ended(*lines("a"), line))

    assert ["a\n", ""] == all_of(merge)
    assert 1 == merge.gaps


def test_a_gap_is_raised_where_that_is_asked_for() -> None:
    gap = gap_line(LogGap(reason="rotated"), origin())
    merge = merge_of(ended(*lines("a"), gap, *lines("b")), ended(*lines("c"), replica=1), gaps="raise")

    assert ["a\n", "c\n"] == sorted(all_of(merge))
    (failure,) = merge.failures
    assert isinstance(failure.cause, LogStreamError)


def test_the_last_lines_in_front_of_a_gap_that_is_raised_are_not_lost() -> None:
    source = Past(10)
    source.put([gap_line(LogGap(reason="rotated"), origin()), *numbered(5, 0, 10)])
    source.left += 6
    merge = merge_of(source, tail_lines=3, gaps="raise")

    assert numbered(3, 0, 7) == all_of(merge, limit=4)
    assert 1 == len(merge.failures)


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.just(0), st.just(0)),
        st.tuples(st.just("write"), st.integers(0, 9), st.integers(1, 20)),
        st.tuples(st.just("end"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("fail"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("read"), st.integers(0, 9), st.integers(1, 9)),
    ),
    max_size=80,
)


@settings(max_examples=300)
@given(OPERATIONS)
def test_any_order_of_joins_ends_and_failures_loses_nothing_and_ends_once(
    operations: list[tuple[str, int, int]],
) -> None:
    merge = Merge(LogQuery(app_id="app"))
    sources: list[QueueSource] = []
    over: list[LogSource] = []
    merge.on_end = over.append
    written: dict[int, int] = {}
    failed: set[int] = set()
    got: list[LogLine] = []
    for name, which, count in operations:
        if name == "join":
            sources.append(QueueSource(role="worker", replica=len(sources)))
            written[len(sources) - 1] = 0
            merge.add(sources[-1], "app")
        elif name == "read":
            got += merge.turn(count)
        elif sources:
            number = which % len(sources)
            source = sources[number]
            if name == "write" and not source._ended and source.put(numbered(count, number, written[number])):
                written[number] += count
            elif name == "end":
                source.end()
            elif name == "fail" and not source._ended:
                source.end(OSError("broken"))
                failed.add(number)
    for source in sources:
        source.end()
    got += all_of(merge)

    for number, count in written.items():
        assert numbered(count, number) == [line for line in got if line.replica == number]
    assert 0 == merge.live
    assert sorted(map(id, sources)) == sorted(map(id, over))
    assert sorted(failed) == sorted(failure.replica for failure in merge.failures)
