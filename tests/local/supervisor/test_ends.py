"""How replicas end, and what is told of it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from asyncsched.schedulers.local.supervisor.formats import END
from tests._support import eventually_blocking
from tests.local.supervisor._client import Supervisor, python, shell


def has_ended(pid: int) -> bool:
    """Tell whether a process has ended; its parent need not have waited for it."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_replica_that_exits_is_told_with_its_code(supervisor: Supervisor) -> None:
    record = supervisor.run(shell("exit 0"), shell("exit 3", k=1))

    assert [(0, None), (3, None)] == [(each["exit_code"], each["signal"]) for each in record["replicas"]]
    assert record["created_ns"] <= record["started_ns"] <= record["finished_ns"]
    assert record == supervisor.saved()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGUSR1])
def test_a_replica_that_is_killed_is_told_with_its_signal(supervisor: Supervisor, number: int) -> None:
    record = supervisor.run(shell(f"kill -{int(number)} $$"))

    assert (-number, number) == (record["replicas"][0]["exit_code"], record["replicas"][0]["signal"])
    assert record["ended_by"] == ""


def test_the_error_file_is_told(supervisor: Supervisor, tmp_path: Path) -> None:
    path = tmp_path / "error.json"
    record = supervisor.run(shell(f"printf 'no json' > {path}; exit 1", error_file=str(path)))

    assert "no json" == record["replicas"][0]["error"]


def test_the_end_of_a_log_is_in_its_index(supervisor: Supervisor) -> None:
    supervisor.run(shell("echo out; echo err >&2"))
    log = supervisor.log()

    assert (b"out\n", b"err\n") == (log.stdout, log.stderr)
    assert END == log.index()[-1]["kind"]


def test_cancel_gives_time_to_end(supervisor: Supervisor) -> None:
    code = """
import signal, sys, time
signal.signal(15, lambda *_: sys.exit(7))
print("ready", flush=True)
while True: time.sleep(0.1)  # a signal just before signal.pause() would be missed
"""
    supervisor.submit(python(code))
    supervisor.log().wait_for(b"ready\n")
    supervisor.ask("cancel", app_id="app")
    record = supervisor.until()

    assert ("cancel", 7) == (record["ended_by"], record["replicas"][0]["exit_code"])


def test_without_more_a_failure_ends_nobody_else(supervisor: Supervisor) -> None:
    record = supervisor.run(shell("exit 3"), shell("sleep 0.3", k=1))

    assert [3, 0] == [each["exit_code"] for each in record["replicas"]]
    assert ("", "") == (record["ended_by"], record["blames"])


def test_on_failure_stop_ends_the_others_and_blames_the_first(supervisor: Supervisor, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    record = supervisor.run(
        shell(f"trap 'exit 4' TERM; echo > {ready}; while :; do sleep 0.01; done"),
        # What it leaves behind holds its output open: the others are told before that is over.
        shell(f"until [ -e {ready} ]; do sleep 0.01; done; sleep 1000 & exit 3", k=1),
        on_failure="stop",
    )

    assert [4, 3] == [each["exit_code"] for each in record["replicas"]]
    assert ("stop", "role/1") == (record["ended_by"], record["blames"])
    assert [True, False] == [each["stopped"] for each in record["replicas"]]


def test_success_stops_nobody(supervisor: Supervisor) -> None:
    record = supervisor.run(shell("exit 0"), shell("sleep 0.3", k=1), on_failure="stop")

    assert [0, 0] == [each["exit_code"] for each in record["replicas"]]
    assert "" == record["ended_by"]


def test_who_is_left_when_the_first_process_obeys_is_asked_too(supervisor: Supervisor) -> None:
    # The handler starts somebody who was not there when the others were asked to end.
    code = """
import os, signal, sys, time
def rest():
    while True: time.sleep(0.1)  # a signal just before one long sleep would be missed
def end(*_):
    read, write = os.pipe()
    if os.fork() == 0:
        os.setsid()
        signal.signal(15, lambda *_: (os.write(1, b"asked\\n"), os._exit(0)))
        os.write(write, b"there")
        rest()
    os.read(read, 5)
    os._exit(0)
signal.signal(15, end)
os.write(1, b"ready\\n")
rest()
"""
    supervisor.submit(python(code), grace_period=600.0)
    supervisor.log().wait_for(b"ready\n")
    supervisor.ask("cancel", app_id="app")
    supervisor.until()

    assert b"ready\nasked\n" == supervisor.log().stdout


def test_stop_ends_everything(supervisor: Supervisor) -> None:
    supervisor.submit(shell("trap 'exit 6' TERM; echo ready; while :; do sleep 0.01; done"))
    supervisor.log().wait_for(b"ready\n")
    supervisor.ask("stop")
    supervisor.wait_for_eof()

    # Both halves hold the socket: its end says that both are gone, or about to be.
    eventually_blocking(lambda: not supervisor.is_alive())
    assert ("close", [6]) == (
        supervisor.saved()["ended_by"],
        [each["exit_code"] for each in supervisor.saved()["replicas"]],
    )


@pytest.mark.parametrize("half", ["pid", "watcher_pid"])
def test_term_to_the_supervisor_ends_its_apps_with_grace(supervisor: Supervisor, half: str) -> None:
    supervisor.submit(shell("trap 'exit 6' TERM; echo ready; while :; do sleep 0.01; done"))
    supervisor.log().wait_for(b"ready\n")
    os.kill(supervisor.identity[half], signal.SIGTERM)
    supervisor.wait_for_eof()

    assert ("terminated", [6]) == (
        supervisor.saved()["ended_by"],
        [each["exit_code"] for each in supervisor.saved()["replicas"]],
    )


@pytest.mark.parametrize("half", ["pid", "watcher_pid"])
def test_other_signals_to_the_supervisor_have_no_effect(supervisor: Supervisor, half: str) -> None:
    supervisor.submit(shell("exec sleep 1000"))
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ):
        os.kill(supervisor.identity[half], number)

    assert supervisor.describe()["finished_ns"] is None
    assert supervisor.is_alive()
    supervisor.ask("kill", app_id="app")
    assert "cancel" == supervisor.until()["ended_by"]


def test_ends_that_come_together_are_told_as_few_changes(supervisor: Supervisor) -> None:
    supervisor.submit(*[shell("sleep 600", k=k) for k in range(50)])
    pids = [each["pid"] for each in supervisor.describe()["replicas"]]
    os.kill(supervisor.pid, signal.SIGSTOP)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    for pid in pids:
        eventually_blocking(lambda pid=pid: has_ended(pid))  # type: ignore[misc]  # bound now
    supervisor.events.clear()
    os.kill(supervisor.pid, signal.SIGCONT)
    record = eventually_blocking(lambda: (told := supervisor.describe())["finished_ns"] and told)

    assert all(each["over"] for each in record["replicas"])
    assert len([each for each in supervisor.events if each.get("event") == "app"]) < 10


def test_a_record_on_the_disk_is_whole_at_any_moment(supervisor: Supervisor) -> None:
    supervisor.submit(*[shell(f"sleep 0.{k:02}", k=k) for k in range(50)])
    while (record := supervisor.saved())["finished_ns"] is None:
        assert 50 == len(record["replicas"])

    assert {0} == {each["exit_code"] for each in record["replicas"]}
