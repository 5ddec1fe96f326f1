"""The command line in a terminal: colours, narrow windows, and the monitor."""

from __future__ import annotations

import os
import pty
import subprocess

import pytest

from tests.cli._cli import Cli
from tests.cli._terminal import WITHIN, Terminal


@pytest.fixture
def many(cli: Cli) -> Cli:
    cli.environment["STAGE_APPS"] = "500"
    return cli


def test_replicas_have_colours_unless_somebody_says_no(cli: Cli) -> None:
    line = ("run", "-s", "stage", "--log", "--replicas", "2", "--", "sh", "-c", "echo hi")
    with Terminal(cli, *line) as terminal:
        assert 0 == terminal.end()
        assert "\x1b[38;5;30msh/0\x1b[0m \x1b[38;5;30m|\x1b[0m hi" in terminal.written
        assert "\x1b[38;5;130msh/1\x1b[0m \x1b[38;5;130m|\x1b[0m hi" in terminal.written
    with Terminal(cli, "run", "--no-color", *line[1:]) as terminal:
        assert 0 == terminal.end()
        assert "sh/0 | hi" in terminal.written
        assert "\x1b" not in terminal.written
    cli.environment["NO_COLOR"] = "1"
    with Terminal(cli, *line) as terminal:
        assert 0 == terminal.end()
        assert "\x1b" not in terminal.written


@pytest.mark.slow
def test_forty_columns_are_enough(staged: Cli) -> None:
    for line in (["list"], ["status", "train-*"], ["builtins"], ["builtins", "utils.sh"], ["doctor"]):
        with Terminal(staged, *line, columns=40, lines=400) as terminal:
            terminal.end()
            assert 2 <= len([text for text in terminal.screen if text])
            assert max(map(len, terminal.screen)) <= 40, line
    with Terminal(staged, "monitor", "train-*", columns=40, lines=10) as terminal:
        terminal.until(lambda screen: screen.shows("train-003"))
        assert max(map(len, terminal.screen)) <= 40
        terminal.press("q")
        assert 0 == terminal.end()


def test_the_monitor_shows_what_needs_attention_first(many: Cli) -> None:
    with Terminal(many, "monitor", "train-*", lines=20) as terminal:
        terminal.until(lambda screen: screen.shows("500 apps: 50 FAILED, 400 RUNNING, 50 SUCCEEDED"))
        terminal.until(lambda screen: "FAILED" in screen.screen[2])

        assert terminal.screen[2].startswith("> FAILED     1/1       train-")
        assert "main/0: exited with code 1" in terminal.screen[2]
        assert "enter log  c cancel  q leave" == terminal.screen[19]
        terminal.press("q")
        assert 0 == terminal.end()
        assert terminal.written.endswith("\x1b[?25h\x1b[?1049l")
    assert not (many.folder / "cancelled").exists()


def test_keys_that_come_at_once_are_keys_all_the_same(many: Cli) -> None:
    with Terminal(many, "monitor", "--no-color", lines=12) as terminal:
        terminal.until(lambda screen: screen.shows("400 apps: 400 RUNNING"))  # what comes later moves the rows
        terminal.until(lambda screen: screen.screen[2].startswith("> RUNNING"))
        terminal.press("\x1b[B\x1b[B\x1bOB\x1b[Ajj\x1b[1;5C")
        terminal.until(lambda screen: screen.screen[6].startswith("> RUNNING"))
        terminal.press("q")
        assert 0 == terminal.end()


def test_a_monitor_whose_keys_are_no_terminals_prints_changes(staged: Cli) -> None:
    with Terminal(staged, "monitor", "stage://x/train-003", stdin=subprocess.DEVNULL) as terminal:
        assert 1 == terminal.end()
        assert terminal.shows("stage://x/train-003  FAILED")


