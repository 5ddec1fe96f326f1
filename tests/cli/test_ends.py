"""How apps are ended and waited for, and how runs end, at a terminal."""

from __future__ import annotations

import re
import select
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from asyncsched.cli.run_end import code_to_pass
from asyncsched.specs.state import AppState, AppStatus, ReplicaStatus, RoleStatus
from tests.cli._cli import Cli
from tests.cli._terminal import Terminal

pytestmark = pytest.mark.slow


def cancelled(cli: Cli) -> list[str]:
    file = Path(cli.env["STAGE_CANCELLED"])
    return file.read_text().split() if file.exists() else []


def test_cancel_tells_what_had_ended_already(staged: Cli) -> None:
    with Terminal(staged, "cancel", "stage://x/train-003", columns=100) as terminal:
        assert 0 == terminal.end()
        assert terminal.screen[0] == "stage://x/train-003: had already ended: FAILED"
        assert "had already ended: \x1b[1;38;5;196mFAILED\x1b[0m" in terminal.written
    rows = staged("cancel", "-o", "json", "train-00[45]").json

    assert {
        "train-004": ("cancel requested", "RUNNING"),
        "train-005": ("had already ended", "SUCCEEDED"),
    } == {row["app_id"]: (row["done"], row["state"]) for row in rows}
    assert ["train-004"] == cancelled(staged)


@pytest.mark.parametrize("columns", [60, 100, 160])
def test_cancel_asks_above_one(staged: Cli, columns: int) -> None:
    with Terminal(staged, "cancel", "train-*", columns=columns, lines=50) as terminal:
        terminal.until(lambda screen: screen.shows("cancel 24 apps? [y/N]"))
        assert terminal.screen[0].startswith("  stage://old/train-029  RUNNING")
        assert terminal.screen[5] == "  and 19 more"
        terminal.press("n\r")
        assert 130 == terminal.end()
        assert terminal.shows("nothing was done")
        assert max(map(len, terminal.screen)) <= columns
    assert [] == cancelled(staged)


@pytest.mark.parametrize("answer", ["y\r", "YES\r"])
def test_a_yes_ends_them(staged: Cli, answer: str) -> None:
    with Terminal(staged, "cancel", "train-00[012]", columns=100) as terminal:
        terminal.until(lambda screen: screen.shows("cancel 3 apps? [y/N]"))
        terminal.press(answer)
        assert 0 == terminal.end()
        assert terminal.shows("train-001: cancel requested")
    assert ["train-000", "train-001", "train-002"] == sorted(cancelled(staged))


@pytest.mark.parametrize("key", ["\x03", "\x04", "\r", "maybe\r"])
def test_anything_else_is_a_no(staged: Cli, key: str) -> None:
    with Terminal(staged, "cancel", "train-00[012]", columns=100) as terminal:
        terminal.until(lambda screen: screen.shows("[y/N]"))
        terminal.press(key)
        assert 130 == terminal.end()
        assert "Traceback" not in terminal.written
    assert [] == cancelled(staged)


@pytest.mark.parametrize("line", [["-y", "train-00[012]"], ["train-001"], ["train-00[35]"]])
def test_nothing_is_asked_of_who_has_said_so_or_names_one(staged: Cli, line: list[str]) -> None:
    with Terminal(staged, "cancel", *line) as terminal:
        assert 0 == terminal.end()
        assert "[y/N]" not in terminal.written


def test_a_script_is_asked_nothing(staged: Cli) -> None:
    assert 0 == staged("cancel", "train-00[012]").code
    assert 3 == len(cancelled(staged))


def test_delete_asks_above_one_too(staged: Cli) -> None:
    with Terminal(staged, "delete", "train-0[01]5", columns=100) as terminal:
        terminal.until(lambda screen: screen.shows("delete 2 apps? [y/N]"))
        terminal.press("y\r")
        assert 0 == terminal.end()
        assert terminal.shows("stage://old/train-005: deleted")


def test_cancel_may_wait_for_the_ends(staged: Cli) -> None:
    with Terminal(staged, "cancel", "--wait", "stage://x/train-001", columns=100) as terminal:
        assert 0 == terminal.end()
        assert terminal.shows("stage://x/train-001: cancel requested")
        assert terminal.shows("stage://x/train-001  CANCELLED")
    rows = staged("cancel", "-y", "--wait", "-o", "jsonl", "train-00[12]").jsonl

    assert ["CANCELLED", "CANCELLED"] == [row["state"] for row in rows]


@pytest.mark.parametrize("columns", [60, 100, 160])
def test_wait_shows_how_it_gets_on(staged: Cli, columns: int) -> None:
    with Terminal(staged, "wait", "train-00*", columns=columns, lines=40) as terminal:
        terminal.until(lambda screen: screen.shows("2 of 10 ended, 1 FAILED, 8 RUNNING: "))
        assert terminal.shows("stage://old/train-005  SUCCEEDED")
        assert "stage://old/train-003  \x1b[1;38;5;196mFAILED\x1b[0m" in terminal.written
        terminal.until(lambda screen: any(re.search(r"8 RUNNING: [1-9]\d* s", line) for line in screen.screen))
        assert max(map(len, terminal.screen)) <= columns
        terminal.press("\x03")
        assert 130 == terminal.end()
        assert terminal.shows("8 apps are still running")
        assert terminal.shows("  resume: asyncsched wait 'train-00*'")
        assert terminal.shows("  stop:   asyncsched cancel 'train-00*'")
        assert not terminal.shows("of 10 ended")
        assert "Traceback" not in terminal.written


