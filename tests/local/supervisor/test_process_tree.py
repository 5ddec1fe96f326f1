"""Who is below us: with the kernel's lists of children, and without them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from asyncsched.schedulers.local.supervisor.formats import MARK
from asyncsched.schedulers.local.supervisor.host import is_alive, start_time, stat_fields
from asyncsched.schedulers.local.supervisor.identity_tags import marks_of
from asyncsched.schedulers.local.supervisor.process_tree import (
    children_by_lists,
    children_by_parents,
    descendants,
    has_lists,
    is_childless,
)
from tests._support import WITHIN, eventually_blocking

NESTED = """
import os, sys, threading, time
depth = int(sys.argv[1])
def fork():
    if depth and os.fork() == 0:
        os.execv(sys.executable, [sys.executable, "-S", "-c", sys.argv[2], str(depth - 1), sys.argv[2]])
fork()
threading.Thread(target=fork).start()
time.sleep(1000)
"""


@pytest.fixture
def nest() -> Iterator[subprocess.Popen[bytes]]:
    """A process with two children, one forked by another thread, of which each has two children."""
    with subprocess.Popen([sys.executable, "-S", "-c", NESTED, "2", NESTED], env={MARK: "outer inner"}) as process:
        yield process
        for pid, _ in list(descendants(process.pid)):
            os.kill(pid, 9)
        process.kill()


def test_both_ways_find_the_same(nest: subprocess.Popen[bytes]) -> None:
    eventually_blocking(lambda: len(list(descendants(nest.pid))) == 6)
    by_lists = set(descendants(nest.pid, children=children_by_lists))

    assert 6 == len(by_lists)
    assert by_lists == set(descendants(nest.pid, children=children_by_parents()))
    assert 2 == len({top for _, top in by_lists})


def test_only_what_is_wanted_is_entered(nest: subprocess.Popen[bytes]) -> None:
    eventually_blocking(lambda: len(list(descendants(nest.pid))) == 6)
    one, other = sorted({top for _, top in descendants(nest.pid)})
    found = list(descendants(nest.pid, enter=lambda top: top == one))

    assert 3 == len(found)
    assert other not in {pid for pid, _ in found}


def test_this_kernel_has_lists() -> None:
    assert has_lists() == Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").exists()


def test_a_child_that_has_not_been_waited_for_is_a_child() -> None:
    before = is_childless()
    process = subprocess.Popen(["/bin/true"])
    eventually_blocking(lambda: (stat_fields(process.pid) or "?")[0] == "Z")

    assert not is_childless()
    assert start_time(process.pid) is None
    process.wait(WITHIN)
    assert before == is_childless()


def test_a_process_is_its_number_and_its_start() -> None:
    mine = start_time(os.getpid())
    assert mine is not None

    assert is_alive(os.getpid(), mine)
    assert not is_alive(os.getpid(), mine + 1)
    assert not is_alive(0, mine)
    assert 0 < mine / os.sysconf("SC_CLK_TCK") < time.clock_gettime(time.CLOCK_BOOTTIME) + 1


def test_marks_are_read_from_the_environment(nest: subprocess.Popen[bytes]) -> None:
    eventually_blocking(lambda: marks_of(nest.pid) == ["outer", "inner"])

    assert [] == marks_of(1 << 30)
