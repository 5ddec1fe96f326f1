from __future__ import annotations

from asyncsched.specs import Stream


def test_values() -> None:
    assert ["stdout", "stderr", "combined"] == [f"{stream}" for stream in Stream]
    assert Stream("stderr") is Stream.STDERR
