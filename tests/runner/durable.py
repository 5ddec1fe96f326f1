"""Kills the script of a durable group, and starts it again: for the tests of each scheduler."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import random
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from tests.runner.durable_script import TOLD

__all__ = ["JOBS", "Plan", "is_gone_on_with", "moments", "second_is_told", "wrong"]

JOBS = 50


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a script does.

    Attributes:
        scheduler: Where its jobs run.
        out: A directory in which each job writes a line to a file of its own.
        inside: The same, as jobs see it.
        image: What they run in.
        cfg: Their run options.
        limit: How many run at a time.
        before: What each does first.
        jobs: How many there are.
        kill_at: Before which line of its journal the script dies; 0: before none.
        sent_only: Whether only those lines count that say that a submit has returned.
    """

    scheduler: str
    out: str
    inside: str
    image: str = ""
    cfg: Mapping[str, object] = field(default_factory=dict[str, object])
    limit: int = 10
    before: str = ""
    jobs: int = JOBS
    kill_at: int = 0
    sent_only: bool = False


def moments(count: int) -> list[ParameterSet]:
    """Return random moments to die at; one belongs to the whole run.

    Each is two: before the journal tells of a submit that has returned, and, started again, before any line.
    """
    chosen = random.Random(21)
    found: list[ParameterSet] = []
    for number in range(count):
        kills = chosen.randrange(1, JOBS // 2), chosen.randrange(1, JOBS)
        marks = [pytest.mark.heavy("groups"), pytest.mark.timeout(900)] if number else []
        found.append(pytest.param(kills, id=str(number), marks=marks))
    return found


def wrong(plan: Plan) -> dict[int, str]:
    """Return what those jobs have written that did not run once, by their numbers."""
    files = [Path(plan.out) / f"ran-{index}" for index in range(plan.jobs)]
    told = [file.read_text() if file.exists() else "" for file in files]
    return {index: text for index, text in enumerate(told) if text != "run\n"}


async def is_gone_on_with(plan: Plan, kills: tuple[int, int], home: Path) -> None:
    """Kill the script twice, let it run to its end, and check that every job ran once."""
    sent, line = kills
    assert -signal.SIGKILL == await _run(dataclasses.replace(plan, kill_at=sent, sent_only=True), home)
    assert -signal.SIGKILL == await _run(dataclasses.replace(plan, kill_at=line), home)
    assert 0 == await _run(plan, home)
    assert {} == wrong(plan), wrong(plan)


async def second_is_told(plan: Plan, home: Path) -> None:
    """Start the script a second time while the first one runs; its jobs wait for a file ``go``."""
    gate = f"touch {plan.inside}/there; until [ -e {plan.inside}/go ]; do sleep 0.05; done; "
    plan = dataclasses.replace(plan, before=gate, jobs=3)
    first = asyncio.create_task(_run(plan, home))
    there = Path(plan.out) / "there"
    while not there.exists():
        assert not first.done()
        await asyncio.sleep(0.02)
    assert TOLD == await _run(plan, home)
    (Path(plan.out) / "go").touch()
    assert 0 == await first
    assert {} == wrong(plan), wrong(plan)


async def _run(plan: Plan, home: Path) -> int:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.runner.durable_script",
        json.dumps(dataclasses.asdict(plan)),
        env=os.environ | {"ASYNCSCHED_HOME": str(home)},
    )
    try:
        return await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
