"""The time limit of a test: it guards against hangs and judges nothing.

A test that reaches its limit ends the whole run within seconds, whatever its loop, its threads and its children are
doing: the stacks of all threads and tasks are written to the error output that pytest was started with, the test is
named in the results, the process exits with 1, and then the children that the test has started are ended. An exception
instead, raised where the test stands, can be swallowed there: asyncio takes what a callback raises for the callback's
own error, and the test hangs on. And if a child ended before us, the test that waits for it would go on, and could
pass.

The limit is `time_limit` of pytest's configuration; a test that is heavy alone has more::

    @pytest.mark.timeout(900)

A fixture of the whole session, such as a service that is brought up, has a limit of its own beside its test's.

A daemon thread watches. Should it not come to run, because something in C keeps the interpreter's lock, faulthandler's
own thread, which needs no lock, ends the run a little later, with the stacks of all threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import gc
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from types import AsyncGeneratorType
from typing import Any, NoReturn

import pytest

from tests import _results
from tests.services.lifeline import Lifeline

_WITHOUT_THE_LOCK = 15.0  # seconds after the limit at which faulthandler ends what the thread could not
_CHILDREN_WITHIN = 2.0  # seconds that children have between SIGTERM and SIGKILL
_MOST_TASKS = 200
_COLLECTING = 300.0  # seconds that it may take to import all tests
_SHARED = 900.0  # seconds that it may take to make what all tests of a session share


class Limit:
    """Ends the process when what it guards has reached its limit."""

    def __init__(self, output: int, note: Callable[[str], object]) -> None:
        self._output, self._note = output, note
        self._changed = threading.Condition()
        self._what = ""
        self._seconds = 0.0
        self._deadline: float | None = None
        self._began = 0.0
        threading.Thread(target=self._watch, name="tests-time-limit", daemon=True).start()

    def begin(self, what: str, seconds: float) -> None:
        """Guard this from now on, for so long."""
        self._began = time.clock_gettime(time.CLOCK_BOOTTIME)
        faulthandler.dump_traceback_later(seconds + _WITHOUT_THE_LOCK, exit=True, file=self._output)
        self._set(what, seconds, time.monotonic() + seconds)

    @contextlib.contextmanager
    def instead(self, seconds: float) -> Iterator[None]:
        """Guard the same for so long, and afterwards as before, from then on."""
        what, before = self._what, self._seconds
        self.begin(what, max(seconds, before))
        try:
            yield
        finally:
            self.begin(what, before)

    def end(self) -> None:
        """Guard nothing."""
        faulthandler.cancel_dump_traceback_later()
        self._set("", 0.0, None)

    def _set(self, what: str, seconds: float, deadline: float | None) -> None:
        with self._changed:
            self._what, self._seconds, self._deadline = what, seconds, deadline
            self._changed.notify()

    def _watch(self) -> None:
        with self._changed:
            while self._deadline is None or time.monotonic() < self._deadline:
                self._changed.wait(None if self._deadline is None else max(0.0, self._deadline - time.monotonic()))
        self._give_up()

    def _give_up(self) -> NoReturn:
        # Whatever goes wrong in here, it ends.
        faulthandler.dump_traceback_later(_WITHOUT_THE_LOCK, exit=True, file=self._output)
        children: list[int] = []
        try:
            children = _descendants(os.getpid(), self._began)
            for part in self._parts(children):
                _write(self._output, part)
            self._note(f"{self._what} (reached its time limit)")
        except BaseException:
            _write(self._output, traceback.format_exc())
        try:
            _end_after_us(children)
        except BaseException:
            _write(self._output, traceback.format_exc())
        finally:
            os._exit(1)

    def _parts(self, children: Sequence[int]) -> Iterator[str]:
        yield f"\n\n+++ time limit: {self._what} has not ended within {self._seconds:g} s +++\n"
        yield from _threads()
        yield from _tasks()
        for pid in children:
            yield f"\n--- child process {pid}, ended after this one: {_command(pid)}\n"
        yield f"\n+++ time limit: the run ends here, in {self._what} +++\n"


def _write(output: int, text: str) -> None:
    data = text.encode(errors="backslashreplace")
    while data:
        data = data[os.write(output, data) :]


def _threads() -> Iterator[str]:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        if ident != threading.get_ident():
            stack = "".join(traceback.format_stack(frame))
            yield f"\n--- thread {names.get(ident, ident)}\n{stack}"


def _tasks() -> Iterator[str]:
    # The collector knows the tasks of all loops in all threads, on every version of Python.
    objects = gc.get_objects()
    tasks = [each for each in objects if issubclass(type(each), asyncio.Task) and not each.done()]
    for task in tasks[:_MOST_TASKS]:
        yield f"\n--- task {task!r}\n"
        yield from _awaited(task.get_coro())
    if len(tasks) > _MOST_TASKS:
        yield f"\n--- and {len(tasks) - _MOST_TASKS} tasks more\n"
    # What awaits a step of one of these does not say which one: they are listed beside the tasks.
    steps = [each for each in objects if type(each) is AsyncGeneratorType and each.ag_running]
    for step in steps[:_MOST_TASKS]:
        yield f"\n--- step of {step!r}\n"
        yield from _awaited(step)


def _awaited(what: Any) -> Iterator[str]:
    """Yield the place of a coroutine, and of what it awaits, outermost first."""
    while what is not None:
        for prefix in ("cr", "ag", "gi"):
            frame = getattr(what, f"{prefix}_frame", None)
            if frame is not None:
                place = traceback.StackSummary.extract([(frame, frame.f_lineno)])
                yield "".join(place.format())
                break
        else:
            return
        what = getattr(what, f"{prefix}_await", None) or getattr(what, "gi_yieldfrom", None)


def _descendants(parent: int, since: float) -> list[int]:
    """Return the children of a process that began since a time after the boot, and theirs."""
    children, found, left = _children(), list[int](), [parent]
    while left:
        for pid, began in children.get(left.pop(), ()):
            # What ends our services when we are gone has to outlive us.
            if began >= since and "\0lifeline\0" not in _command_line(pid):
                found.append(pid)
                left.append(pid)
    return found


def _children() -> dict[int, list[tuple[int, float]]]:
    """Return the children of all processes, each with the time after the boot at which it began."""
    found: dict[int, list[tuple[int, float]]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            # The command's name stands in parentheses and may hold anything, also ") ".
            fields = (entry / "stat").read_text().rpartition(") ")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        # A clock's tick is 10 ms: one that began with the test counts as begun in it.
        began = (int(fields[19]) + 1) / os.sysconf("SC_CLK_TCK")
        found.setdefault(int(fields[1]), []).append((int(entry.name), began))
    return found


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""


def _command(pid: int) -> str:
    return _command_line(pid).replace("\0", " ").strip()[:500] or "(ended, and not waited for)"


def _end_after_us(pids: Sequence[int]) -> None:
    if not pids:
        return
    them = " ".join(map(str, pids))
    try:
        Lifeline("sh", "-c", f"kill -TERM {them}; sleep {_CHILDREN_WITHIN}; kill -KILL {them}")
    except OSError:  # no descriptor or no memory is left, or they are too many: at once, as we end right after it
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


_LIMIT = pytest.StashKey[Limit]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("time_limit", "seconds after which a test that has not ended ends the run", default="300")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "timeout(seconds): another time limit, for a test that is heavy alone")
    if config.getoption("usepdb"):
        return  # a person is thinking
    # pytest does not capture yet: this is where its own output goes.
    # It is never closed, since the end of the process is guarded as well.
    config.stash[_LIMIT] = Limit(os.dup(2), lambda what: _results.write(config, unfinished=[what]))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    if _LIMIT in item.config.stash:
        item.config.stash[_LIMIT].begin(item.nodeid, _seconds(item))
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    limit = request.config.stash.get(_LIMIT, None)
    if limit is None or fixturedef.scope != "session":
        return (yield)
    with limit.instead(_SHARED):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    try:
        return (yield)
    finally:
        if _LIMIT in item.config.stash:
            item.config.stash[_LIMIT].end()


def _seconds(item: pytest.Item) -> float:
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0] if marker else item.config.getini("time_limit"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    limit = session.config.stash.get(_LIMIT, None)
    if limit is None:
        return (yield)
    limit.begin("collecting the tests", _COLLECTING)
    try:
        return (yield)
    finally:
        limit.end()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    # To the very end: a thread that is left is waited for when the interpreter ends.
    if _LIMIT in session.config.stash:
        session.config.stash[_LIMIT].begin("the end of the run", float(session.config.getini("time_limit")))
    return (yield)
