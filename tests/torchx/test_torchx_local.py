"""TorchX's command line on this machine's processes."""

from __future__ import annotations

import re
import signal

import pytest

from tests.torchx._program import TorchX
from tests.torchx.conftest import BOTH

pytestmark = [pytest.mark.slow, BOTH]

LINES = 401
COUNTING = "i=0; while [ $$i -lt 401 ]; do echo line $$i; i=$$((i+1)); done; exit 3"


def test_run_shows_every_line_and_its_app_can_be_read_described_and_deleted(torchx: TorchX) -> None:
    run = torchx("run", "-s", "local_cwd", "jobs.py:job", "--program", COUNTING, "--replicas", "3")
    written = sorted(f"main/{k} line {i}" for k in range(3) for i in range(LINES))

    assert 1 == run.code, run.err
    assert "FAILED" in run.err
    assert written == run.lines

    log = torchx("log", run.handle)
    assert written == log.lines
    some = torchx("log", "--regex", "^line .00$", f"{run.handle}/main/1")
    assert [f"main/1 line {i}00" for i in range(1, 5)] == some.lines

    status = torchx("status", run.handle)
    assert "State: FAILED" in status.out
    assert 3 == len(re.findall(r"main\[\d\]:FAILED \(exitcode: 3\)|main\[\d\]:FAILED", status.out)), status.out
    assert run.handle in torchx("list", "-s", "local_cwd").out
    described = torchx("describe", run.handle)
    assert (0, True) == (described.code, "'num_replicas': 3" in described.out), described.err
    if not torchx.is_old:
        assert 0 == torchx("delete", run.handle).code
        assert run.handle not in torchx("list", "-s", "local_cwd").out


def test_another_process_follows_and_cancels(torchx: TorchX) -> None:
    program = "trap '' TERM; sleep 3600 & echo $$! $$$$; echo ready; wait; wait"
    running = torchx.start("run", "-s", "local_cwd", "-cfg", "grace_period=0.5", "jobs.py:job", "--program", program)
    assert running.stdout is not None
    shown = []
    for line in running.stdout:
        shown.append(line)
        if "main/0 ready" in line:
            break
    else:
        pytest.fail("".join(shown))
    (handle,) = [line.strip() for line in shown if line.startswith("local_cwd://")]
    pids = [int(pid) for line in shown if re.match(r"main/0 \d+ \d+$", line) for pid in line.split()[1:]]
    following = torchx.start("log", "-t", handle)
    assert following.stdout is not None
    while "main/0 ready" not in (line := following.stdout.readline()):
        assert line, "the log has ended"

    cancelled = torchx("cancel", handle)
    assert 0 == cancelled.code, cancelled.err
    assert [] == [pid for pid in pids if _runs(pid)]  # the processes are gone when it returns
    assert "CANCELLED" in torchx("status", handle).out
    following.communicate(timeout=240)
    rest, _ = running.communicate(timeout=240)
    assert (0, 1) == (following.returncode, running.returncode), rest
    assert "Traceback" not in rest


def test_an_interrupted_run_leaves_nothing(torchx: TorchX) -> None:
    running = torchx.start("run", "-s", "local_cwd", "jobs.py:job", "--program", "echo $$$$; exec sleep 3600")
    assert running.stdout is not None
    while not (found := re.match(r"main/0 (\d+)$", line := running.stdout.readline())):
        assert line, "the run has ended"
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=240)

    assert not _runs(int(found[1]))


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123 - it may end between a look and a read
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_dry_run_shows_the_request_and_submits_nothing(torchx: TorchX) -> None:
    done = torchx("run", "-s", "local_cwd", "--dryrun", "jobs.py:job", "--program", "echo $${HOME} ${replica_id}")

    assert 0 == done.code, done.err
    assert "echo ${HOME} 0" in done.out + done.err
    assert "job-" not in torchx("list", "-s", "local_cwd").out


def test_errors_of_options_are_those_of_torchx(torchx: TorchX) -> None:
    line = ("run", "-s", "local_cwd", "-cfg")
    unknown = torchx(*line, "no_such_option=1", "utils.echo", "--msg", "hello")

    if torchx.is_old:
        assert (0, ["echo/0 hello"]) == (unknown.code, unknown.lines)
    else:
        assert 0 != unknown.code
        assert "no_such_option" in unknown.err
    wrong = torchx(*line, "on_failure=explode", "utils.echo")
    assert 0 != wrong.code
    assert "on_failure" in wrong.err


def test_an_error_file_is_shown_in_the_shape_of_torchelastic(torchx: TorchX) -> None:
    program = "echo '{\"oops\": 1}' > $$TORCHELASTIC_ERROR_FILE; exit 3"
    run = torchx("run", "-s", "local_cwd", "jobs.py:job", "--program", program)
    status = torchx("status", run.handle)

    assert "main[0]:FAILED (exitcode: 3)" in status.out
    assert 'error_msg: {"oops": 1}' in status.out
