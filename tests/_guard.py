"""The guard: each async test is failed when what it ran was not a good guest in its loop.

It judges what testing.md calls the 20 ms rule, and what is left behind:

- a step (one callback of the loop) that uses more of the loop's thread than its budget: 20 ms of CPU time of a machine
  of reference speed;
- a call that can block (sleep, connect, open, read, fsync, wait) made by ours in a loop's thread;
- a task, a thread, a child process or a descriptor that is still there at the end.

Time on a shared machine is a rumour, so a step that is too long is confirmed: the test is run again, with fixtures set
up anew, at most twice. In these runs a step's time is told apart by whose code it went into (see `tests._steps`), and
only ours counts. The test fails if a step of the same name is over its budget in each of the three runs, or if a run
that was to confirm it is skipped.

A test that must break a rule says which one, and why::

    @pytest.mark.guard(loop_step=False, reason="the step under test compiles a regex of 10 MB")

The rules are ``loop_step``, ``blocking`` and ``left_over``. Calls are recorded instead of refused:
an exception could be swallowed by the code under test, and would change what it does.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from tests import _left_over, _timed
from tests._blocking import WATCH
from tests._steps import METER, LongStep

RULES = ("loop_step", "blocking", "left_over")
RUNS = 3
"""How many runs of a test in a row make a long step a fault."""


class Judge:
    """What the runs of one test have shown.

    Attributes:
        sampled: Whether the next run tells our time from the test's.
        runs: The steps that reached half of their budget, of each run.
    """

    def __init__(self, *, sampled: bool) -> None:
        self.sampled = sampled
        self.runs: list[list[LongStep]] = []

    @property
    def suspects(self) -> set[str]:
        """The names of steps that were over their budget in each run so far."""
        over = [{step.name for step in run if step.ratio > 1} for run in self.runs]
        return set.intersection(*over) if over else set()

    def confirmed(self) -> list[str]:
        """Return what is a fault by now."""
        if len(self.runs) < RUNS:
            return []
        return [f"{step}, in each of {RUNS} runs" for step in self.runs[-1] if step.name in self.suspects]


JUDGE = pytest.StashKey[Judge]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Run a test; if a step was too long, run it again, as if it had not run before."""
    repeat = item.config.getoption("repeat")
    for left in reversed(range(repeat)):
        # What is shared with other tests stays for the next repetition, as it does for another test beside it.
        _run(item, nextitem if left == 0 else item.parent)
    return True


def _run(item: pytest.Item, nextitem: Any) -> None:
    judge = item.stash[JUDGE] = Judge(sampled=item.config.getoption("timed"))
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    while judge.suspects and len(judge.runs) < RUNS and all(report.passed for report in reports):
        judge.sampled = True
        reports = _told(runtestprotocol(item, log=False, nextitem=nextitem), judge)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    _timed.note(item, judge.runs[-1] if judge.runs else None, sum(report.duration for report in reports))
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def _told(reports: list[pytest.TestReport], judge: Judge) -> list[pytest.TestReport]:
    """Make a run that was to confirm a long step, and was skipped, a failure: it has not said that all is well."""
    for report in reports:
        if report.skipped:
            long = [str(step) for step in judge.runs[0] if step.ratio > 1]
            why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
            report.outcome = "failed"
            report.longrepr = _message([*long, f"the run that was to confirm it was skipped: {why}"])
    return reports


def _measure_asyncio() -> None:
    handles: Any = asyncio.Handle
    run = handles._run

    def measured(handle: Any) -> None:
        METER.run(handle._callback, lambda: run(handle))

    handles._run = measured


def loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loops that async tests run on, by name."""
    factories: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.SelectorEventLoop}
    try:
        import uvloop
    except ImportError:
        return factories

    class MeasuredLoop(uvloop.Loop):
        """uvloop runs its handles in C: what is scheduled from Python (each step of a task) is judged."""

        def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
            return super().call_soon(_measured(callback), *args, context=context)

        def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
            return super().call_soon_threadsafe(_measured(callback), *args, context=context)

        def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
            return super().call_later(delay, _measured(callback), *args, context=context)

        def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
            return super().call_at(when, _measured(callback), *args, context=context)

    factories["uvloop"] = MeasuredLoop
    return factories


def _measured(callback: Callable[..., Any]) -> Callable[..., Any]:
    def step(*args: Any) -> Any:
        return METER.run(callback, lambda: callback(*args))

    return step if METER.on else callback


_measure_asyncio()
WATCH.install()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "guard(rule=False, reason=...): leave out loop_step, blocking or left_over for this test"
    )
    config.addinivalue_line(
        "markers",
        "one_loop: run on one loop only, for what no loop has a part in; one_loop(False): on all nevertheless",
    )


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--loops", default="asyncio,uvloop", help="the loops that async tests run on")


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    wanted = config.getoption("loops").split(",")
    marker = item.get_closest_marker("one_loop")
    if marker is not None and marker.args != (False,):
        wanted = wanted[:1]
    return {name: factory for name, factory in loop_factories().items() if name in wanted}


@pytest.fixture(autouse=True)
def guard(request: pytest.FixtureRequest) -> None:
    """Guard the test if it is a coroutine; a plain test is left alone."""
    if "_asyncio_loop_factory" in request.fixturenames:
        request.getfixturevalue("_guarded_loop")


@pytest.fixture
def leaves_nothing() -> Iterator[None]:
    """Fail a plain test, such as one of the blocking facade, that leaves something behind."""
    before = _left_over.snapshot()
    yield
    _fail_for(_left_over.since_blocking(before))


@pytest.fixture
async def _guarded_loop(request: pytest.FixtureRequest) -> AsyncIterator[None]:
    waived = _waived(request.node)
    judge = request.node.stash[JUDGE]
    before = _left_over.snapshot()
    with _judged(judge, waived) as faults:
        yield
    if "left_over" not in waived:
        faults["left_over"] += await _left_over.since(before)
    _fail_for([fault for rule, found in faults.items() if rule not in waived for fault in found])


def _fail_for(faults: list[str]) -> None:
    if faults:
        pytest.fail(_message(faults), pytrace=False)


def _message(faults: list[str]) -> str:
    return "the guard found:\n" + "\n".join(f"- {fault}" for fault in faults)


@contextmanager
def _judged(judge: Judge, waived: set[str]) -> Iterator[dict[str, list[str]]]:
    WATCH.calls = []
    faults: dict[str, list[str]] = {rule: [] for rule in RULES}
    METER.start(sampled=judge.sampled)
    WATCH.on = True
    try:
        yield faults
    finally:
        WATCH.on = False
        long = METER.stop()
        # A tracer (coverage, a debugger) slows our code down, and not the reference work.
        judge.runs.append([] if "loop_step" in waived or sys.gettrace() else long)
        faults["loop_step"] += judge.confirmed()
        faults["blocking"] += WATCH.calls


def _waived(node: pytest.Item) -> set[str]:
    waived: set[str] = set()
    for marker in node.iter_markers("guard"):
        rules = {rule for rule, on in marker.kwargs.items() if on is False}
        if not marker.kwargs.get("reason") or not rules <= {*RULES}:
            raise pytest.UsageError(f"{node.nodeid}: guard needs a reason, and rules out of {RULES}")
        waived |= rules
    return waived
