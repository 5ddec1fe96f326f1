"""The harness of the benchmarks; the figures themselves are no business of tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from benchmarks import run
from benchmarks._harness import Claim, at_least, at_most, in_turns, load, names


def test_bounds_belong_to_what_holds() -> None:
    assert [True, True, False] == [at_most("x", figure, 2.0).holds for figure in (1.0, 2.0, 2.1)]
    assert [False, True, True] == [at_least("x", figure, 2.0).holds for figure in (1.0, 2.0, 2.1)]


def test_measures_take_turns() -> None:
    order: list[str] = []
    figures = iter([1.0, 10.0, 3.0, 30.0, 2.0, 20.0])

    def measure(name: str) -> float:
        order.append(name)
        return next(figures)

    medians = in_turns({"a": lambda: measure("a"), "b": lambda: measure("b")}, rounds=3)

    assert ["a", "b"] * 3 == order
    assert {"a": 2.0, "b": 20.0} == medians


@pytest.mark.slow
def test_every_benchmark_makes_claims() -> None:
    assert "imports" in names()
    assert all(callable(load(name)) for name in names())


def test_a_broken_claim_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    claims = [at_most("a is short", 3.0, 2.0, unit=" ms", detail="of 9"), at_most("b is short", 1.0, 2.0)]

    assert 1 == run.show("things", claims)
    assert [
        "things",
        "  DOES NOT HOLD: a is short",
        "    3 ms (bound: 2 ms) of 9",
        "  holds: b is short",
        "    1 (bound: 2)",
    ] == capsys.readouterr().out.splitlines()


def test_claims_may_be_plain_or_on_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    def plain() -> Iterator[Claim]:
        yield at_most("x", 1, 2)

    async def on_a_loop() -> AsyncIterator[Claim]:
        yield at_most("x", 1, 2)

    from benchmarks import imports

    for claims in (plain, on_a_loop):
        monkeypatch.setattr(imports, "claims", claims)

        assert [at_most("x", 1, 2)] == list(load("imports")())
