"""How long a step of a loop is, whose it is, and what it may last on this machine at this moment.

The budget of one step is 20 ms of CPU time **of a machine of reference speed**. CPU time is no constant: another
program on the same core, a neighbour on the same host or a slower processor make the same work take two to four times
as long. So a fixed piece of work is timed with the same clock in the same thread, before the test, after it, and right
after each step that seems too long; the budget is scaled by the slowest of these. It is scaled in both directions: a
machine that is twice as fast has 10 ms, so that the verdict is about the code, wherever it is given.

A step is ours if the time goes into our code. The body of a test awaits our coroutines in its own task, and a task of
ours calls the test's callbacks, so the owner of a task says little. A sample of the `Sampler` is a look at the stack of
a thread that is in a step: the innermost frame which belongs to the package or to the tests decides for the CPU time
that has passed since the look before. Frames of Python's library and of other packages are neutral, and where there is
nothing else, the step belongs to whom its coroutine or callback belongs to; a callback of a library that we have chosen
is ours. Looking costs a thread that wakes every millisecond, so it is switched on only where a verdict needs it.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import statistics
import sys
import sysconfig
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from tests._blocking import OURS

STEP_LIMIT = 0.020
"""The longest that one step may use the loop's thread, in seconds of CPU time of a machine of reference speed."""

PIECE = 100e-6
"""What `_piece` takes on a machine of reference speed, in seconds of CPU time."""

_PIECES = 5
_LOOKS = 0.001  # seconds between two samples
_TIMED_AGAIN = 20  # how often in a test the reference work is done after a long step


def _piece() -> list[bytes]:
    # What our steps do, too: bytes to lines, lines to words, words into tables, a sort.
    data = b"".join([b"%d line of a log\n" % number for number in range(300)])
    found: dict[bytes, int] = {}
    for number, line in enumerate(data.splitlines()):
        words = line.decode().split(" ")
        found[line] = number + len(words)
    return sorted(found, key=found.__getitem__, reverse=True)


@dataclass(eq=False, slots=True)
class _Thread:
    """What is known of a thread that has run steps."""

    ident: int
    clock: int
    collected: float = 0.0  # seconds of CPU time that the garbage collector used in it
    collecting: float | None = None
    steps: list[_Step] = field(default_factory=list)

    def now(self) -> float:
        """Return the CPU time of the thread without the collector's, from any thread."""
        # A collection of pytest's whole heap may fall into any step: it is nobody's fault.
        return time.clock_gettime(self.clock) - self.collected


@dataclass(eq=False, slots=True)
class _Step:
    callback: Any
    began: float
    looked: float
    places: dict[tuple[bool, str], float] = field(default_factory=lambda: defaultdict(float))  # (ours, where): seconds


@dataclass(frozen=True, slots=True)
class LongStep:
    """A step that reached half of its budget.

    Attributes:
        name: What tells it from other steps of the test, the same in each run: a coroutine or callback.
        seconds: The CPU time that it used; in our code alone if it was sampled.
        slowness: How many times slower than reference the machine was, as far as was known when it ended.
        place: Where most of our time was spent, if it was sampled.
    """

    name: str
    seconds: float
    slowness: float
    place: str = ""

    @property
    def ratio(self) -> float:
        """The part of its scaled budget that it used."""
        return self.seconds / (STEP_LIMIT * self.slowness)

    def __str__(self) -> str:
        budget = f"of {STEP_LIMIT * self.slowness * 1000:.1f} ms"
        inside = f", mostly in {self.place}" if self.place else ""
        return f"{self.seconds * 1000:.1f} ms {budget} of CPU time in one step: {self.name}{inside}"


class StepMeter:
    """Measures the CPU time of each step of a loop's thread while it is switched on."""

    def __init__(self) -> None:
        self.on = False
        self.sampled = False
        self._threads: dict[int, _Thread] = {}
        self._long: list[LongStep] = []
        self._before = 1.0
        self._timed_again = 0

    def start(self, *, sampled: bool) -> None:
        """Begin with a test, in the thread of its loop."""
        self._long, self._timed_again = [], 0
        self._before = self.slowness()
        self.on, self.sampled = True, sampled
        if sampled:
            SAMPLER.start(self._threads)

    def stop(self) -> list[LongStep]:
        """End with it, and return each step that reached half of its budget, the worst of each name."""
        if self.sampled:
            SAMPLER.stop()
        self.on = self.sampled = False
        after = self.slowness()
        worst: dict[str, LongStep] = {}
        for step in self._long:
            step = LongStep(step.name, step.seconds, max(step.slowness, after), step.place)
            if step.ratio >= 0.5 and step.ratio > (worst[step.name].ratio if step.name in worst else 0.0):
                worst[step.name] = step
        return [*worst.values()]

    def slowness(self) -> float:
        """Return how many times slower than reference this thread runs now."""
        thread = self._thread()
        times: list[float] = []
        for _ in range(_PIECES):
            began = thread.now()
            _piece()
            times.append(thread.now() - began)
        return statistics.median(times) / PIECE

    def run(self, callback: Any, call: Callable[[], Any]) -> Any:
        """Run one step, and note it if it took long."""
        if not self.on:
            return call()
        thread = self._thread()
        began = thread.now()
        step = _Step(callback, began, began)
        thread.steps.append(step)
        try:
            return call()
        finally:
            thread.steps.remove(step)
            used = thread.now() - began
            if used >= STEP_LIMIT * self._before / 2 and self.on:
                self._note(step, used)

    def _note(self, step: _Step, used: float) -> None:
        name, ours = _owner(step.callback)
        place = ""
        if self.sampled:
            used, place = _share(step.places, used, ours)
        slowness = self._before
        if used > STEP_LIMIT * slowness and self._timed_again < _TIMED_AGAIN:
            self._timed_again += 1
            slowness = max(slowness, self.slowness())
        self._long.append(LongStep(name, used, slowness, place))

    def _thread(self) -> _Thread:
        ident = threading.get_ident()
        found = self._threads.get(ident)
        # A thread may have the number of one that has ended, but not its clock.
        clock = time.pthread_getcpuclockid(ident)
        if found is None or found.clock != clock:
            found = self._threads[ident] = _Thread(ident, clock)
        return found

    def on_collection(self, phase: str, info: Mapping[str, Any]) -> None:
        """Keep the collector's own time apart (an entry of `gc.callbacks`)."""
        thread = self._threads.get(threading.get_ident())
        if thread is None:
            return
        if phase == "start":
            thread.collecting = time.thread_time()
        elif thread.collecting is not None:
            thread.collected += time.thread_time() - thread.collecting
            thread.collecting = None


