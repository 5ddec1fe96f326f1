"""A test that hangs ends the run, whatever hangs, and the output says where."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests import _results
from tests._support import eventually_blocking

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.timeout(900)  # the first one starts all the others

HANGS = '''
import asyncio, os, socket, subprocess, threading, time
import pytest


async def never(entered):
    entered.set()
    await asyncio.get_running_loop().create_future()


async def test_in_callbacks():
    """Each takes a while, and starts the next: an exception that is raised in one is the callback's own."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()

    def spin():
        time.sleep(0.3)
        loop.call_soon(spin)

    loop.call_soon(spin)
    await future


async def test_in_one_callback():
    loop = asyncio.get_running_loop()

    def computes_for_ever():
        while True:
            pass

    loop.call_soon(computes_for_ever)
    await asyncio.sleep(1)


async def test_in_select():
    entered = asyncio.Event()
    waiting = asyncio.create_task(never(entered), name="waits for ever")
    await entered.wait()
    await waiting


async def test_in_a_thread_that_is_awaited():
    await asyncio.to_thread(threading.Event().wait)


async def test_that_swallows_everything():
    while True:
        try:
            await asyncio.sleep(3600)
        except BaseException:
            pass


def test_in_a_thread_that_is_joined():
    def stuck():
        threading.Event().wait()

    thread = threading.Thread(target=stuck, name="stuck")
    thread.start()
    thread.join()


def test_in_a_child():
    child = subprocess.Popen(["sh", "-c", "trap '' TERM; echo $$ >> pids; sleep 1000 & echo $! >> pids; wait"])
    child.wait()


def test_in_a_short_child():
    """It ends when it is asked to: what waits for it would go on."""
    subprocess.run(["sleep", "1000"])


def test_with_no_descriptor_left():
    import resource
    child = subprocess.Popen(["sh", "-c", "echo $$ >> pids; exec sleep 1000"])
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 2, 4096))
    child.wait()


def test_in_many_children():
    children = [subprocess.Popen(["sleep", "1000"]) for _ in range(300)]
    open("pids", "w").write(" ".join(str(child.pid) for child in children))
    children[0].wait()


def test_in_a_socket():
    a, b = socket.socketpair()
    a.recv(1)


def test_with_the_lock_held():
    import re
    re.match("(a+)+$", "a" * 100 + "b")


@pytest.fixture
async def hangs_at_the_end():
    yield
    await never(asyncio.Event())


async def test_in_a_fixture(hangs_at_the_end):
    pass


def test_in_a_thread_that_is_left():
    threading.Thread(target=threading.Event().wait, name="stuck").start()


def test_in_a_short_time():
    print("short")


@pytest.fixture(scope="session")
def shared():
    time.sleep(1)


@pytest.mark.timeout(0.5)
def test_in_a_fixture_of_the_session(shared):
    pass


@pytest.mark.timeout(0.5)
def test_with_a_limit_that_is_its_own():
    time.sleep(1000)