def test_the_monitors_exit_code_tells_of_a_scheduler_that_is_away(broken: Cli) -> None:
    broken.schedulers = ["stage", "down"]
    for line in (["train-*"], ["stage://x/train-001", "down://x/y"]):
        with Terminal(broken, "monitor", *line, columns=120) as terminal:
            terminal.until(lambda screen: screen.screen[-1].startswith("error: cannot reach the cluster"))
            terminal.until(lambda screen: screen.shows("train-001"))
            # What is logged does not write over the screen: a warning stands in the last row, until the error is known.
            assert terminal.written.count("warning: ") == terminal.written.count("\x1b[24;1Hwarning: ")
            terminal.press("q")
            assert 5 == terminal.end()


def test_the_monitor_writes_what_is_visible_and_has_changed(many: Cli) -> None:
    with Terminal(many, "monitor", lines=20) as terminal:
        terminal.until(lambda screen: screen.shows("400 apps: 400 RUNNING"))
        terminal.until(lambda screen: screen.screen[2].startswith(">"))
        before = len(terminal.written)
        terminal.press("j")
        terminal.until(lambda screen: screen.screen[3].startswith(">"))

        assert len(terminal.written) - before < 300
        terminal.press("q")
        assert 0 == terminal.end()


def test_the_monitor_follows_its_terminals_size(many: Cli) -> None:
    with Terminal(many, "monitor", columns=100, lines=30) as terminal:
        terminal.until(lambda screen: screen.shows("400 RUNNING"))
        terminal.resize(30, 6)
        terminal.until(lambda screen: screen.screen[5].startswith("enter log"))

        assert max(map(len, terminal.screen)) <= 30
        terminal.resize(90, 12)
        terminal.until(lambda screen: screen.screen[11] == "enter log  c cancel  q leave")
        terminal.press("q")
        assert 0 == terminal.end()


class Deaf(Cli):
    """A command line that the end of its terminal does not kill, as below `nohup`."""

    def command(self, *args: str) -> list[str]:
        return ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *super().command(*args)]


@pytest.fixture
def deaf(many: Cli) -> Cli:
    return Deaf(many.folder, many.environment)


def test_the_monitor_ends_when_its_terminal_goes(deaf: Cli) -> None:
    with Terminal(deaf, "monitor", lines=12) as terminal:
        terminal.until(lambda screen: screen.shows("400 RUNNING"))
        terminal.hang_up()

        assert 2 == terminal.process.wait(WITHIN)


def test_the_monitor_ends_when_it_cannot_draw(deaf: Cli) -> None:
    keyboard, keys = pty.openpty()
    try:
        with Terminal(deaf, "monitor", lines=12, stdin=keys) as terminal:
            terminal.until(lambda screen: screen.shows("400 RUNNING"))
            terminal.hang_up()
            os.write(keyboard, b"j")

            assert 2 == terminal.process.wait(WITHIN)
    finally:
        os.close(keyboard)
        os.close(keys)


def test_keys_of_the_monitor(many: Cli) -> None:
    with Terminal(many, "monitor", "--no-color", lines=12) as terminal:
        terminal.until(lambda screen: screen.shows("400 apps: 400 RUNNING"))  # what comes later moves the rows
        terminal.until(lambda screen: screen.screen[2].startswith("> RUNNING"))
        terminal.press("\x1b[B")
        terminal.until(lambda screen: screen.screen[3].startswith("> RUNNING"))
        chosen = terminal.screen[3].split()[-1]
        terminal.press("c")
        terminal.until(lambda screen: screen.shows(f"cancel {chosen}? y/n"))
        terminal.press("n")
        terminal.until(lambda screen: screen.shows("q leave"))
        terminal.press("c")
        terminal.until(lambda screen: screen.shows(f"cancel {chosen}? y/n"))
        terminal.press("y")
        terminal.until(lambda screen: screen.shows("399 RUNNING, 1 CANCELLED"))
        assert f"{chosen}\n" == (many.folder / "cancelled").read_text()
        terminal.press("k\r")
        terminal.until(lambda screen: screen.shows("hello from the stage"))
        assert terminal.shows("; q returns")
        terminal.press("q")
        terminal.until(lambda screen: screen.shows("399 RUNNING, 1 CANCELLED"))
        terminal.press("\x03")
        assert 130 == terminal.end()
        assert "Traceback" not in terminal.written
