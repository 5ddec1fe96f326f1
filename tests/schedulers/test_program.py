"""Commands of a service: whatever they do, the caller gets an answer in time and nothing is left."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import Path

import pytest

from asyncsched.clock import Clock
from asyncsched.errors import NotFoundError, SchedulerError, UnavailableError
from asyncsched.schedulers._common import program
from asyncsched.schedulers._common.program import Finished, Programs
from asyncsched.schedulers._common.program_start import Started, start_program
from asyncsched.testing import VirtualClock
from tests._support import eventually

pytestmark = pytest.mark.skipif(os.name != "posix", reason="processes as POSIX has them")


def programs(**more: int) -> Programs:
    return Programs("test", clock=Clock(), **more)


async def sh(script: str, *, timeout: float = 60.0, using: Programs | None = None, **more: object) -> Finished:
    runs = using or programs()
    return await runs.run(["/bin/sh", "-c", script], operation="try", timeout=timeout, **more)  # type: ignore[arg-type]


async def test_both_streams_and_the_exit_code_are_told() -> None:
    done = await sh("echo out; echo first >&2; echo last >&2; exit 3")

    assert Finished("sh", 3, b"out\n", b"first\nlast\n") == done
    assert ("out\n", "last") == (done.text, done.complaint)


async def test_a_signal_is_told_as_a_negative_code() -> None:
    done = await sh("kill -9 $$")

    assert (-9, "exit code -9") == (done.code, done.complaint)


async def test_standard_input_environment_and_directory(tmp_path: Path) -> None:
    text = os.urandom(1 << 20)
    done = await sh("pwd; echo $WORD; wc -c", stdin=text, env={"WORD": "hello", "PATH": os.defpath}, cwd=tmp_path)

    assert [str(tmp_path), "hello", str(len(text))] == done.text.split()


async def test_without_input_it_reads_an_empty_one() -> None:
    assert b"" == (await sh("cat")).stdout


async def test_much_output_arrives_whole_with_turns_for_others() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    done = await sh("head -c 8000000 /dev/zero")
    counting.cancel()

    assert 8_000_000 == len(done.stdout)
    assert turns >= 8_000_000 / (program.CHUNK * program.CHUNKS_AT_ONCE)


async def test_a_program_that_is_not_there() -> None:
    with pytest.raises(NotFoundError, match="there is no program no-such-program"):
        await programs().run(["no-such-program", "secret"], operation="try", timeout=60)


async def test_a_file_that_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    with pytest.raises(SchedulerError, match="cannot be started"):
        await programs().run([str(tmp_path / "text")], operation="try", timeout=60)


async def test_over_its_time_it_is_ended_with_its_children(tmp_path: Path) -> None:
    pids, clock = tmp_path / "pids", VirtualClock()
    script = f"sleep 1000 & echo $$ $! > {pids}; wait"
    running = asyncio.create_task(sh(script, timeout=1.0, using=Programs("test", clock=clock)))
    await eventually(lambda: pids.exists() and 2 == len(pids.read_text().split()))

    async def is_over() -> bool:
        await clock.advance(1.0)  # it may run a moment before its time does
        return running.done()

    await eventually(is_over)
    with pytest.raises(UnavailableError, match="sh did not end") as caught:
        await running
    assert caught.value.retryable
    await eventually(lambda: not any(map(is_running, pids.read_text().split())))


async def test_one_that_ignores_term_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "GRACE", 0.1)
    with pytest.raises(UnavailableError):
        await sh("trap '' TERM; while :; do sleep 0.05; done", timeout=0.3)


async def test_too_much_output_ends_it() -> None:
    with pytest.raises(SchedulerError, match="wrote more than 1000 bytes"):
        await sh("yes", using=programs(largest_output=1000))


@pytest.mark.parametrize("yields", range(8))
async def test_cancelled_at_any_moment_it_leaves_nothing(yields: int) -> None:
    running = asyncio.create_task(sh("sleep 1000"))
    for _ in range(yields):
        await asyncio.sleep(0)
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_child_that_holds_the_pipe_open_delays_it_for_a_moment_only() -> None:
    done = await sh("sleep 1000 & echo $!")
    os.kill(int(done.text), 9)  # it runs on, as a daemon that a command has started does


async def test_without_output_what_it_leaves_behind_delays_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "LINGER", 1e6)
    done = await sh(f"sleep 1000 & echo $! > {tmp_path}/pid; echo lost; exit 3", output=False)
    os.kill(int((tmp_path / "pid").read_text()), 9)

    assert Finished("sh", 3, b"", b"") == done


async def start_without_loop(script: str) -> Started:
    """Start a command where there is no loop: in another thread."""
    return await asyncio.to_thread(start_program, ["/bin/sh", "-c", script], stdin=b"hello")


async def test_one_that_was_started_without_a_loop_is_finished_on_one() -> None:
    started = await start_without_loop("cat; exit 3")

    assert Finished("sh", 3, b"hello", b"") == await programs().finish(started, operation="try", timeout=60.0)


async def test_one_that_was_started_without_a_loop_is_ended_in_time() -> None:
    started = await start_without_loop("exec sleep 1000")
    with pytest.raises(UnavailableError, match="sh did not end"):
        await programs().finish(started, operation="try", timeout=0.2)

    assert -15 == started.process.returncode


async def test_one_that_was_started_without_a_loop_is_ended_when_nobody_waits_any_more() -> None:
    started = await start_without_loop("exec sleep 1000")
    finishing = asyncio.create_task(programs().finish(started, operation="try", timeout=60.0))
    await asyncio.sleep(0)
    finishing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await finishing

    assert -15 == started.process.returncode


def test_one_that_was_started_without_a_loop_is_waited_for_without_one() -> None:
    started = start_program(["/bin/sh", "-c", "exit 3"], output=False)

    assert (3, 3) == (started.wait(), started.wait())
    assert started.has_ended()


async def test_at_most_so_many_run_at_once(tmp_path: Path) -> None:
    runs = programs(at_once=3)
    script = f"touch {tmp_path}/$$; ls {tmp_path} | wc -l; rm {tmp_path}/$$"
    counts = [int(done.text) for done in await asyncio.gather(*(sh(script, using=runs) for _ in range(20)))]

    assert max(counts) <= 3
    assert 20 == runs.started


async def test_no_thread_stays_for_a_child(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    runs = programs(at_once=64)
    before = {*threading.enumerate()}
    running = [asyncio.create_task(sh(f"while [ ! -e {gate} ]; do sleep 0.1; done", using=runs)) for _ in range(64)]
    await eventually(lambda: runs.started == 64)
    new = {*threading.enumerate()} - before

    assert {"asyncio", "uvloop"} >= {thread.name.split("_")[0] for thread in new}  # the loop's pool, which is bounded
    assert len(new) <= min(32, (os.cpu_count() or 1) + 4)
    gate.touch()
    await asyncio.gather(*running)


async def test_it_works_without_pidfds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")

    assert 7 == (await sh("sleep 0.1; exit 7")).code
    with pytest.raises(UnavailableError):
        await sh("sleep 1000", timeout=0.2)


@pytest.mark.parametrize("number", sorted(program.PASSING))
async def test_a_machine_without_room_is_unavailable_for_now(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room() -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pipe", no_room)
    with pytest.raises(UnavailableError, match="cannot be started at the moment") as caught:
        await sh("true")
    assert caught.value.retryable


async def test_arguments_never_reach_an_error() -> None:
    with pytest.raises(UnavailableError) as caught:
        await programs().run(
            [sys.executable, "-c", "import time; time.sleep(1000)", "password"], operation="try", timeout=0.5
        )
    assert "password" not in f"{caught.value!r} {caught.value}"


def is_running(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:  # it may end between the opening of its file and the reading
        return False