'''

LIMIT = 6.0
"""Seconds in which each has begun to hang, however many others are started beside it."""

PLUGINS = [f"-ptests.{name}" for name in ("_services", "_results", "_time_limit", "_timed", "_guard")]

IN_A_LOOP = {
    "test_in_callbacks": "in spin",
    "test_in_one_callback": "in computes_for_ever",
    "test_in_select": "--- task <Task pending name='waits for ever'.*\n.*in never",
    "test_in_a_thread_that_is_awaited": r"--- thread (asyncio|uvloop|ThreadPoolExecutor-\d+)_0\n",
    "test_that_swallows_everything": "in test_that_swallows_everything",
    "test_in_a_fixture": "in hangs_at_the_end",
}
WITHOUT_A_LOOP = {
    "test_in_a_thread_that_is_joined": r"--- thread stuck\n(.*\n)*.*in stuck",
    "test_in_a_socket": "in test_in_a_socket",
    "test_in_a_short_child": r"--- child process \d+, ended after this one: sleep 1000",
    "test_with_no_descriptor_left": r"--- child process \d+, ended after this one: sleep 1000",
    "test_in_many_children": r"--- child process \d+, ended after this one: sleep 1000",
    "test_in_a_child": r"--- child process \d+, ended after this one: sh -c trap",
    "test_in_a_thread_that_is_left": r"the end of the run has not ended .*\n(.*\n)*--- thread stuck",
}


class Run:
    """One of the tests, in a process that has been started."""

    def __init__(self, folder: Path, name: str, *options: str, limit: float = LIMIT) -> None:
        self.folder = folder / f"{name}-{'-'.join(options)}"
        self.folder.mkdir()
        (self.folder / "test_hangs.py").write_text(HANGS)
        (self.folder / "pytest.ini").write_text(f"[pytest]\nasyncio_mode = auto\ntime_limit = {limit}\n")
        command = [sys.executable, "-m", "pytest", *PLUGINS, "-pno:cacheprovider", "-pno:timeout", "-oaddopts="]
        self._process = subprocess.Popen(
            [*command, *options, "-k", name],
            cwd=self.folder,
            env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def end(self) -> tuple[int, str]:
        """Wait for its end; return its code and what it printed."""
        output, _ = self._process.communicate(timeout=840)
        return self._process.returncode, output

    def stop(self) -> None:
        """End it, if nobody has waited for it."""
        if self._process.returncode is None:
            self._process.kill()
            self._process.communicate()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[tuple[str, str], Run]]:
    """All of them at once: they spend their time with waiting."""
    folder = tmp_path_factory.mktemp("hangs")
    runs = {(name, loop): Run(folder, name, "--loops", loop) for name in IN_A_LOOP for loop in ("asyncio", "uvloop")}
    runs |= {(name, ""): Run(folder, name) for name in (*WITHOUT_A_LOOP, "test_with_the_lock_held")}
    yield runs
    for run in runs.values():
        run.stop()


Runs = Mapping[tuple[str, str], Run]


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("name", IN_A_LOOP)
def test_a_hang_in_a_loop_ends_the_run(runs: Runs, name: str, loop: str) -> None:
    code, output = runs[name, loop].end()

    assert 1 == code, output
    assert f"+++ time limit: test_hangs.py::{name} has not ended within {LIMIT:g} s +++" in output
    assert "--- thread MainThread" in output
    assert re.search(IN_A_LOOP[name], output), output


@pytest.mark.slow
@pytest.mark.parametrize("name", WITHOUT_A_LOOP)
def test_a_hang_without_a_loop_ends_the_run(runs: Runs, name: str) -> None:
    run = runs[name, ""]
    code, output = run.end()

    assert 1 == code, output
    assert f"has not ended within {LIMIT:g} s +++" in output
    assert re.search(WITHOUT_A_LOOP[name], output), output
    pids = run.folder / "pids"
    left = [Path("/proc", pid) for pid in pids.read_text().split()] if pids.exists() else []
    eventually_blocking(lambda: not any(process.exists() for process in left))


@pytest.mark.slow
def test_what_holds_the_interpreter_ends_the_run(runs: Runs) -> None:
    code, output = runs["test_with_the_lock_held", ""].end()

    assert 1 == code, output
    assert "in test_with_the_lock_held" in output


@pytest.mark.slow
@pytest.mark.parametrize("capture", ["fd", "sys", "no"])
def test_a_test_may_have_another_limit(tmp_path: Path, capture: str) -> None:
    code, output = Run(tmp_path, "test_with_a_limit_that_is_its_own", f"--capture={capture}", limit=300).end()

    assert 1 == code, output
    assert "has not ended within 0.5 s" in output


@pytest.mark.slow
def test_what_reached_its_limit_is_among_the_results(tmp_path: Path) -> None:
    name = "test_with_a_limit_that_is_its_own or test_in_a_short_time"
    run = Run(tmp_path, name, "--results=results", limit=300)
    run.end()

    found = _results.read(run.folder / "results")
    assert found is not None
    assert (1, 1) == (found.passed, found.failed)
    assert ["test_hangs.py::test_with_a_limit_that_is_its_own (reached its time limit)"] == found.failures


@pytest.mark.slow
def test_what_ends_in_time_is_left_alone(tmp_path: Path) -> None:
    code, output = Run(tmp_path, "test_in_a_short_time or test_in_a_fixture_of_the_session", limit=300).end()

    assert 0 == code, output
    assert "2 passed" in output
    assert "time limit" not in output
