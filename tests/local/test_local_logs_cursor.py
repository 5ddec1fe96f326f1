"""Slow readers of a log whose files go between any two of their steps: each step leads on, or the reader waits or ends.

Everything happens in one thread and in a drawn order: what is written, rotated, dropped, removed or put in its place
happens before a step, or within one, each time that the reader opens a directory. ``--hypothesis-profile thorough``
draws more.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from asyncsched.logs import LogLine, LogOrigin, LogQuery
from asyncsched.logs.open_files import OpenFiles, open_directory
from asyncsched.schedulers.local.logs import STREAMS
from asyncsched.schedulers.local.logs_cursor import LogCursor
from asyncsched.schedulers.local.logs_files import LogFiles
from asyncsched.schedulers.local.logs_lines import StreamText
from asyncsched.schedulers.local.logs_reader import LogReader
from asyncsched.schedulers.local.supervisor.formats import STDERR, STDOUT
from tests.local._local import ONE_LOOP
from tests.local._log import ORIGIN, Log

pytestmark = ONE_LOOP

LONG = b"x" * 100_000
"""So much is read in several steps."""

NOTICED = {"out", "err", "long", "rotate", "end"}
"""What changes the index that a reader watches; nobody tells it that files go."""

Event = tuple[int, str]
"""After how many more steps and openings something happens, and what."""


class World:
    """A log, and what happens to it.

    Attributes:
        written: How many lines each log that stood in this place has been given, the first one first.
        records: How many records all of them have at most.
        noticed: Whether something was written of which the reader has no notice yet.
    """

    def __init__(self, place: Path, events: Iterable[Event]) -> None:
        self.place = place
        self._events = deque(events)
        self._pause = self._events[0][0] if self._events else 0
        self._clock = itertools.count(1000, 10)
        self.written = [0]
        self.records = 0
        self.noticed = False
        self.removed = False
        self.log = self._begin()
        self.release: Callable[[], None] = lambda: None

    def _begin(self) -> Log:
        return Log(self.place, time_ns=partial(next, self._clock))

    @property
    def is_quiet(self) -> bool:
        """Whether nothing will happen any more."""
        return not self._events

    def step(self) -> bool:
        """Let the next event happen if its time has come; tell whether one has."""
        if not self._events:
            return False
        if self._pause:
            self._pause -= 1
            return False
        _, what = self._events.popleft()
        self._pause = self._events[0][0] if self._events else 0
        getattr(self, what)()
        self.noticed = self.noticed or what in NOTICED
        return True

    def open(self) -> int:
        """Open the log's directory for the reader."""
        self.step()
        return open_directory(str(self.place.parent), self.place.name)

    def out(self, kind: int = STDOUT, more: bytes = b"") -> None:
        if not self.removed:
            self.log.segments.add(kind, b"%d %d %s\n" % (len(self.written), self.written[-1], more))
            self.written[-1] += 1
            self.records += 1

    def err(self) -> None:
        self.out(STDERR)

    def long(self) -> None:
        self.out(more=LONG)

    def rotate(self) -> None:
        if not self.removed:
            self.log.segments._rotate()
            self.records += 1

    def drop(self) -> None:
        segments = self.log.segments
        if not self.removed and segments._oldest < segments._segment:
            segments.drop_oldest()

    def unlink(self) -> None:
        """Remove one file, as a removal of all of them does that is slow."""
        files = sorted(self.place.iterdir()) if self.place.exists() else []
        if files:
            files[self.written[-1] % len(files)].unlink()

    def delete(self) -> None:
        """Remove the log as a whole; but its directory's number, by which readers know it, is not given out again."""
        self.removed = True
        if self.place.exists():
            gone = self.place.rename(self.place.with_name(f"gone-{len(self.written)}"))
            for file in gone.iterdir():
                file.unlink()

    def replace(self) -> None:
        """Put another log in its place."""
        self.delete()
        self.log.close()
        self.log, self.removed = self._begin(), False
        self.written.append(0)
        self.out()

    def crowd(self) -> None:
        """Take the reader's descriptors, as when others need them."""
        self.release()

    def end(self) -> None:
        if not self.removed:
            self.log.segments.finish()
            self.records += 1
            self.removed = True  # nothing is written any more


class Watching:
    """Says whether the reader is told of anything."""

    def __init__(self, watches: set[Watching]) -> None:
        self._watches = watches
        watches.add(self)

    def close(self) -> None:
        self._watches.discard(self)


