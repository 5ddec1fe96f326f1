"""From when on a log is asked for again, when its two streams were not stamped in the order of their lines."""

from __future__ import annotations

from asyncsched.logs.line import LogLine, LogOrigin, label
from asyncsched.schedulers.docker.logs import Place
from asyncsched.specs import Stream

SECOND = 1_000_000_000


def note(place: Place, *lines: tuple[Stream, float]) -> list[bool]:
    made: list[LogLine] = []
    for stream, seconds in lines:
        made += label([f"{stream} {seconds}\n"], LogOrigin(stream=stream), round(seconds * SECOND))
    place.reached(made)
    return [place.note(line.ns or 0, line.stream.value, line) for line in made]


def test_what_both_streams_are_past_is_not_sent_again() -> None:
    place = Place()
    note(place, (Stream.STDOUT, 100.0), (Stream.STDERR, 98.5), (Stream.STDOUT, 100.2))

    # A line of stderr that was held up between its stamp and the file is stamped after 98.5.
    assert 98_500_000_000 == place.reconnect()
    assert [False, False, True] == note(place, (Stream.STDERR, 98.5), (Stream.STDOUT, 100.2), (Stream.STDERR, 98.6))


def test_a_quiet_stream_is_waited_for_within_reason() -> None:
    place = Place()
    note(place, (Stream.STDERR, 10.0), (Stream.STDOUT, 100.0))

    assert 95 * SECOND == place.reconnect()


def test_one_stream_alone_is_in_order() -> None:
    place = Place()
    note(place, (Stream.STDOUT, 100.0))

    assert 99_500_000_000 == place.reconnect()


def test_less_is_asked_for_while_nothing_new_comes() -> None:
    place = Place()
    note(place, (Stream.STDERR, 10.0), (Stream.STDOUT, 100.0))

    assert [95.0, 97.5, 98.75, 99.375, 99.5, 99.5] == [(place.reconnect() or 0) / SECOND for _ in range(6)]
    note(place, (Stream.STDOUT, 101.0))
    assert 96 * SECOND == place.reconnect()
