"""What a benchmark says, and how repeated measurements become one figure.

A benchmark is a module in this folder, found by its name, with a function `claims` that yields one
`Claim` for each thing it has measured. It may be an async generator, which is run on a loop of its
own. A figure is a ratio of two things measured in turns in the same run, so that a slow or a busy
machine moves both.
"""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
import statistics
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import cast

import benchmarks


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One claim and what was measured.

    Args:
        text: What is claimed, as a sentence with the bound in it.
        figure: What was measured.
        bound: What the figure is held against.
        holds: Whether the claim holds.
        unit: The figure's unit; a ratio has none.
        detail: What the figure was made from, for the reader.
    """

    text: str
    figure: float
    bound: float
    holds: bool
    unit: str = ""
    detail: str = ""


def at_most(text: str, figure: float, bound: float, *, unit: str = "", detail: str = "") -> Claim:
    """Claim that the figure is not above the bound."""
    return Claim(text=text, figure=figure, bound=bound, holds=figure <= bound, unit=unit, detail=detail)


def at_least(text: str, figure: float, bound: float, *, unit: str = "", detail: str = "") -> Claim:
    """Claim that the figure is not below the bound."""
    return Claim(text=text, figure=figure, bound=bound, holds=figure >= bound, unit=unit, detail=detail)


def in_turns(
    measures: dict[str, Callable[[], float]],
    rounds: int,
    *,
    figure: Callable[[list[float]], float] = statistics.median,
) -> dict[str, float]:
    """Measure each in turn, several rounds, and return one figure of each, the median by default."""
    taken: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(rounds):
        for name, measure in measures.items():
            taken[name].append(measure())
    return {name: figure(values) for name, values in taken.items()}


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
        while (claim := runner.run(_next(claims))) is not None:
            yield claim


async def _next(claims: AsyncIterator[Claim]) -> Claim | None:
    return await anext(claims, None)
