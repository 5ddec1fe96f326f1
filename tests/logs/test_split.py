"""From bytes to lines: any chunks of any bytes give the same."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched.logs import LineSplitter

# Bytes that matter: newlines, what str.splitlines would cut at, characters of each width, and what is not UTF-8.
ATOMS = [b"\n", b"\n", b"\r", b"a", b"bc", b"\x0b", b"\x0c", b"\x1c", "\x85".encode(), "\u2028".encode()]
ATOMS += ["é".encode(), "€".encode(), "😀".encode(), b"\xff", b"\x80", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\x00"]

anything = st.lists(st.sampled_from(ATOMS), max_size=60).map(b"".join) | st.binary(max_size=200)
bounds = st.integers(4, 40) | st.just(1 << 20)


@st.composite
def chunked(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    data = draw(anything)
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=20)))
    return data, [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def oracle(data: bytes, bound: int) -> list[str]:
    """Say what comes out, slowly and one line at a time."""
    pieces: list[bytes] = []
    *whole, rest = data.split(b"\n")
    for line, end in [*((line, b"\n") for line in whole), (rest, b"")]:
        while len(line) > bound:
            cut = next((c for c in (bound, bound - 1, bound - 2, bound - 3) if not 0x80 <= line[c] <= 0xBF), bound)
            pieces.append(line[:cut])
            line = line[cut:]
        pieces.append(line + end)
    return [piece.decode(errors="replace") for piece in pieces if piece]


@given(chunked(), bounds)
def test_any_chunks_of_any_bytes(sample: tuple[bytes, list[bytes]], bound: int) -> None:
    data, chunks = sample
    splitter = LineSplitter(bound)
    got = [line for chunk in chunks for line in splitter.feed(chunk)]

    assert splitter.held <= bound
    assert oracle(data, bound) == got + splitter.flush()
    assert 0 == splitter.held


@given(st.text(max_size=100), bounds)
def test_text_comes_back_as_it_was(text: str, bound: int) -> None:
    splitter = LineSplitter(bound)
    got = splitter.feed(text.encode()) + splitter.flush()

    assert text == "".join(got)
    assert all(len(line.encode().removesuffix(b"\n")) <= bound for line in got)


def test_a_line_of_exactly_the_bound_comes_whole() -> None:
    splitter = LineSplitter(8)

    assert ["12345678\n", "x\n"] == splitter.feed(b"12345678\nx\n")
    assert ["12345678", "9\n"] == splitter.feed(b"123456789\n")


def test_progress_is_handed_on_up_to_a_whole_character() -> None:
    splitter = LineSplitter()
    splitter.feed(b"\r10 %\r20 \xe2\x82")

    assert ["\r10 %\r20 "] == splitter.progress()
    assert [] == splitter.progress()
    assert ["€ done\n"] == splitter.feed(b"\xac done\n")


def test_what_is_no_progress_is_not_handed_on() -> None:
    splitter = LineSplitter()
    splitter.feed(b"half a line")

    assert [] == splitter.progress()
    assert ["half a line"] == splitter.flush()


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_growing_a_long_line_is_not_quadratic(chunk: int) -> None:
    def seconds(size: int) -> float:
        splitter = LineSplitter(1 << 30)
        piece = b"x" * chunk
        began = time.thread_time()
        for _ in range(size // chunk):
            splitter.feed(piece)
        splitter.feed(b"\n")
        return time.thread_time() - began

    # Quadratic growth would take 1,000 times as long; memory that is touched for the first time costs some of it.
    once = min(seconds(500 * chunk) for _ in range(5))

    assert min(seconds(16_000 * chunk) for _ in range(3)) < 32 * 8 * max(once, 1e-4)


def test_a_bound_below_a_character_is_refused() -> None:
    with pytest.raises(ValueError, match="max_line"):
        LineSplitter(3)
