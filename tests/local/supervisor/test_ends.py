"""How replicas end, and what is told of it."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from asyncsched.schedulers.local.supervisor.layout import END
from tests.local.supervisor._client import Supervisor, python, shell


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
    code = "import signal, sys; signal.signal(15, lambda *_: sys.exit(7)); print('ready', flush=True); signal.pause()"
    supervisor.submit(python(code))
    supervisor.log().wait_for(b"ready\n")
    supervisor.ask("cancel", app_id="app")
    record = supervisor.until()

    assert ("cancel", 7) == (record["ended_by"], record["replicas"][0]["exit_code"])
