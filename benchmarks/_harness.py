"""What a benchmark claims, and how figures that are taken in turns become one ratio.

A benchmark is a module in this folder, found by its name, with a function `claims` that yields one `Claim` for each
thing it has measured. It may be an async generator, which is run on a loop of its own.

What is claimed is a `Ratio` or a `Count`, and nothing else: a rate or a time says more about the machine, and about
what else it does, than about us. A ratio stands on rounds. In each of them ours and its reference are measured one
after the other, so that a slow or a busy machine moves both, and the bound is held against the median of the rounds.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import pkgutil
import statistics
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import benchmarks

LEAST_ROUNDS = 5
ROUNDS = 7

T = TypeVar("T")

_itself = cast("Callable[[Any], float]", float)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Ours in relation to a reference of the same run.

    Args:
        rounds: What each round has given, in their order.
        reference: What ours is in relation to, in words.
    """

    rounds: tuple[float, ...]
    reference: str

    def __post_init__(self) -> None:
        if len(self.rounds) < LEAST_ROUNDS:
            raise ValueError(f"a ratio needs {LEAST_ROUNDS} rounds at least, not {len(self.rounds)}")
        if not self.reference:
            raise ValueError("a ratio names its reference, and this one has no name")

    @property
    def value(self) -> float:
        """The median, which a bound is held against."""
        return statistics.median(self.rounds)

    @property
    def unit(self) -> str:
        """What stands behind the bound."""
        return f"x {self.reference}"

    def __str__(self) -> str:
        least, most = min(self.rounds), max(self.rounds)
        return f"min {least:.3g}, median {self.value:.3g}, max {most:.3g} of {len(self.rounds)} rounds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How many there were of something that can be counted.

    Args:
        number: How many.
        of: Of what, in words: "requests".
    """

    number: int
    of: str

    def __post_init__(self) -> None:
        if not isinstance(self.number, int):
            raise TypeError(f"a count is a whole number, not {self.number!r}: what is measured is claimed as a ratio")

    @property
    def value(self) -> float:
        """The number, which a bound is held against."""
        return self.number

    @property
    def unit(self) -> str:
        """What stands behind the bound."""
        return self.of

    def __str__(self) -> str:
        return f"{self.number:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One claim and what was measured; made by `at_most` and `at_least`.

    Args:
        what: What the figure tells.
        figure: What was measured.
        bound: What the figure is held against.
        least: Whether the figure may not be below the bound; otherwise it may not be above.
        detail: What the figure was made from, for the reader.
    """

    what: str
    figure: Ratio | Count
    bound: float
    least: bool
    detail: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.figure, (Ratio, Count)):
            raise TypeError(f"what is claimed is a ratio or a count, not {self.figure!r}")

    @property
    def text(self) -> str:
        """The claim as a sentence, with its bound and its reference."""
        bound = f"{self.bound:,.0f}" if isinstance(self.figure, Count) else f"{self.bound:.3g}"
        return f"{self.what}: at {'least' if self.least else 'most'} {bound} {self.figure.unit}"

    @property
    def holds(self) -> bool:
        """Whether the figure keeps to the bound."""
        return self.figure.value >= self.bound if self.least else self.figure.value <= self.bound

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "DOES NOT HOLD"
        return f"{verdict}: {self.text}\n  {self.figure}{f'; {self.detail}' if self.detail else ''}"


def at_most(what: str, figure: Ratio | Count, bound: float, *, detail: str = "") -> Claim:
    """Claim that the figure is not above the bound."""
    return Claim(what=what, figure=figure, bound=bound, least=False, detail=detail)


def at_least(what: str, figure: Ratio | Count, bound: float, *, detail: str = "") -> Claim:
    """Claim that the figure is not below the bound."""
    return Claim(what=what, figure=figure, bound=bound, least=True, detail=detail)


class Rounds(Generic[T]):
    """What was measured in turns: by the name of each measure, one value of each round."""

    def __init__(self, names: Mapping[str, object]) -> None:
        self.of: dict[str, list[T]] = {name: [] for name in names}

    def ratio(self, ours: str, reference: str, by: Callable[[T], float] = _itself) -> Ratio:
        """Divide ours by the reference, round by round; `by` says what of a value is meant."""
        pairs = zip(self.of[ours], self.of[reference], strict=True)
        return Ratio(rounds=tuple(by(each) / by(other) for each, other in pairs), reference=reference)

    def ratio_to_highest(self, ours: str, reference: str, by: Callable[[T], float] = _itself) -> Ratio:
        """Divide each of ours by the highest of the reference, where luck decides which of its rounds is the median."""
        highest = max(map(by, self.of[reference]))
        return Ratio(
            rounds=tuple(by(each) / highest for each in self.of[ours]), reference=f"the best round of {reference}"
        )

    def median(self, name: str, by: Callable[[T], float] = _itself) -> float:
        """Return the median of one measure, to be told beside a ratio."""
        return statistics.median(map(by, self.of[name]))

    def told(self, scale: float, unit: str, by: Callable[[T], float] = _itself) -> str:
        """Name the median of each measure that has one, in a unit which is that many times theirs."""
        medians = {name: self.median(name, by) * scale for name in self.of}
        return ", ".join(f"{name} {median:.3g} {unit}" for name, median in medians.items() if median)


def in_turns(measures: Mapping[str, Callable[[], T]], rounds: int = ROUNDS) -> Rounds[T]:
    """Measure each in turn, and so for several rounds."""
    taken = Rounds[T](measures)
    for _ in range(rounds):
        for name, measure in measures.items():
            taken.of[name].append(measure())
    return taken


async def in_turns_on_loop(measures: Mapping[str, Callable[[], Awaitable[T]]], rounds: int = ROUNDS) -> Rounds[T]:
    """Do what `in_turns` does, where a measure is to be awaited."""
    taken = Rounds[T](measures)
    for _ in range(rounds):
        for name, measure in measures.items():
            taken.of[name].append(await measure())
    return taken


def on_loop(measure: Callable[[], T]) -> Callable[[], Awaitable[T]]:
    """Make a plain measure one that can be awaited."""

    async def awaited() -> T:
        return measure()

    return awaited


def check_possible(service: str, lacks: str) -> None:
    """End this benchmark with a sentence if the machine lacks something for a service of the benchmark's own."""
    if lacks:
        raise SystemExit(f"this benchmark starts {service} of its own, which is not possible here: {lacks}")


def names() -> list[str]:
    """Return the names of all benchmarks."""
    return sorted(m.name for m in pkgutil.iter_modules(benchmarks.__path__) if m.name != "run" and m.name[0] != "_")


def load(name: str) -> Callable[[], Iterator[Claim]]:
    """Return the benchmark of this name, as a function that yields its claims one by one."""
    found: object = importlib.import_module(f"benchmarks.{name}").claims

    def claims() -> Iterator[Claim]:
        result = cast("Callable[[], Iterator[Claim] | AsyncIterator[Claim]]", found)()
        return result if isinstance(result, Iterator) else _collected(result)

    return claims


def _collected(claims: AsyncIterator[Claim]) -> Iterator[Claim]:
    with asyncio.Runner() as runner:
        try:
            while (claim := runner.run(_next(claims))) is not None:
                yield claim
        finally:
            runner.run(_close(claims))


async def _next(claims: AsyncIterator[Claim]) -> Claim | None:
    return await anext(claims, None)


async def _close(claims: AsyncIterator[Claim]) -> None:
    if inspect.isasyncgen(claims):
        await claims.aclose()