class SlowReader:
    """Reads a log of a world one step at a time; it may open the directory of the output by itself."""

    def __init__(self, world: World, *, apart: bool, **query: object) -> None:
        self._world = world
        self.watches: set[Watching] = set()
        self.got: list[LogLine] = []
        asked = LogQuery(app_id="app", **query)  # type: ignore[arg-type]  # what a test asks for
        texts = {kind: StreamText(LogOrigin(app_id="app", stream=STREAMS[kind])) for kind in (STDOUT, STDERR)}
        files = LogFiles(world.open, world.open if apart else None, OpenFiles(1))
        world.release = files.release
        self.cursor = LogCursor(files, texts, asked, watch=lambda _: Watching(self.watches))
        self.reader = LogReader(ORIGIN, self.cursor, texts, until_ns=asked.until_ns)

    def run(self) -> None:
        """Step until the reader rests and nothing happens any more; it must not take more steps than there is work."""
        steps = 0
        while True:
            happened = self._world.step()
            if self._world.noticed:
                self._world.noticed = False
                self.cursor.noticed()
            past = self.cursor.in_past
            cost = self.reader.advance()
            for ready in self.reader.ready:
                while not ready.empty:
                    self.got += ready.take(7)
            self.reader.ready.clear()
            leads_on = cost or (past and not self.cursor.in_past) or self._world.noticed
            if not leads_on and self._world.is_quiet:
                return
            steps = 0 if happened or not self._world.is_quiet else steps + 1
            work = self._world.records * (3 + len(LONG) // (16 * 1024)) + 30
            assert steps <= work, f"{steps} steps for {self._world.records} records, and no end"

    def numbers(self) -> list[tuple[int, int] | None]:
        """Return each line's log and number, and None for a hole."""
        return [None if line.gap is not None else _number(line) for line in self.got]


def _number(line: LogLine) -> tuple[int, int]:
    log, number, *_ = line.split()
    return int(log), int(number)


WRITES = ["out", "out", "err", "err", "long", "rotate", "rotate", "drop"]
HAPPENS = [*WRITES, "crowd", "unlink", "delete", "replace", "end"]

events = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(HAPPENS)), max_size=30)
queries = st.fixed_dictionaries(
    {"tail": st.booleans()},
    optional={
        "since_ns": st.integers(990, 1200),
        "until_ns": st.integers(990, 1200),
        "tail_lines": st.integers(0, 12),
    },
)


def _read(
    past: Iterable[str], happening: Iterable[Event], query: dict[str, object], *, apart: bool
) -> tuple[World, SlowReader]:
    """Read a log with that past, while something happens to it."""
    with tempfile.TemporaryDirectory() as name:
        world = World(Path(name) / "0", happening)
        for what in past:
            getattr(world, what)()
        reader = SlowReader(world, apart=apart, **query)
        reader.run()
        if not reader.reader.over:
            assert query["tail"], "a reader that does not follow waits for something"
            assert reader.watches or not reader.cursor.begun
            reader.cursor.finish()  # as when the app has ended
            reader.run()
        assert reader.reader.over
        reader.reader.close()
        assert not reader.watches
        world.log.close()
    return world, reader


@given(st.lists(st.sampled_from(WRITES), max_size=20), events, queries, st.booleans())
@example(["out", "err", "out"], [(3, "delete")], {"tail": True}, True)
@example(["out", "err", "rotate", "out"], [(3, "drop")], {"tail": True}, True)
@example(["out", "out", "rotate", "out"], [(0, "unlink")], {"tail": False, "tail_lines": 2}, True)
def test_each_step_leads_on_or_waits_or_ends(
    past: list[str], happening: list[Event], query: dict[str, object], apart: bool
) -> None:
    world, reader = _read(past, happening, query, apart=apart)

    lines = [number for number in reader.numbers() if number is not None]
    assert sorted(set(lines)) == lines  # in order, each once
    assert len({log for log, _ in lines}) <= 1, "lines of two logs"
    if not {"since_ns", "until_ns", "tail_lines"} & {*query}:
        _check_holes(world, reader, follows=bool(query["tail"]))


def _check_holes(world: World, reader: SlowReader, *, follows: bool) -> None:
    """Check that lines are missing only where a hole is told."""
    numbers = reader.numbers()
    expected = 0
    told = False
    for each in numbers:
        if each is None:
            told = True
            continue
        assert told or each[1] == expected, f"lines from {expected} on are missing, and nothing tells so: {numbers}"
        expected, told = each[1] + 1, False
    log = next((each[0] for each in numbers if each is not None), 0)
    if follows and log:
        assert told or world.written[log - 1] == expected, f"the end is missing, and nothing tells so: {numbers}"


@pytest.mark.parametrize("tail", [True, False])
@pytest.mark.parametrize("apart", [True, False])
def test_a_segment_that_goes_before_its_second_stream_is_opened_is_a_hole(tail: bool, apart: bool) -> None:
    past = [*["out"] * 3, "err", "out", "rotate", "out"]
    for steps in range(12):
        _, reader = _read(past, [(steps, "drop")], {"tail": tail}, apart=apart)
        numbers = reader.numbers()

        assert (1, 4 + 1) == numbers[-1]
        assert [(1, number) for number in range(6)] == numbers or None in numbers


@pytest.mark.parametrize("crowded", [True, False])
@pytest.mark.parametrize("apart", [True, False])
def test_a_log_in_the_same_place_is_not_gone_on_in(tmp_path: Path, apart: bool, crowded: bool) -> None:
    past = ["out", "rotate", "out"]
    for steps in range(12):
        world = World(tmp_path / str(steps) / "0", [(steps, "again")])
        for what in past:
            getattr(world, what)()

        def again(world: World = world) -> None:
            shutil.rmtree(world.place)  # the next directory may well get its number
            world.replace()
            world.rotate()
            world.out()
            if crowded:
                world.crowd()

        world.again = again  # type: ignore[attr-defined]  # one more event
        reader = SlowReader(world, apart=apart, tail=False)
        reader.run()
        reader.reader.close()
        world.log.close()

        assert len({each[0] for each in reader.numbers() if each is not None}) <= 1
        _check_holes(world, reader, follows=False)
