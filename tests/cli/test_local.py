"""The command line and processes on this machine, which is what it does when nobody says anything else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests._support import eventually_blocking
from tests.cli._cli import Cli
from tests.cli._terminal import Terminal


def test_the_first_command_of_a_new_user(local: Cli) -> None:
    done = local("run", "utils.echo", "--msg", "hello")
    handle, *lines = done.lines
    app_id = handle.rpartition("/")[2]

    assert (0, ["echo/0 hello"]) == (done.code, lines)
    assert handle.startswith("local_cwd://cli/echo-")
    assert done.err.startswith(f"{app_id} SUCCEEDED after ")
    assert 1 == len(done.err.splitlines())


@pytest.mark.slow
def test_every_other_process_sees_it(local: Cli) -> None:
    handle = local("run", "--replicas", "2", "--", "sh", "-c", "echo one; echo two >&2; exit 3").lines[0]

    assert handle in local("list").out
    assert "FAILED" in local("status", handle).out
    assert ["sh/0 one", "sh/0 two", "sh/1 one", "sh/1 two"] == sorted(local("log", handle).lines)
    assert ["sh/1 two"] == local("log", "--streams", "stderr", f"{handle}/sh/1").lines
    assert (1, [f"{handle}  FAILED"]) == (
        (done := local("wait", handle)).code,
        [line[: len(handle) + 8] for line in done.lines],
    )
    assert 0 == local("delete", handle).code
    assert 4 == local("status", handle).code


def test_detached_it_runs_on_until_it_is_cancelled(local: Cli) -> None:
    (handle,) = local("run", "--detach", "--", "sleep", "3600").lines
    try:
        assert "RUNNING" in local("status", handle).out
    finally:
        assert 0 == local("cancel", handle).code
    assert 3 == local("wait", handle).code


def test_a_job_that_fails_says_why(local: Cli) -> None:
    done = local("run", "utils.python", "-c", "import sys; print('bad', file=sys.stderr); sys.exit(4)")

    assert 1 == done.code
    assert ["python/0 bad"] == done.lines[1:]
    assert "FAILED" in done.err
    assert "4" in done.err


def test_a_program_that_is_not_there(local: Cli) -> None:
    done = local("run", "--", "no-such-program")

    assert done.code in (2, 4)
    assert "no-such-program" in done.err
    assert "Traceback" not in done.err
    assert len(done.err.splitlines()) <= 6


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_ends_it_and_twice_at_once(local: Cli, times: int) -> None:
    ignore = "trap '' TERM;" if times == 2 else ""
    script = f"{ignore} echo ready $$; while :; do sleep 1; done"
    running = local.start("run", "-cfg", "grace_period=600", "--", "sh", "-c", script)
    assert running.stdout is not None
    assert running.stderr is not None
    handle = running.stdout.readline().strip()
    pid = int(running.stdout.readline().split()[-1])
    running.send_signal(signal.SIGINT)
    assert "Ctrl-C again ends it at once" in running.stderr.readline()
    if times == 2:
        running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)  # a tenth of the grace period

    assert 130 == running.returncode
    eventually_blocking(lambda: not Path(f"/proc/{pid}").exists())
    assert 3 == local("wait", handle).code


def test_a_reader_that_leaves_ends_the_tail_and_not_the_job(local: Cli) -> None:
    (handle,) = local("run", "--detach", "--", "sh", "-c", "while echo line; do sleep 0.1; done").lines
    try:
        tail = " ".join(local.command("log", "-f", handle))
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {tail} | head -1"],
            cwd=local.folder, env=local.env, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip

        assert (0, "sh/0 line\n", "") == (done.returncode, done.stdout, done.stderr)
        assert "RUNNING" in local("status", handle).out
    finally:
        local("cancel", handle)


def test_progress_stays_on_its_line(local: Cli) -> None:
    script = r"printf '10%%'; sleep 0.3; printf '\r20%%'; sleep 0.3; echo ' done'"
    with Terminal(local, "run", "--no-color", "--", "sh", "-c", script) as terminal:
        assert 0 == terminal.end()
        assert "sh/0 | 20% done" in [line.rstrip() for line in terminal.screen]


def test_a_component_in_a_file(local: Cli) -> None:
    (local.folder / "jobs.py").write_text(
        "from asyncsched import AppDef, Role\n"
        "def train(data: str, n: int = 1) -> AppDef:\n"
        "    'Train it.'\n"
        "    return AppDef('train', [Role('worker', '', entrypoint='echo', args=[data], num_replicas=n)])\n"
    )
    done = local("run", "jobs.py:train", "--data", "/d", "-n", "2")

    assert (0, ["worker/0 /d", "worker/1 /d"]) == (done.code, sorted(done.lines[1:]))


def test_python_m(local: Cli) -> None:
    assert [sys.executable, "-m", "asyncsched"] == local.command()
    assert os.access(Path(sys.executable).parent / "asyncsched", os.X_OK)


# Workspaces


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    (tmp_path / "files/hello.txt").write_text("hello from a file\n")
    return tmp_path / "files"


def test_an_app_runs_in_a_copy_of_its_workspace(local: Cli, workspace: Path) -> None:
    done = local("run", "--workspace", str(workspace), "--", "sh", "-c", "cat hello.txt; echo edited > hello.txt")

    assert (0, ["sh/0 hello from a file"]) == (done.code, done.lines[1:])
    assert "hello from a file\n" == (workspace / "hello.txt").read_text()


def test_a_dry_run_tells_the_workspaces_hash(local: Cli, workspace: Path) -> None:
    words = ("run", "--dryrun", "--workspace", str(workspace))
    shown = [line for line in local(*words, "--", "true").lines if "workspace" in line and line.startswith("#")]
    told = json.loads(local(*words, "-o", "json", "--", "true").out)

    assert [f"# {told['workspace']}"] == shown
    assert told["workspace"].startswith("directory + workspace ")


def test_a_missing_workspace_is_told(local: Cli, tmp_path: Path) -> None:
    done = local("run", "--workspace", str(tmp_path / "missing"), "--", "true")

    assert 2 == done.code
    assert [f"error: cannot read the workspace {tmp_path / 'missing'}", "  why: No such file or directory"] == (
        done.err.splitlines()[:2]
    )


def test_a_workspace_of_torchx_is_not_used_here_and_ours_is(local: Cli, workspace: Path) -> None:
    (local.folder / ".torchxconfig").write_text(f"[cli:run]\nworkspace = {workspace}\n")
    script = ("run", "--", "sh", "-c", "ls; pwd")
    foreign = local(*script)
    (local.folder / "asyncsched.toml").write_text(f'[command.run]\nworkspace = "{workspace}"\n')
    ours = local(*script)

    assert f"sh/0 {local.folder}" in foreign.lines
    assert "local_cwd does not use the workspace of ./.torchxconfig:2; give --workspace" in foreign.err
    assert "sh/0 hello.txt" in ours.lines
