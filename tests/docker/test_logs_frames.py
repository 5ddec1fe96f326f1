"""The multiplexed stream, cut anywhere."""

from __future__ import annotations

import struct
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from asyncsched.logs.line import LogOrigin
from asyncsched.logs.rfc3339 import StampReader
from asyncsched.schedulers.docker.logs_frames import FrameReader
from asyncsched.specs import Stream

STAMP = "2026-11-21T02:49:43.084925868Z"
NS = 1_795_229_383_084_925_868


def origin(stream: Stream, ns: int) -> LogOrigin:
    return LogOrigin(role="worker", stream=stream)


def frame(stream: int, text: bytes, stamp: str = STAMP) -> bytes:
    payload = stamp.encode() + b" " + text
    return struct.pack(">BxxxI", stream, len(payload)) + payload


def read(data: bytes, cuts: list[int], *, terminal: bool = False) -> list[tuple[str, Stream, int | None]]:
    told, asked = [
        _read(FrameReader(origin, terminal=terminal, one_origin=one), data, cuts)
        for one in (lambda stream: None, lambda stream: origin(stream, 0))
    ]

    assert told == asked
    return told


def _read(reader: FrameReader, data: bytes, cuts: list[int]) -> list[tuple[str, Stream, int | None]]:
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    lines = [line for a, b in pairwise(places) for line in reader.feed(data[a:b])]
    return [(str(line), line.stream, line.ns) for line in [*lines, *reader.flush()]]


TEXTS = st.binary(max_size=40).map(lambda text: text.replace(b"\n", b" ") + b"\n")


@given(st.lists(st.tuples(st.sampled_from([1, 2]), TEXTS)), st.lists(st.integers(0, 5000)))
def test_any_chunking_gives_the_same_lines(entries: list[tuple[int, bytes]], cuts: list[int]) -> None:
    data = b"".join(frame(stream, text) for stream, text in entries)

    expected = [
        (text.decode(errors="replace"), Stream.STDOUT if stream == 1 else Stream.STDERR, NS) for stream, text in entries
    ]
    assert expected == read(data, cuts)


KINDS = st.sampled_from([1, 1, 1, 2])


@given(st.lists(st.tuples(KINDS, TEXTS | st.binary(max_size=9)), max_size=12), st.lists(st.integers(0, 600)))
def test_lines_without_a_newline_stand_between_others(entries: list[tuple[int, bytes]], cuts: list[int]) -> None:
    data = b"".join(frame(stream, text) for stream, text in entries)

    expected = [(text.decode(errors="replace"), [Stream.STDOUT, Stream.STDERR][stream - 1]) for stream, text in entries]
    assert expected == [(text, stream) for text, stream, _ in read(data, cuts)]


STAMPS = [
    STAMP,
    "2026-11-21T02:49:43.000000001Z",
    "2026-11-21T02:49:44.999999999Z",
    "2026-11-21T02:49:44.9999+00:00",  # as long as the others
    "2026-11-21T03:49:43.0849+01:00",
]


@given(st.lists(st.tuples(st.sampled_from([1, 2]), st.sampled_from(STAMPS), TEXTS)), st.lists(st.integers(0, 5000)))
def test_each_line_has_its_own_time(entries: list[tuple[int, str, bytes]], cuts: list[int]) -> None:
    data = b"".join(frame(stream, text, stamp) for stream, stamp, text in entries)

    assert [StampReader().ns(stamp) for _, stamp, _ in entries] == [ns for _, _, ns in read(data, cuts)]


def test_every_single_cut() -> None:
    data = frame(1, b"one\n") + frame(2, b"two\n") + frame(1, b"unfinished")

    expected = [("one\n", Stream.STDOUT, NS), ("two\n", Stream.STDERR, NS), ("unfinished", Stream.STDOUT, NS)]
    for cut in range(len(data) + 1):
        assert expected == read(data, [cut])


def test_what_the_daemon_says_itself_is_no_line() -> None:
    words = b"Error grabbing logs: invalid character '\\x00' looking for beginning of value\n"
    data = frame(1, b"one\n") + struct.pack(">BxxxI", 3, len(words)) + words
    for cut in range(len(data)):
        reader = FrameReader(origin)

        assert ["one\n"] == [*reader.feed(data[:cut]), *reader.feed(data[cut:])]
        assert words.decode().strip() == reader.trouble


def test_pieces_of_a_long_line_are_joined_for_each_stream() -> None:
    piece = b"x" * 16384
    data = frame(1, piece) + frame(2, b"between\n") + frame(1, piece) + frame(1, b"end\n")

    assert [("between\n", Stream.STDERR, NS), ("x" * 32768 + "end\n", Stream.STDOUT, NS)] == read(data, [])


def test_a_short_piece_is_all_there_was() -> None:
    # The first run of a container ended without a newline; then it was started again.
    assert ["bye", "hello\n"] == [text for text, _, _ in read(frame(1, b"bye") + frame(1, b"hello\n"), [])]


def test_an_overlong_line_comes_in_pieces() -> None:
    reader = FrameReader(origin, max_line=40_000)
    data = b"".join(frame(1, b"x" * 16384) for _ in range(4)) + frame(1, b"end\n")

    assert [49152, 16384 + 4] == [len(line) for line in reader.feed(data)]


@given(st.lists(TEXTS.map(lambda text: text.replace(b"\r", b" "))), st.lists(st.integers(0, 3000)))
def test_a_terminal_has_no_frames(texts: list[bytes], cuts: list[int]) -> None:
    data = b"".join(STAMP.encode() + b" " + text.replace(b"\n", b"\r\n") for text in texts)

    assert [(text.decode(errors="replace"), Stream.COMBINED, NS) for text in texts] == read(data, cuts, terminal=True)