def _share(places: Mapping[tuple[bool, str], float], used: float, owner_is_ours: bool) -> tuple[float, str]:
    """Return what of a step's time is ours, and where most of that was."""
    total = sum(places.values())
    if total <= 0:
        return (used if owner_is_ours else 0.0), ""
    ours = {where: seconds for (mine, where), seconds in places.items() if mine}
    return used * sum(ours.values()) / total, max(ours, key=ours.__getitem__, default="")


class Sampler:
    """A thread that looks every millisecond where the threads that are in a step are."""

    NAME = "tests-sampler"

    def __init__(self) -> None:
        self._ending = threading.Event()
        self._interval = sys.getswitchinterval()

    def start(self, threads: dict[int, _Thread]) -> None:
        """Begin to look."""
        self._ending = threading.Event()  # the thread of the test before may not have seen its own yet
        self._interval = sys.getswitchinterval()
        sys.setswitchinterval(_LOOKS / 2)  # a thread that computes hands over only that often
        threading.Thread(target=_look_around, args=[threads, self._ending], name=self.NAME, daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        self._ending.set()
        sys.setswitchinterval(self._interval)


def _look_around(threads: dict[int, _Thread], ending: threading.Event) -> None:
    while not ending.wait(_LOOKS):
        frames = sys._current_frames()
        for thread in [*threads.values()]:
            if thread.steps and thread.ident in frames:
                _look(thread, frames[thread.ident])
        del frames


def _look(thread: _Thread, frame: FrameType | None) -> None:
    now = thread.now()
    steps = [*thread.steps]
    innermost = _innermost(frame)
    for step in steps:
        if innermost is None:
            name, ours = _owner(step.callback)
            found = (ours, name)
        else:
            ours = bool(_is_ours(innermost.f_code.co_filename))
            found = (ours, _place(innermost))
        step.places[found] += now - step.looked
        step.looked = now


def _place(frame: FrameType) -> str:
    return f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_qualname}"


def _innermost(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame that is ours or a test's, inside the step."""
    while frame is not None and frame.f_code is not StepMeter.run.__code__:
        if _is_ours(frame.f_code.co_filename) is not None:
            return frame
        frame = frame.f_back
    return None


_LIBRARIES = tuple(
    {f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    | {f"{Path(asyncio.__file__).parents[1]}/", f"{Path(asyncio.__file__).parents[1].resolve()}/"}
)
_PYTEST = ("/_pytest/", "/pytest_asyncio/")  # they run fixtures
_GUARD = tuple(str(Path(__file__).with_name(name)) for name in ("_guard.py", "_steps.py", "_blocking.py"))


@functools.lru_cache(None)
def _is_ours(path: str) -> bool | None:
    """Return whether a file is the package's (True), the tests' (False) or anybody else's (None)."""
    if path.startswith(OURS):
        return True
    neutral = not path.startswith("/") or path.startswith(_LIBRARIES) or path in _GUARD
    return None if neutral or "-packages/" in path else False


def _owner(callback: Any) -> tuple[str, bool]:
    """Return the name of a task or a callback, and whether it is ours where no frame says more."""
    task = getattr(callback, "__self__", None)
    what = task.get_coro() if isinstance(task, asyncio.Task) else callback
    while isinstance(what, functools.partial):
        what = what.func
    name = getattr(what, "__qualname__", None) or type(what).__qualname__
    code = _code(what)
    path = code.co_filename if code else ""
    kind = "task" if isinstance(task, asyncio.Task) else "callback"
    return f"{kind} {name}", _is_ours(path) is not False and not any(part in path for part in _PYTEST)


def _code(what: Any) -> CodeType | None:
    for name in ("cr_code", "gi_code", "ag_code", "__code__"):
        code = getattr(getattr(what, "__func__", what), name, None)
        if isinstance(code, CodeType):
            return code
    return None


METER = StepMeter()
SAMPLER = Sampler()
gc.callbacks.append(METER.on_collection)
