"""BuildKit's records, as bytes: what is written is read, and nothing else is believed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched._dockerd.trace import Trace, read_trace


def varint(value: int) -> bytes:
    raw = bytearray()
    while value >= 0x80:
        raw.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*raw, value])


def field(number: int, value: bytes | str | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


@given(step=st.text(), name=st.text(), error=st.text(), output=st.binary(), sizes=st.integers(0, 2**63 - 1))
def test_what_is_written_is_read(step: str, name: str, error: str, output: bytes, sizes: int) -> None:
    time = field(1, 5)
    vertex = field(1, step) + field(2, "other") + field(2, "another") + field(3, name) + field(4, 1) + field(5, time)
    vertex += (
        field(7, error)
        + field(99, "of a later release")
        + varint(50 << 3 | 5)
        + b"four"
        + varint(51 << 3 | 1)
        + b"eight..."
    )
    status = field(2, step) + field(4, sizes) + field(5, sizes) + field(8, time)
    record = field(1, vertex) + field(2, status) + field(3, field(1, step) + field(4, output)) + field(4, "a warning")

    assert [
        Trace(step=step, name=name, cached=True, started=True, error=error),
        Trace(step=step, current=sizes, total=sizes, completed=True),
        Trace(step=step, output=output),
    ] == list(read_trace(record))


@given(st.binary(max_size=200))
def test_what_is_none_is_refused(record: bytes) -> None:
    try:
        found = list(read_trace(record))
    except ValueError:
        return
    assert len(found) <= len(record)


@pytest.mark.parametrize("record", [b"\x0a", b"\x0a\x05abc", b"\x0b", b"\x80" * 11, b"\x09abc"])
def test_what_is_cut_off_or_unknown_is_an_error(record: bytes) -> None:
    with pytest.raises(ValueError):
        list(read_trace(record))
