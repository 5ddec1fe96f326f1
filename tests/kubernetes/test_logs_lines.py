"""From bytes with timestamps to lines, in whatever chunks they come; kubelet's own texts are none of them."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched.logs.line import LogLine, LogOrigin
from asyncsched.schedulers.kubernetes.logs_lines import LineReader

ORIGIN = LogOrigin("default:a", "main", 0)
SECOND = 1_000_000_000
T0 = 1_795_000_000 * SECOND
STAMP = b"2026-11-18T11:06:40"


def stamped(number: int, text: bytes) -> bytes:
    return STAMP + b".%09dZ " % number + text


def read(*chunks: bytes, max_line: int = 1 << 20) -> tuple[list[LogLine], str]:
    reader = LineReader(ORIGIN, max_line=max_line)
    lines = [line for chunk in chunks for line in reader.feed(chunk)]
    notice = reader.take_notice()
    return [*lines, *reader.flush()], notice


TEXT = st.binary(max_size=40).map(lambda data: data.replace(b"\n", b""))


@given(st.lists(TEXT, max_size=8), st.lists(st.integers(0, 400), max_size=8), st.booleans())
def test_any_chunks_give_the_same_lines(texts: list[bytes], cuts: list[int], whole: bool) -> None:
    data = b"".join(stamped(number, text + b"\n") for number, text in enumerate(texts))
    if not whole and texts:
        data = data[:-1]
    at = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    lines, notice = read(*(data[a:b] for a, b in itertools.pairwise(at)))
    expected = [text.decode(errors="replace") for text in texts]
    if not whole and texts and not texts[-1]:
        expected.pop()  # a line of which there is not even a letter

    assert "" == notice
    assert expected == [line.text for line in lines]
    assert [T0 + number for number in range(len(expected))] == [line.ns for line in lines]


@given(st.integers(4, 40), st.integers(0, 200), st.lists(st.integers(1, 300), max_size=6))
def test_overlong_lines_are_cut_at_the_same_places_in_any_chunks(limit: int, size: int, cuts: list[int]) -> None:
    data = stamped(1, b"x" * size + b"\n") + stamped(2, b"next\n")
    at = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    lines, _ = read(*(data[a:b] for a, b in itertools.pairwise(at)), max_line=limit)
    pieces = [line for line in lines if line.ns == T0 + 1]

    assert "x" * size == "".join(line.text for line in pieces)
    assert all(len(line.text) <= limit for line in pieces)
    assert not pieces[-1].partial
    assert "next" == lines[-1].text


@pytest.mark.parametrize(
    "notice",
    [
        "failed to create fsnotify watcher: too many open files",
        "unable to retrieve container logs for containerd://3f6a",
        "rpc error: code = Unavailable desc = connection error",
    ],
)
def test_what_has_no_time_is_no_line(notice: str) -> None:
    lines, said = read(stamped(1, b"a\n") + notice.encode())
    assert (["a"], notice) == ([line.text for line in lines], said)

    lines, said = read(notice.encode() + b"\n" + stamped(1, b"a\n"))
    assert (["a"], notice) == ([line.text for line in lines], said)


def test_kubelets_text_behind_an_unfinished_line_is_cut_off() -> None:
    lines, said = read(stamped(1, b"unfinished") + b"failed to create fsnotify watcher: too many open files")

    assert ["unfinished"] == lines
    assert "failed to create fsnotify watcher: too many open files" == said


@pytest.mark.parametrize(
    ("stamp", "ns"),
    [
        (b"2026-11-18T13:06:40.000000005+02:00", T0 + 5),
        (b"2026-11-18T11:06:40.5Z", T0 + SECOND // 2),
        (b"2026-11-18T11:06:40Z", T0),
    ],
)
def test_times_of_any_zone_and_length_are_read(stamp: bytes, ns: int) -> None:
    lines, said = read(stamp + b" text\n")

    assert ("", [("text", ns)]) == (said, [(line.text, line.ns) for line in lines])


def test_a_line_that_looks_like_a_time_is_a_line() -> None:
    lines, _ = read(stamped(1, stamped(2, b"inner\n")))

    assert [stamped(2, b"inner").decode()] == [line.text for line in lines]
