"""From when on a log is asked for again, when its two streams were not stamped in the order of their lines."""

from __future__ import annotations

from itertools import cycle, groupby

from hypothesis import given
from hypothesis import strategies as st

from asyncsched.logs.resume import Hole
from asyncsched.schedulers.docker.logs_resume import DockerResume
from asyncsched.specs import Stream

SECOND = 1_000_000_000


def note(place: DockerResume, *lines: tuple[Stream, float]) -> list[bool]:
    return [place.note(round(s * SECOND), stream.value, f"{stream} {s}") for stream, s in lines]


def test_what_both_streams_are_past_is_not_sent_again() -> None:
    place = DockerResume()
    note(place, (Stream.STDOUT, 100.0), (Stream.STDERR, 98.5), (Stream.STDOUT, 100.2))

    # A line of stderr that was held up between its stamp and the file is stamped after 98.5.
    assert 98_500_000_000 == place.reconnect()
    assert [False, False, True] == note(place, (Stream.STDERR, 98.5), (Stream.STDOUT, 100.2), (Stream.STDERR, 98.6))


def test_a_quiet_stream_is_waited_for_within_reason() -> None:
    place = DockerResume()
    note(place, (Stream.STDERR, 10.0), (Stream.STDOUT, 100.0))

    assert 95 * SECOND == place.reconnect()


def test_one_stream_alone_is_in_order() -> None:
    place = DockerResume()
    note(place, (Stream.STDOUT, 100.0))

    assert 99_500_000_000 == place.reconnect()


def test_a_terminal_has_one_stream_which_is_in_order() -> None:
    place = DockerResume(terminal=True)
    note(place, (Stream.COMBINED, 100.0))

    assert 100 * SECOND == place.reconnect()


def test_streams_are_asked_for_apart_where_more_comes_again_than_is_new() -> None:
    place = DockerResume()
    note(place, (Stream.STDERR, 99.0), (Stream.STDOUT, 100.0), (Stream.STDOUT, 100.1))
    asked = [(place.reconnect(), place.apart)]
    note(place, (Stream.STDERR, 99.0), (Stream.STDOUT, 100.0))
    asked.append((place.reconnect(), place.apart))
    assert [False, True] == note(place, (Stream.STDOUT, 100.1), (Stream.STDOUT, 100.2))
    asked.append((place.reconnect(), place.apart))
    assert [False] == note(place, (Stream.STDERR, 99.0))
    assert not place.caught_up()
    asked.append((place.reconnect(), place.apart))
    assert [False, True] == note(place, (Stream.STDOUT, 100.2), (Stream.STDOUT, 100.3))
    assert place.caught_up()
    asked.append((place.reconnect(), place.apart))

    assert [
        (99 * SECOND, None),
        (100_100_000_000, Stream.STDOUT),
        (99 * SECOND, Stream.STDERR),
        (100_200_000_000, Stream.STDOUT),
        (99 * SECOND, None),
    ] == asked
    assert [False, False, True] == note(place, (Stream.STDOUT, 100.3), (Stream.STDERR, 99.0), (Stream.STDERR, 99.1))
    assert place.take_hole() is None


def test_what_a_stream_wrote_while_the_other_was_caught_up_is_read() -> None:
    place = DockerResume()
    note(place, (Stream.STDERR, 100.0), (Stream.STDOUT, 100.1))
    place.reconnect()
    note(place, (Stream.STDERR, 100.0), (Stream.STDOUT, 100.1))
    place.reconnect()
    assert Stream.STDOUT is place.apart
    assert [False] == note(place, (Stream.STDOUT, 100.1))
    assert not place.caught_up()
    place.reconnect()
    assert [False, True, True] == note(place, (Stream.STDERR, 100.0), (Stream.STDERR, 103.0), (Stream.STDERR, 117.0))
    assert place.caught_up()

    # Stdout wrote at 101, 102 and 110, after it had been caught up.
    out, err = Stream.STDOUT, Stream.STDERR
    asked = [(place.reconnect(), place.apart)]
    assert [False, True, True, False] == note(place, (out, 100.1), (out, 101.0), (out, 102.0), (err, 103.0))
    asked.append((place.reconnect(), place.apart))
    assert [False, False, True] == note(place, (out, 102.0), (err, 103.0), (out, 110.0))

    assert [(100_100_000_000, None), (102 * SECOND, None)] == asked
    assert place.take_hole() is None


def test_what_is_gone_while_streams_are_asked_for_apart_is_a_hole() -> None:
    place = DockerResume()
    note(place, (Stream.STDOUT, 100.0))
    place.reconnect()
    note(place, (Stream.STDOUT, 100.0))
    place.reconnect()

    assert [True] == note(place, (Stream.STDOUT, 105.0))
    assert Hole(100 * SECOND, 105 * SECOND) == place.take_hole()


Line = tuple[int, Stream, int]


@st.composite
def logs(draw: st.DrawFn) -> list[Line]:
    """Lines in the order of the file: stamps in order within each stream, and out of order between the two."""
    lines: list[Line] = []
    now, newest = 10 * SECOND, {Stream.STDOUT: 0, Stream.STDERR: 0}
    steps = st.tuples(
        st.sampled_from([Stream.STDOUT, Stream.STDOUT, Stream.STDOUT, Stream.STDERR]),
        st.sampled_from([1, 1000, 1_000_000, 400_000_000, 2 * SECOND, 9 * SECOND]),
        st.sampled_from([0, 0, 1000, 450_000_000]),
    )
    for number, (stream, pause, lag) in enumerate(draw(st.lists(steps, max_size=100))):
        now += pause
        newest[stream] = max(newest[stream], now - lag)
        lines.append((newest[stream], stream, number))
    return lines


@given(
    logs(),
    st.lists(st.integers(1, 12), min_size=1, max_size=5),
    st.lists(st.integers(0, 20), min_size=1, max_size=5).filter(any),
    st.integers(1, 5),
    st.sampled_from([3, 16_384]),
)
def test_every_line_once_whatever_a_connection_lets_through(
    log: list[Line], room: list[int], growth: list[int], size: int, remembered: int
) -> None:
    place = DockerResume()
    place._size = remembered
    rooms, grows, told, holes = cycle(room), cycle(growth), list[Line](), list[Hole | None]()
    longest = max((sum(1 for _ in same) for _, same in groupby(sorted(ns for ns, _, _ in log))), default=0)
    done = last = False
    connections = written = 0  # the connections since all was written
    while not done:
        connections += written >= len(log)
        written += next(grows)
        since = place.reconnect()
        if place.apart is None or place.begins:
            last = written >= len(log)
        sent = [line for line in log[:written] if line[0] >= (since or 0) and place.apart in (None, line[1])]
        let_through = sent[: max(next(rooms), longest + 1)]
        for at in range(0, len(let_through), size):
            batch = [(ns, stream.value, str(number)) for ns, stream, number in let_through[at : at + size]]
            if place.replaying:
                fresh = [place.note(*line) for line in batch]
            else:
                place.note_new(*(list(column) for column in zip(*batch, strict=True)))
                fresh = [True] * len(batch)
            told += [line for line, new in zip(let_through[at:], fresh, strict=False) if new]
            holes.append(place.take_hole())
        whole = len(let_through) == len(sent) and (place.apart is None or place.caught_up())
        done = whole and last
        assert connections <= 8 * len(log) + 8, "it does not get on"
    place.end_replay()

    assert {None} >= {*holes, place.take_hole()}
    for stream in (Stream.STDOUT, Stream.STDERR):
        assert [line for line in log if line[1] is stream] == [line for line in told if line[1] is stream]