def test_a_watched_status_says_what_runs_on(staged: Cli) -> None:
    with Terminal(staged, "status", "-w", "stage://x/train-001", columns=100) as terminal:
        terminal.until(lambda screen: screen.shows("stage://x/train-001  RUNNING"))
        terminal.press("\x03")
        assert 130 == terminal.end()
        assert terminal.shows("train-001 is still running")
        assert terminal.shows("  resume: asyncsched status -w stage://x/train-001")


def test_wait_for_one_shows_its_state(staged: Cli) -> None:
    with Terminal(staged, "wait", "stage://x/train-001", columns=100) as terminal:
        terminal.until(lambda screen: screen.shows("waiting for train-001, RUNNING: "))
        terminal.press("\x03")
        assert 130 == terminal.end()
        assert terminal.screen[0] == "train-001 is still running"
        assert terminal.screen[1] == "  resume: asyncsched wait stage://x/train-001"


def test_a_pipe_gets_no_progress(staged: Cli) -> None:
    waiting = staged.start("wait", "stage://x/train-001", "stage://x/train-003")
    assert waiting.stdout is not None
    assert waiting.stderr is not None
    assert "stage://x/train-003  FAILED  exited with code 1\n" == waiting.stdout.readline()
    assert ([], [], []) == select.select([waiting.stderr], [], [], 1.5)  # a terminal has it anew each second
    waiting.send_signal(signal.SIGINT)
    out, err = waiting.communicate(timeout=60)

    assert ("", 130) == (out, waiting.returncode)
    assert [
        "train-001 is still running",
        "  resume: asyncsched wait stage://x/train-001",
        "  stop:   asyncsched cancel stage://x/train-001",
    ] == err.splitlines()


def test_ctrl_c_in_a_followed_log_says_what_runs_on(staged: Cli) -> None:
    with Terminal(staged, "log", "-f", "train-00[1-5]", columns=100) as terminal:
        terminal.until(lambda screen: screen.shows("hello from the stage"))
        terminal.press("\x03")
        assert 130 == terminal.end()
        assert terminal.shows("3 apps are still running")  # two of the five have ended
        (line,) = [line for line in terminal.screen if line.startswith("  resume: ")]
        assert 3 == line.count("stage://old/train-00")
    with Terminal(staged, "log", "-f", "train-00*", columns=100) as terminal:
        terminal.until(lambda screen: screen.shows("hello from the stage"))
        terminal.press("\x03")
        assert 130 == terminal.end()
        assert terminal.shows("  resume: asyncsched log -f 'train-00*'")


def test_the_end_of_a_run_counts_and_is_red(cli: Cli) -> None:
    line = ("run", "--replicas", "4", "--", "sh", "-c", "[ ${replica_id} = 2 ] || exit 7")
    with Terminal(cli, *line, columns=100) as terminal:
        assert 1 == terminal.end()
        assert re.search(
            r"sh-\w+ \x1b\[1;38;5;196mFAILED\x1b\[0m after [\d.]+ s: 3 of 4 failed: exit code 7", terminal.written
        )
    with Terminal(cli, "run", "--no-color", *line[1:], columns=60) as terminal:
        assert 1 == terminal.end()
        assert "FAILED after" in terminal.written
        assert "\x1b" not in terminal.written


def test_a_run_may_end_with_the_exit_code_of_its_program(cli: Cli) -> None:
    run = ("run", "-s", "stage", "--pass-exit-code")  # it waits, too
    for script, code in (("exit 7", 7), ("exit 0", 0)):
        with Terminal(cli, *run, "utils.sh", script, columns=100) as terminal:
            assert code == terminal.end()
    cli.schedulers = ["local_cwd"]
    assert 128 + 9 == cli("run", "--pass-exit-code", "--", "sh", "-c", "kill -9 $$").code
    assert 1 == cli("run", "--", "sh", "-c", "exit 7").code
    for wrong in ("--detach", "--dryrun"):
        assert "--pass-exit-code waits for the end" in cli("run", "--pass-exit-code", wrong, "utils.echo").err
    assert "leave out --pass-exit-code" in cli("run", "--pass-exit-code", "--matrix", "msg=a", "utils.echo").err


def status(*replicas: Mapping[str, Any], state: AppState = AppState.FAILED) -> AppStatus:
    made = [
        ReplicaStatus(id=number, role="r", hostname="", **{"state": AppState.FAILED, **each})
        for number, each in enumerate(replicas)
    ]
    return AppStatus(state, msg="r/0: told", roles=[RoleStatus("r", made)])


def test_which_exit_code_is_passed() -> None:
    assert 7 == code_to_pass(status({"exit_code": 7}))
    assert 139 == code_to_pass(status({"signal": 11}))
    assert 137 == code_to_pass(status({"exit_code": -9}))
    assert 1 == code_to_pass(status({"reason": "no image"}))
    assert 1 == code_to_pass(status({"exit_code": 256}))
    assert 3 == code_to_pass(status({"exit_code": 3}, {"state": AppState.SUCCEEDED}))
    assert 3 == code_to_pass(status(state=AppState.CANCELLED))
    assert 0 == code_to_pass(status(state=AppState.SUCCEEDED))
    assert 4 == code_to_pass(None)
