"""From a log's files to lines, without a loop: any chunks, any interleaving, anything that is missing."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched.errors import LogStreamError
from asyncsched.logs import LogLine
from asyncsched.logs.split import MAX_LINE
from asyncsched.schedulers.local.logs_files import LogFiles, OpenDirectory
from asyncsched.schedulers.local.supervisor.formats import RECORD, STDERR, STDOUT, index_name
from asyncsched.specs.stream import Stream
from tests.local._log import Log, Reader, opening, read_all

ATOMS = [b"\n", b"\n", b"a", b"bc\n", b"\r", "é".encode(), "😀".encode(), b"\xff", b"\xe2\x82", b"\x00", b"x" * 300]

chunks = st.lists(st.sampled_from(ATOMS), min_size=1, max_size=12).map(b"".join)
writes = st.lists(st.tuples(st.sampled_from([STDOUT, STDERR]), chunks), max_size=30)


def expected(written: list[tuple[int, bytes]], kind: int) -> list[str]:
    """Return a stream's lines, by a way of its own."""
    data = b"".join(chunk for stream, chunk in written if stream == kind)
    *whole, rest = data.split(b"\n")
    return [line.decode(errors="replace") + "\n" for line in whole] + ([rest.decode(errors="replace")] if rest else [])


@given(writes, st.sets(st.integers(0, 30)), st.booleans(), st.sampled_from([1, 8]))
def test_any_chunks_any_interleaving_any_moments_of_reading(
    written: list[tuple[int, bytes]], looks: set[int], ends: bool, most: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        log = Log(Path(name) / "0")
        reader = Reader(log.place, tail=True, most=most)
        for number, (kind, data) in enumerate(written):
            assert log.segments.add(kind, data)
            if number in looks:
                reader.read()
            if number % 7 == 6:
                log.rotate()
        if ends:
            log.end()
        else:
            reader.cursor.finish()
        reader.read()
        lines = reader.close()
        log.close()

    assert reader.reader.over
    assert expected(written, STDOUT) == [line for line in lines if line.stream is Stream.STDOUT]
    assert expected(written, STDERR) == [line for line in lines if line.stream is Stream.STDERR]


def test_the_index_is_read_once_for_a_notice_and_not_again_before_the_next(tmp_path: Path) -> None:
    reads: list[int] = []

    class Counted(LogFiles):
        def records(self, offset: int, count: int) -> bytes:
            reads.append(offset)
            return super().records(offset, count)

    log = Log(tmp_path / "0")
    assert log.segments.add(STDOUT, b"0\n")
    reader = Reader(log.place, tail=True, files=Counted)
    reader.read()
    reads.clear()
    for number in range(1, 4):
        assert log.segments.add(STDOUT, b"%d\n" % number)

        assert [] == reader.read_on()
        assert [f"{number}\n"] == reader.read()
        assert number == len(reads)

    reader.cursor.finish()
    reader.read_on()

    assert reader.reader.over
    reader.close()
    log.close()


def test_files_that_were_closed_meanwhile_are_opened_by_one_look_at_their_directory(tmp_path: Path) -> None:
    opened: list[Path] = []

    def counted(place: Path) -> OpenDirectory:
        def open_place() -> int:
            opened.append(place)
            return opening(place)()

        return open_place

    log = Log(tmp_path / "0")
    reader = Reader(log.place, tail=True, opens=counted)
    for kind, name in ((STDOUT, "out"), (STDERR, "err")):
        for _ in range(2):
            reader.files.release()
            opened.clear()
            assert log.segments.add(kind, f"{name}\n".encode())
            assert [f"{name}\n"] == reader.read()

        assert 1 == len(opened)
    reader.close()
    log.close()


@given(writes)
def test_lines_come_in_the_order_of_their_ends(written: list[tuple[int, bytes]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        log = Log(Path(name) / "0")
        for kind, data in written:
            assert log.segments.add(kind, data)
        got = read_all(log.place)
        log.close()

    ended = [kind for kind, data in written for _ in range(data.count(b"\n"))]
    assert ended == [STDOUT if line.stream is Stream.STDOUT else STDERR for line in got if line.endswith("\n")]


@given(st.integers(0, 24 * 3), st.integers(0, 30))
def test_an_index_cut_at_any_byte_is_read_to_its_last_whole_record(cut: int, output: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        log = Log(Path(name) / "0")
        for word in (b"first\n", b"second\n", b"third\n"):
            log.out(word)
        log.close()
        os.truncate(log.place / "index", cut)

        got = read_all(log.place)

    assert ["first\n", "second\n", "third\n"][: cut // RECORD.size] == got


def test_each_line_has_the_time_at_which_it_began(log: Log, place: Path) -> None:
    for data in (b"a\nb", b"b", b"b\nc\n", b"d\n"):
        log.out(data)
    log.restamp([10, 20, 30, 40])

    assert [("a\n", 10), ("bbb\n", 10), ("c\n", 30), ("d\n", 40)] == [(line, line.ns) for line in read_all(place)]


@given(st.lists(st.tuples(chunks, st.integers(0, 3)), max_size=12), st.integers(0, 30), st.integers(0, 30))
def test_since_and_until_are_what_the_times_of_lines_say(
    written: list[tuple[bytes, int]], since: int, until: int
) -> None:
    times = [sum(step for _, step in written[: number + 1]) for number in range(len(written))]
    with tempfile.TemporaryDirectory() as name:
        log = Log(Path(name) / "0")
        for data, _ in written:
            log.out(data)
        log.restamp(times)
        everything = read_all(log.place)
        got = read_all(log.place, since_ns=since, until_ns=until)
        log.close()

    # The reader may begin early or end late; the engine selects exactly. It must not begin late or end early.
    selected = [(line, line.ns) for line in everything if line.ns is not None and since <= line.ns < until]
    assert selected == [(line, line.ns) for line in got if line.ns is not None and since <= line.ns < until]


def test_since_reads_only_what_it_needs(log: Log, place: Path) -> None:
    log.out(*(b"%d\n" % number for number in range(1000)))
    log.restamp([number * 10 for number in range(1000)])

    assert ["997\n", "998\n", "999\n"] == read_all(place, since_ns=9961)


def test_since_looks_for_the_segment(log: Log, place: Path) -> None:
    for segment in range(4):
        log.out(*(b"%d.%d\n" % (segment, number) for number in range(10)))
        log.rotate()
    for segment in range(4):
        log.restamp([segment * 100 + number for number in range(11)], segment)

    assert ["2.9\n", *(f"3.{number}\n" for number in range(10))] == read_all(place, since_ns=209)
    assert ["3.0\n"] == read_all(place, since_ns=290)[:1]
    assert [] == read_all(place, since_ns=10_000)


def test_until_ends_behind_the_lines_that_began_in_time(log: Log, place: Path) -> None:
    log.out(b"in time\nbegun in ti")
    log.err(b"also beg")
    log.out(*[b"m" * 1000] * 200)
    log.out(b"e\nlate\n")
    log.err(b"un\n")
    log.out(b"late\n" * 1000)
    log.restamp([1, 2, *[10] * 203])
    reader = Reader(place, until_ns=10, tail=True)
    reader.read()

    assert reader.reader.over
    assert ["in time\n", "begun in ti" + "m" * 200_000 + "e\n", "also begun\n"] == reader.close()


@given(writes, writes, st.integers(0, 12), st.sampled_from([(STDOUT, STDERR), (STDOUT,), (STDERR,)]))
def test_the_last_lines_are_there_and_what_follows_is_whole(
    past: list[tuple[int, bytes]], future: list[tuple[int, bytes]], count: int, kinds: tuple[int, ...]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        log = Log(Path(name) / "0")
        for number, (kind, data) in enumerate(past):
            log.segments.add(kind, data)
            if number % 7 == 6:
                log.segments._rotate()
        everything = Reader(log.place, kinds=kinds, tail=True)
        few = Reader(log.place, kinds=kinds, tail=True, tail_lines=count)
        of_past = everything.read()
        of_few = few.read()
        assert not few.cursor.in_past
        assert of_past[max(len(of_past) - count, 0) :] == of_few[max(len(of_few) - count, 0) :]
        for kind, data in future:
            log.segments.add(kind, data)
        log.segments.finish()

        assert everything.read() == few.read()
        everything.close()
        few.close()
        log.close()


def test_the_last_lines_of_a_long_log_are_found_from_its_end(log: Log, place: Path) -> None:
    log.err(b"error\n")
    log.out(*(b"%d\n" % number for number in range(50_000)))
    log.rotate()

    assert 20 >= len(read_all(place, tail_lines=10))
    assert [f"{number}\n" for number in range(49_900, 50_000)] == read_all(place, tail_lines=100)[-100:]
    log.err(b"an error that is not ended")
    assert 20 >= len(read_all(place, tail_lines=10))
    log.out(*(b"%d\n" % number for number in range(50_000)))
    assert "error\n" == read_all(place, tail_lines=10)[0]  # too far from the end: it is looked for from the beginning


@given(st.lists(st.tuples(st.integers(-5, 3), chunks), max_size=20), st.integers(-60, 60), st.integers(-60, 60))
def test_a_clock_that_jumps_misleads_nobody(written: list[tuple[int, bytes]], since: int, until: int) -> None:
    now = begin = 1_700_000_000_000_000_000
    second = 1_000_000_000
    with tempfile.TemporaryDirectory() as name:
        log = Log(Path(name) / "0", time_ns=lambda: now)
        for jump, data in written:
            now += jump * second
            log.segments.add(STDOUT, data)
        everything = read_all(log.place)
        since_ns, until_ns = begin + since * second, begin + until * second
        got = read_all(log.place, since_ns=since_ns, until_ns=until_ns)
        log.close()

    assert b"".join(data for _, data in written).decode(errors="replace") == "".join(everything)
    selected = [(line, line.ns) for line in everything if line.ns is not None and since_ns <= line.ns < until_ns]
    assert selected == [(line, line.ns) for line in got if line.ns is not None and since_ns <= line.ns < until_ns]


def test_a_small_step_back_of_the_clock_is_not_seen(place: Path) -> None:
    clock = [1000]
    log = Log(place, time_ns=lambda: clock[-1])
    for now in (1000, 500, 2000):
        clock.append(now)
        log.segments.add(STDOUT, b"line\n")
    log.close()

    assert [1000, 1000, 2000] == [line.ns for line in read_all(place)]


def test_one_stream_alone(log: Log, place: Path) -> None:
    log.out(b"out 1\nout")
    log.err(b"err 1\n")
    log.out(b" 2\n")
    log.end()

    assert ["out 1\n", "out 2\n"] == read_all(place, kinds=[STDOUT])
    assert ["err 1\n"] == read_all(place, kinds=[STDERR])


def test_merged_streams_are_combined(place: Path) -> None:
    log = Log(place, merged=True)
    log.both(b"one\ntwo\n")
    log.close()

    assert [("one\n", Stream.COMBINED), ("two\n", Stream.COMBINED)] == [(line, line.stream) for line in read_all(place)]


def test_ten_megabytes_in_one_line(log: Log, place: Path) -> None:
    data = os.urandom(1000).replace(b"\n", b"").hex().encode() * 5500
    for start in range(0, len(data), 65536):
        log.out(data[start : start + 65536])
    log.out(b"\nnext\n")
    log.restamp(range(1, len(data) // 65536 + 3))
    *pieces, rest, last = read_all(place)

    assert data.decode() + "\n" == "".join([*pieces, rest])
    assert {MAX_LINE} == {len(piece) for piece in pieces}
    assert {1} == {piece.ns for piece in [*pieces, rest]}
    assert "next\n" == last


def test_what_has_been_dropped_is_told_at_the_beginning(log: Log, place: Path) -> None:
    for number in range(3):
        log.out(b"%d\nhalf " % number)
        log.rotate()
    log.drop_oldest()
    log.restamp([70, 71], 1)
    log.restamp([80, 81], 2)
    gap, *lines = read_all(place)

    assert gap.gap is not None
    assert "max_log_bytes" in gap.gap.reason
    assert gap.gap.after is None
    assert gap.gap.before is not None
    assert 0 == gap.gap.before.microsecond
    assert ["half 2\n", "half "] == lines  # the rest of a line whose beginning is gone is not told for a line
    assert [] == [line for line in read_all(place, since_ns=75) if line.gap is not None]


def test_what_is_dropped_while_it_is_read_is_told_there(log: Log, place: Path) -> None:
    log.out(b"kept\nbegun ")
    reader = Reader(place, tail=True)
    reader.read()
    for number in range(4):
        log.rotate()
        log.out(b"lost\nseen %d\n" % number)
    for _ in range(4):
        log.drop_oldest()
    kept, gap, *rest = [*reader.lines, *reader.read()]
    reader.close()

    assert "kept\n" == kept  # and what was begun belongs to the hole
    assert gap.gap is not None
    assert (kept.timestamp, True) == (gap.gap.after, gap.gap.before is not None)
    assert ["lost\n", "seen 3\n"] == rest


def test_a_segment_that_is_open_is_read_to_its_end_although_it_was_dropped(log: Log, place: Path) -> None:
    log.out(b"one\n")
    reader = Reader(place, tail=True)
    reader.read()
    log.out(b"two\n")
    log.rotate()
    log.drop_oldest()
    log.out(b"three\n")
    reader.read()

    assert ["one\n", "two\n", "three\n"] == reader.close()


def test_the_next_segment_is_waited_for(log: Log, place: Path) -> None:
    log.out(b"one\n")
    log.rotate()
    log.out(b"two\n")
    (place / index_name(1)).rename(place / "aside")
    reader = Reader(place, tail=True)

    assert ["one\n"] == reader.read()
    (place / "aside").rename(place / index_name(1))
    assert ["two\n"] == reader.read()
    reader.close()


def test_a_log_that_is_removed_ends_with_a_hole(log: Log, place: Path) -> None:
    log.out(b"one\n")
    reader = Reader(place, tail=True)
    reader.read()
    reader.files.release()  # as when others needed the descriptors
    for path in place.iterdir():
        path.unlink()
    place.rmdir()
    one, gap = [*reader.lines, *reader.read()]
    reader.close()

    assert "one\n" == one
    assert gap.gap is not None
    assert "removed" in gap.gap.reason
    assert reader.reader.over


def test_bytes_that_are_not_there_yet_are_waited_for(log: Log, place: Path) -> None:
    log.out(b"one\ntwo\n")
    os.truncate(log.output(STDOUT), 6)
    reader = Reader(place, tail=True)

    assert [] == reader.read()
    with log.output(STDOUT).open("ab") as file:
        file.write(b"o\n")
    assert ["one\n", "two\n"] == reader.read()
    reader.close()


def test_at_the_end_what_is_there_is_delivered_and_the_rest_is_a_hole(log: Log, place: Path) -> None:
    log.out(b"one\ntwo\n")
    os.truncate(log.output(STDOUT), 6)
    one, tw, gap = read_all(place)

    assert ("one\n", "tw") == (one, tw)
    assert gap.gap is not None


def test_output_that_was_emptied_is_one_hole(log: Log, place: Path) -> None:
    log.out(*(b"%d\n" % number for number in range(10)))
    log.err(b"error\n")
    os.truncate(log.output(STDOUT), 0)
    gap, error = read_all(place)

    assert gap.gap is not None
    assert "error\n" == error


def test_output_that_was_removed_is_one_hole(log: Log, place: Path) -> None:
    log.out(b"one\n")
    log.err(b"error\n")
    log.output(STDOUT).unlink()
    gap, error = read_all(place)

    assert gap.gap is not None
    assert "error\n" == error


def test_an_index_that_was_emptied_is_an_error(log: Log, place: Path) -> None:
    log.out(b"one\n")
    reader = Reader(place, tail=True)
    reader.read()
    os.truncate(place / "index", 0)

    with pytest.raises(LogStreamError, match="shorter"):
        reader.read()
    reader.close()


def test_the_present_end_is_that_of_the_first_look(log: Log, place: Path) -> None:
    for _ in range(3):
        log.out(b"before\n")
    reader = Reader(place)
    reader.reader.advance()
    log.out(b"after\n")
    log.rotate()
    log.out(b"after\n")
    reader.read()

    assert reader.reader.over
    assert ["before\n"] * 3 == reader.close()


def test_no_log_has_no_lines(tmp_path: Path) -> None:
    assert [] == read_all(tmp_path / "none")
    assert [] == read_all(tmp_path)


def test_links_and_pipes_are_refused(log: Log, place: Path, tmp_path: Path) -> None:
    log.out(b"one\n")
    (tmp_path / "secret").write_bytes(b"key\n")
    log.output(STDOUT).unlink()
    log.output(STDOUT).symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match="symbolic links"):
        read_all(place)
    log.output(STDOUT).unlink()
    os.mkfifo(log.output(STDOUT))
    with pytest.raises(OSError, match="not a regular file"):
        read_all(place)


def test_a_segment_that_is_dropped_in_the_middle_of_a_chunk_is_a_hole_there(log: Log, place: Path) -> None:
    log.out(b"x" * 79 + b"\n" + b"y" * 100_000 + b"\n")
    log.out(b"lost\n")
    log.rotate()
    log.out(b"next\n" * 2)
    reader = Reader(place, tail=True)
    while not reader.reader.ready:
        reader.reader.advance()
    reader.files.release()
    log.drop_oldest()
    first, gap, *rest = reader.read()
    reader.close()

    assert "x" * 79 + "\n" == first
    assert gap.gap is not None
    assert "max_log_bytes" in gap.gap.reason
    assert ["next\n"] * 2 == rest


@pytest.mark.parametrize("lines", [1, 3])
def test_the_last_lines_of_output_that_was_removed_are_a_hole(log: Log, place: Path, lines: int) -> None:
    log.out(b"one\n")
    log.err(b"error\n")
    log.output(STDOUT).unlink()
    *_, gap, error = ["", *read_all(place, tail_lines=lines)]

    assert isinstance(gap, LogLine)
    assert gap.gap is not None
    assert "error\n" == error


def test_a_supervisor_that_is_killed_before_it_writes_that_the_log_goes_on(log: Log, place: Path) -> None:
    log.out(b"one\n")
    (place / index_name(1)).touch()

    reader = Reader(place)
    reader.read()

    assert reader.reader.over
    assert ["one\n"] == reader.close()


def test_another_log_that_got_the_same_directory_is_not_gone_on_in(place: Path) -> None:
    log = Log(place)
    log.out(b"1\n", b"2\n")
    reader = Reader(place, tail=True)
    assert ["1\n", "2\n"] == reader.read()
    log.close()
    reader.files.release()
    shutil.rmtree(place)  # the next directory may well get its number
    other = Log(place)
    other.out(b"3\n", b"4\n", b"5\n")
    reader.read()
    reader.cursor.finish()
    reader.read()
    other.close()

    assert [True] == [line.gap is not None for line in reader.close()[2:]]


def test_a_file_that_is_named_almost_like_an_index_is_none(log: Log, place: Path) -> None:
    log.out(b"one\n")
    (place / "index").rename(place / "index.0")

    assert [] == read_all(place)
