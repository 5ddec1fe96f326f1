from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched.logs import StampReader

SECONDS = st.integers(0, 4_000_000_000)
FRACTIONS = st.text("0123456789", max_size=9)


@given(st.lists(st.tuples(SECONDS, FRACTIONS, st.integers(-14 * 60, 14 * 60)), min_size=1), st.booleans())
def test_any_stamp_gives_its_nanoseconds(times: list[tuple[int, str, int]], as_bytes: bool) -> None:
    reader = StampReader()
    for seconds, fraction, offset in times:
        zone = timezone(timedelta(minutes=offset))
        whole = datetime.fromtimestamp(seconds, zone).isoformat()
        stamp = f"{whole[:19]}.{fraction}{whole[19:]}" if fraction else whole
        stamp = stamp.removesuffix("+00:00") + ("Z" if stamp.endswith("+00:00") else "")

        assert seconds * 10**9 + int(fraction.ljust(9, "0")) == reader.ns(stamp.encode() if as_bytes else stamp)


def test_the_remembered_second_serves_text_and_bytes() -> None:
    reader = StampReader()
    expected = int(datetime(2026, 11, 21, 3, 15, 43, tzinfo=UTC).timestamp()) * 10**9

    for number in (0, 1, 999_999_999):
        stamp = f"2026-11-21T03:15:43.{number:09d}Z"

        assert expected + number == reader.ns(stamp)
        assert expected + number == reader.ns(stamp.encode())


def test_split_leaves_the_line_as_it_is() -> None:
    assert (1_000_000_001, "  two  blanks\n") == StampReader().split("1970-01-01T00:00:01.000000001Z   two  blanks\n")


@pytest.mark.parametrize(
    "stamp",
    ["", "x", "2026-11-21T03:15:43", "2026-11-21T03:15:43.1234567890Z", "2026-11-21T03:15:43.12x456789Z", "2026-11-21"],
)
def test_what_is_no_stamp_is_refused(stamp: str) -> None:
    with pytest.raises(ValueError):
        StampReader().ns(stamp)
