"""The guard: each async test is failed when what it ran was not a good guest in its loop.

It judges what testing.md calls the 20 ms rule, and what is left behind:

- a step (one callback of the loop) that uses more than 20 ms of CPU time of the loop's thread;
- a call that can block (sleep, connect, open, read, fsync, wait) made by ours in a loop's thread;
- a task, a thread, a child process or a descriptor that is still there at the end.

A test that must break a rule says which one, and why::

    @pytest.mark.guard(loop_step=False, reason="the step under test compiles a regex of 10 MB")

The rules are ``loop_step``, ``blocking`` and ``left_over``. Calls are recorded instead of refused:
an exception could be swallowed by the code under test, and would change what it does.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from tests import _left_over
from tests._blocking import WATCH

STEP_LIMIT = 0.020
"""The longest that one step may use the loop's thread, in seconds of CPU time."""

RULES = ("loop_step", "blocking", "left_over")


class _PerThread(threading.local):
    seconds = 0.0


class StepMeter:
    """Measures the CPU time of each step of a loop's thread while it is switched on."""

    def __init__(self) -> None:
        self.on = False
        self.long_steps: list[str] = []
        self._collecting = _PerThread()

    def run(self, step: Callable[[], Any], describe: Callable[[], str]) -> Any:
        """Run one step, and note it if it took too long."""
        if not self.on:
            return step()
        self._collecting.seconds = 0.0
        started = time.thread_time()
        try:
            return step()
        finally:
            # A collection of pytest's whole heap may fall into any step: it is nobody's fault.
            used = time.thread_time() - started - self._collecting.seconds
            if used > STEP_LIMIT and self.on:
                self.long_steps.append(f"{used * 1000:.1f} ms of CPU time in one step: {describe()}")

    def on_collection(self, phase: str, info: Mapping[str, Any]) -> None:
        """Keep the collector's own time apart (an entry of `gc.callbacks`)."""
        now = time.thread_time()
        self._collecting.seconds += -now if phase == "start" else now


METER = StepMeter()


def _measure_asyncio() -> None:
    run = asyncio.Handle._run

    def measured(handle: asyncio.Handle) -> None:
        METER.run(lambda: run(handle), lambda: _describe(handle._callback))

    asyncio.Handle._run = measured  # type: ignore[method-assign]


def _describe(callback: Any) -> str:
    owner = getattr(callback, "__self__", None)
    return repr(owner if isinstance(owner, asyncio.Task) else callback)


def loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loops that async tests run on, by name."""
    factories: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.SelectorEventLoop}
    try:
        import uvloop
    except ImportError:
        return factories

    class MeasuredLoop(uvloop.Loop):
        """uvloop runs its handles in C: what is scheduled from Python (each step of a task) is judged."""

        def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:
            return super().call_soon(_measured(callback), *args, context=context)

        def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> Any:
            return super().call_soon_threadsafe(_measured(callback), *args, context=context)

        def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:
            return super().call_later(delay, _measured(callback), *args, context=context)

        def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
            return super().call_at(when, _measured(callback), *args, context=context)

    factories["uvloop"] = MeasuredLoop
    return factories


def _measured(callback: Callable[..., Any]) -> Callable[..., Any]:
    def step(*args: Any) -> Any:
        return METER.run(lambda: callback(*args), lambda: _describe(callback))

    return step if METER.on else callback


_measure_asyncio()
WATCH.install()
gc.callbacks.append(METER.on_collection)


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
    before = _left_over.snapshot()
    with _judged() as faults:
        yield
    if "left_over" not in waived:
        faults["left_over"] += await _left_over.since(before)
    _fail_for([fault for rule, found in faults.items() if rule not in waived for fault in found])


def _fail_for(faults: list[str]) -> None:
    if faults:
        pytest.fail("the guard found:\n" + "\n".join(f"- {fault}" for fault in faults), pytrace=False)


@contextmanager
def _judged() -> Iterator[dict[str, list[str]]]:
    METER.long_steps, WATCH.calls = [], []
    faults: dict[str, list[str]] = {rule: [] for rule in RULES}
    METER.on = WATCH.on = True
    try:
        yield faults
    finally:
        METER.on = WATCH.on = False
        faults["loop_step"] += METER.long_steps
        faults["blocking"] += WATCH.calls


def _waived(node: pytest.Item) -> set[str]:
    waived: set[str] = set()
    for marker in node.iter_markers("guard"):
        rules = {rule for rule, on in marker.kwargs.items() if on is False}
        if not marker.kwargs.get("reason") or not rules <= {*RULES}:
            raise pytest.UsageError(f"{node.nodeid}: guard needs a reason, and rules out of {RULES}")
        waived |= rules
    return waived
