"""Exactly once over connections that break at any point."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from asyncsched.logs import Hole, Resume

SECOND = 1_000_000_000
Line = tuple[int, str, str]

streams = st.sampled_from(["stdout", "stderr"])


@st.composite
def logs(draw: st.DrawFn) -> list[Line]:
    """Up to 80 lines in the order of a log's file: equal stamps, equal lines, two streams stamped apart."""
    lines: list[Line] = []
    now = 10 * SECOND
    for number in range(draw(st.integers(0, 80))):
        now += draw(st.sampled_from([0, 0, 1, 1000, SECOND // 10, SECOND, 5 * SECOND]))
        late = draw(st.sampled_from([0, 0, 0, 5, SECOND // 2]))
        lines.append((now - late, draw(streams), draw(st.sampled_from(["same", f"line {number}"]))))
    return lines


class Service:
    """A log as a service keeps it: sent again from a time on, in the order of its file."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self.lines = list(lines)
        self.purged = 0

    def since(self, ns: int | None) -> list[Line]:
        return [line for line in self.lines[self.purged :] if ns is None or line[0] >= ns]


def read(resume: Resume, sent: Iterable[Line]) -> tuple[list[Line], list[Hole]]:
    new: list[Line] = []
    holes: list[Hole] = []
    for line in sent:
        if resume.note(*line):
            if hole := resume.take_hole():
                holes.append(hole)
            new.append(line)
    return new, holes


@given(
    logs(),
    st.lists(st.integers(0, 60), max_size=8),
    st.integers(1, 16),
    st.sampled_from([1, 1000, SECOND // 1000, SECOND, 60 * SECOND]),
)
def test_any_cuts_lose_nothing_and_repeat_nothing(
    lines: list[Line], cuts: list[int], size: int, granularity: int
) -> None:
    service, resume = Service(lines), Resume(size=size, granularity_ns=granularity)
    got: list[Line] = []
    holes: list[Hole] = []
    for cut in [*cuts, None]:
        new, told = read(resume, service.since(resume.reconnect())[:cut])
        got += new
        holes += told
    resume.end_replay()

    assert lines == got
    assert [] == holes
    assert resume.take_hole() is None


@given(logs(), st.integers(0, 80), st.integers(1, 16), st.data())
def test_a_log_that_grows_meanwhile_is_read_once(lines: list[Line], first: int, size: int, data: st.DataObject) -> None:
    resume = Resume(size=size)
    written = got = 0
    result: list[Line] = []
    while got < 6 or written < len(lines):
        written = min(len(lines), written + data.draw(st.integers(0, 40)) + (first if not got else 0) + (got > 6) * 40)
        new, holes = read(resume, Service(lines[:written]).since(resume.reconnect())[: data.draw(st.integers(0, 80))])
        result += new
        got += 1

        assert [] == holes
    result += read(resume, Service(lines).since(resume.reconnect()))[0]

    assert lines == result


@st.composite
def stamped_apart(draw: st.DrawFn) -> list[Line]:
    steps = draw(st.lists(st.sampled_from([1, 1000, SECOND // 10, SECOND, 5 * SECOND]), min_size=1, max_size=80))
    now, lines = 10 * SECOND, []
    for number, step in enumerate(steps):
        now += step
        lines.append((now, draw(streams), f"line {number}"))
    return lines


@given(stamped_apart(), st.integers(0, 80), st.integers(0, 80), st.integers(1, 16))
def test_a_rotation_is_told_and_nothing_is_repeated(lines: list[Line], cut: int, purged: int, size: int) -> None:
    service, resume = Service(lines), Resume(size=size)
    got, _ = read(resume, service.since(resume.reconnect())[:cut])
    service.purged = purged
    new, holes = read(resume, service.since(resume.reconnect()))
    resume.end_replay()
    last = resume.take_hole()

    assert [line for line in lines if line in got or line in lines[purged:]] == got + new
    told = [*holes, *([last] if last else [])]
    if got and purged >= len(got):  # the last line that was seen is gone: nobody can know what else is
        assert [Hole(got[-1][0], new[0][0] if new else None)] == told
    else:
        assert [] == told


def test_a_hole_is_told_again_after_a_cut_in_front_of_it_but_once_in_all() -> None:
    resume = Resume()
    read(resume, [(10 * SECOND, "stdout", "a"), (11 * SECOND, "stdout", "b")])
    resume.reconnect()  # cut before anything came
    resume.reconnect()

    assert resume.note(20 * SECOND, "stdout", "z")
    assert Hole(11 * SECOND, 20 * SECOND) == resume.take_hole()
    assert resume.take_hole() is None
    assert resume.note(21 * SECOND, "stdout", "zz")
    assert resume.take_hole() is None


def test_nothing_seen_asks_as_the_first_time() -> None:
    assert Resume().reconnect() is None


def test_a_clock_that_was_set_back_repeats_nothing_and_loses_nothing() -> None:
    before = [(1000 * SECOND + n, "stdout", f"before {n}") for n in range(50)]
    behind = [(400 * SECOND + n * SECOND // 10, "stdout", f"after {n}") for n in range(50)]
    later = [(405 * SECOND + n * SECOND // 10, "stdout", f"later {n}") for n in range(50)]
    resume = Resume(size=8)
    got, _ = read(resume, before + behind)
    new, holes = read(resume, Service(before + behind + later).since(resume.reconnect()))

    assert before + behind + later == got + new
    assert [] == holes


def test_memory_does_not_grow_with_the_rate_or_the_time() -> None:
    resume = Resume(size=64)
    for number in range(20_000):
        resume.note(number * SECOND // 50, "stdout", f"{number}")

    assert 64 == len(resume._hashes)
    assert len(resume._gone) <= 4


def test_units_of_time_are_dropped_together() -> None:
    dropped = 0

    class Counted(Resume):
        def _forget(self) -> None:
            nonlocal dropped
            dropped += 1
            super()._forget()

    resume = Counted(size=1, granularity_ns=1, margin_ns=1000)
    for ns in range(10_000):
        resume.note(ns, "stdout", "")

    assert len(resume._gone) <= 2002
    assert dropped <= 30  # each goes through all of them: doing so for each new one is quadratic
