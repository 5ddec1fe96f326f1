"""The monitor in a real terminal."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import termios
from collections import Counter

import pytest

from tests.cli._cli import Cli
from tests.cli._terminal import WITHIN, Terminal

LEFT = ("\x1b[?1049l", "\x1b[?25h")
"""What gives a terminal back: its own screen, and the cursor."""


@pytest.fixture
def many(cli: Cli) -> Cli:
    cli.environment["STAGE_APPS"] = "500"
    return cli


def is_left(terminal: Terminal) -> bool:
    return all(each in terminal.written for each in LEFT)


def lines(terminal: Terminal) -> list[str]:
    """The lines of the table."""
    return [line.rstrip() for line in terminal.screen[3:-1] if line.strip()]


def test_it_shows_what_needs_attention_first(many: Cli) -> None:
    with Terminal(many, "monitor", "train-*", columns=100, lines=20) as terminal:
        terminal.until(lambda screen: screen.shows("500 apps: 50 succeeded, 50 failed, 400 running"))
        terminal.until(lambda screen: screen.shows("exited with code 1: hello from the stage"))

        assert re.match(r"> train-\d\d3 +FAILED +0/1/1 ", lines(terminal)[0])
        assert terminal.shows("showing 500 of 500, by attention")
        terminal.press("q")
        assert 0 == terminal.end()
        assert is_left(terminal)
    assert not (many.folder / "cancelled").exists()


def test_what_had_ended_before_is_shown_when_it_is_asked_for(staged: Cli) -> None:
    for options, told in ((), "24 apps: 24 running"), (("-a",), "30 apps: 3 succeeded, 3 failed, 24 running"):
        with Terminal(staged, "monitor", *options, columns=100) as terminal:
            terminal.until(lambda screen, told=told: screen.shows(told))  # type: ignore[misc]  # bound now
            terminal.press("q")
            assert 0 == terminal.end()


def test_it_stays_when_nothing_runs(cli: Cli) -> None:
    with Terminal(cli, "monitor", columns=100) as terminal:
        terminal.until(lambda screen: screen.shows("no apps"))
        terminal.until(lambda screen: screen.shows("q leave"))
        assert terminal.process.poll() is None
        terminal.press("q")
        assert 0 == terminal.end()


def test_forty_columns_are_enough(staged: Cli) -> None:
    with Terminal(staged, "monitor", "train-*", columns=40, lines=10) as terminal:
        terminal.until(lambda screen: screen.shows("train-003"))
        assert max(map(len, terminal.screen)) <= 40
        terminal.press("q")
        assert 0 == terminal.end()


def test_filter_sort_and_failed_only(staged: Cli) -> None:
    with Terminal(staged, "monitor", "-a", columns=100, lines=20) as terminal:
        terminal.until(lambda screen: screen.shows("3 failed"))
        terminal.press("/train-01")
        terminal.until(lambda screen: screen.shows("showing 10 of 30, with 'train-01'"))
        terminal.press("\r")
        terminal.press("f")
        terminal.until(lambda screen: screen.shows("showing 1 of 30, failed only, with 'train-01'"))
        assert terminal.shows("30 apps: 3 succeeded, 3 failed, 24 running"), "the totals stay those of all"
        assert lines(terminal)[0].startswith("> train-013")
        terminal.press("fss")
        terminal.until(lambda screen: screen.shows("with 'train-01', by name"))
        assert sorted(line[2:] for line in lines(terminal)) == [line[2:] for line in lines(terminal)]
        terminal.press("q")
        assert 0 == terminal.end()


def test_states_take_turns(staged: Cli) -> None:
    with Terminal(staged, "monitor", "-a", columns=100, lines=40) as terminal:
        terminal.until(lambda screen: screen.shows("30 apps: 3 succeeded, 3 failed, 24 running"))
        terminal.until(lambda screen: 30 == len(lines(screen)))
        for state, count in (("failed", 3), ("running", 24), ("waiting", 0), ("succeeded", 3), ("cancelled", 0)):
            terminal.press("t")
            terminal.until(
                lambda screen, told=f"showing {count} of 30, {state} only": screen.shows(told)  # type: ignore[misc]
            )
            terminal.until(lambda screen, count=count: count == len(lines(screen)))  # type: ignore[misc]
            terminal.until(
                lambda screen, state=state: all(state.upper() in line for line in lines(screen))  # type: ignore[misc]
            )
            assert terminal.shows("30 apps: 3 succeeded, 3 failed, 24 running")
        terminal.press("\x1b")
        terminal.until(lambda screen: screen.shows("showing 30 of 30, by attention"))
        terminal.press("q")
        assert 0 == terminal.end()


def test_marked_apps_are_cancelled_and_the_app_under_the_cursor_is_peeked_at(many: Cli) -> None:
    with Terminal(many, "monitor", "--no-color", columns=110, lines=16) as terminal:
        terminal.until(lambda screen: screen.shows("400 apps: 400 running"))
        terminal.press("mm")
        terminal.until(lambda screen: screen.shows("2 marked"))
        marked = [line[2:].split()[0] for line in lines(terminal) if line[1] == "*"]
        terminal.press("c")
        terminal.until(lambda screen: screen.shows("cancel 2 apps?"))
        terminal.press("n")
        terminal.until(lambda screen: not screen.shows("cancel 2 apps?"))
        terminal.press("c")
        terminal.until(lambda screen: screen.shows("cancel 2 apps?"))
        terminal.press("y")
        terminal.until(lambda screen: screen.shows("398 running") and screen.shows("2 cancelled"))
        assert {*marked} == {*(many.folder / "cancelled").read_text().split()}
        terminal.press(" ")
        terminal.until(lambda screen: screen.shows("the last 20 lines"))
        terminal.until(lambda screen: screen.shows("main/0 | hello from the stage"))
        terminal.press("q?")
        terminal.until(lambda screen: screen.shows("show only failed apps"))
        terminal.press("\x03")
        assert 130 == terminal.end()
        assert is_left(terminal)
        assert "Traceback" not in terminal.written


def test_a_log_is_read_and_searched(cli: Cli) -> None:
    cli.environment |= {"STAGE_APPS": "2", "STAGE_SAYS": "\n".join(f"loss {number}" for number in range(50))}
    with Terminal(cli, "monitor", columns=100, lines=24) as terminal:
        terminal.until(lambda screen: screen.shows("2 apps: 2 running"))
        terminal.press("\r")
        terminal.until(lambda screen: screen.shows(": 50 lines"))
        terminal.until(lambda screen: screen.shows("loss 49"))
        terminal.press("/loss 1\r")
        terminal.until(lambda screen: screen.shows("'loss 1' 11/11"))
        terminal.press("N")
        terminal.until(lambda screen: screen.shows("'loss 1' 10/11"))
        terminal.press("q")
        terminal.until(lambda screen: not screen.shows("── log of"))
        terminal.press("q")
        assert 0 == terminal.end()


def test_an_attempt_is_chosen(cli: Cli) -> None:
    cli.environment |= {"STAGE_APPS": "1", "STAGE_SAYS": "a try", "STAGE_AGAIN": "another try"}
    with Terminal(cli, "monitor", columns=90, lines=20) as terminal:
        terminal.until(lambda screen: screen.shows("1 app: 1 running"))
        terminal.press("\r")
        terminal.until(lambda screen: screen.shows("log of train: 4 lines"))
        for number, shown in ((0, ["a try"]), (1, ["another try", "a try", "a try"])):
            terminal.press("a")
            told = f"log of train, attempt {number}: {len(shown)} line"
            terminal.until(lambda screen, told=told: screen.shows(told))  # type: ignore[misc]  # bound now
            written = [f"main/0 | {text}" for text in shown]
            terminal.until(
                lambda screen, written=written: (  # type: ignore[misc]
                    written == [line.rstrip() for line in screen.screen if "main/0" in line]
                )
            )
        terminal.press("a")
        terminal.until(lambda screen: screen.shows("log of train: 4 lines"))
        terminal.press("\x03")
        assert 130 == terminal.end()


def test_it_follows_its_terminals_size(many: Cli) -> None:
    with Terminal(many, "monitor", columns=100, lines=30) as terminal:
        terminal.until(lambda screen: screen.shows("400 running"))
        terminal.resize(30, 8)
        terminal.until(lambda screen: screen.screen[7].startswith("? help  q leave  / filter"))
        terminal.resize(90, 12)
        terminal.until(lambda screen: screen.screen[11].rstrip().endswith("m mark  c cancel"))
        terminal.press("q")
        assert 0 == terminal.end()


def test_it_is_drawn_again_when_it_goes_on_after_a_stop(many: Cli) -> None:
    with Terminal(many, "monitor", "train-*", columns=100, lines=20) as terminal:
        terminal.until(lambda screen: screen.shows("exited with code 1: hello from the stage"))
        before = lines(terminal)
        terminal.press("\x1a")
        terminal.until(lambda _: os.waitid(os.P_PID, terminal.process.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT))
        terminal.until(is_left)
        terminal.resize(100, 20)  # what the shell has written is all that is there
        os.kill(terminal.process.pid, signal.SIGCONT)
        terminal.until(lambda screen: screen.shows("showing 500 of 500, by attention"))
        terminal.until(lambda screen: len(lines(screen)) == len(before))
        assert terminal.shows("q leave")
        terminal.press("q")
        assert 0 == terminal.end()


def test_only_what_has_changed_is_written(many: Cli) -> None:
    many.environment["STAGE_AGE"] = "90000"  # a day and an hour: no age grows while this runs
    with Terminal(many, "monitor", columns=100, lines=20) as terminal:
        terminal.until(lambda screen: screen.shows("400 running") and 16 == len(lines(screen)))
        terminal.until(lambda screen: all("hello" in line and " 1d " in line for line in lines(screen)))
        _move_down(terminal, 4)  # behind what was still on its way
        before = len(terminal.written)
        for row in range(5, 13):
            _move_down(terminal, row)

        written = re.findall(r"train-\d{3}", terminal.written[before:])
        assert max(Counter(written).values()) <= 2, "each line when the cursor comes to it and when it goes"
        assert len(written) <= 8 * 2 + 1, "a read may have ended within the line before"
        terminal.press("q")
        assert 0 == terminal.end()


def test_bytes_that_are_no_text_are_no_keys(many: Cli) -> None:
    with Terminal(many, "monitor", columns=100, lines=20) as terminal:
        terminal.until(lambda screen: screen.shows("400 running") and screen.screen[3].startswith(">"))
        os.write(terminal._master, b"\xff")
        # What is read together with that byte is lost: until a key arrives.
        terminal.until(_moves)
        assert terminal.process.poll() is None
        assert "Traceback" not in terminal.written


def _moves(terminal: Terminal) -> bool:
    terminal.press("j")
    return not terminal.screen[3].startswith(">")


def _move_down(terminal: Terminal, row: int) -> None:
    terminal.press("j")
    terminal.until(lambda screen: screen.screen[row].startswith(">") and not screen.screen[row - 1].startswith(">"))


def test_its_exit_code_tells_of_a_scheduler_that_is_away(broken: Cli) -> None:
    broken.schedulers = ["stage", "down"]
    for line in (["train-*"], ["stage://x/train-001", "down://x/y"]):
        with Terminal(broken, "monitor", *line, columns=120, lines=40) as terminal:
            terminal.until(lambda screen: screen.screen[-1].startswith("error: cannot reach the cluster"))
            terminal.until(lambda screen: screen.shows("train-001"))
            terminal.press("q")
            assert 5 == terminal.end()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
def test_a_signal_gives_the_terminal_back_and_ends_no_app(many: Cli, number: signal.Signals, code: int) -> None:
    with Terminal(many, "monitor", columns=100) as terminal:
        before = termios.tcgetattr(terminal._master)
        terminal.until(lambda screen: screen.shows("400 running"))
        assert before != termios.tcgetattr(terminal._master)
        terminal.process.send_signal(number)
        assert code == terminal.end()

        assert is_left(terminal)
        assert before == termios.tcgetattr(terminal._master)
        assert "Traceback" not in terminal.written
    assert not (many.folder / "cancelled").exists()


class Deaf(Cli):
    """A command line that the end of its terminal does not kill, as below `nohup`."""

    def command(self, *args: str) -> list[str]:
        return ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *super().command(*args)]


@pytest.mark.parametrize("kind", [Cli, Deaf])
def test_it_ends_when_its_terminal_goes(many: Cli, kind: type[Cli]) -> None:
    with Terminal(kind(many.folder, many.environment), "monitor", lines=12) as terminal:
        terminal.until(lambda screen: screen.shows("400 running"))
        terminal.hang_up()

        assert 129 == terminal.process.wait(WITHIN)
    assert not (many.folder / "cancelled").exists()


def test_it_ends_when_it_cannot_draw(many: Cli) -> None:
    keyboard, keys = pty.openpty()
    try:
        with Terminal(Deaf(many.folder, many.environment), "monitor", lines=12, stdin=keys) as terminal:
            terminal.until(lambda screen: screen.shows("400 running"))
            terminal.hang_up()

            assert 129 == terminal.process.wait(WITHIN)
    finally:
        os.close(keyboard)
        os.close(keys)


def test_where_keys_are_no_terminals_changes_are_lines(staged: Cli) -> None:
    with Terminal(staged, "monitor", "stage://x/train-003", stdin=subprocess.DEVNULL, columns=110) as terminal:
        assert 1 == terminal.end()
        assert terminal.shows("stage://x/train-003  FAILED")
        assert terminal.shows("note: this is not a terminal, so each change is printed as a line")


def test_a_fault_gives_the_terminal_back_and_is_told(staged: Cli) -> None:
    faulty = staged.folder / "faulty"
    faulty.mkdir()
    (faulty / "sitecustomize.py").write_text(
        "from asyncsched.views.live_table import LiveTable\nLiveTable.toggle_mark = lambda self: 1 // 0\n"
    )
    staged.plugins.insert(0, faulty)
    with Terminal(staged, "monitor", columns=110) as terminal:
        terminal.until(lambda screen: screen.shows("24 running"))
        terminal.press("m")
        assert 70 == terminal.end()
        after = terminal.written.rpartition(LEFT[0])[2]
        assert "error: ZeroDivisionError" in after
        assert "this is a bug in asyncsched" in after
        assert "Traceback" not in after


def test_without_textual_changes_are_lines_and_a_hint(staged: Cli) -> None:
    without = staged.folder / "without"
    without.mkdir()
    (without / "sitecustomize.py").write_text(
        "import importlib.util\nfind = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *more: None if name == 'textual' else find(name, *more)\n"
    )
    staged.plugins.insert(0, without)
    with Terminal(staged, "monitor", "stage://x/train-003", columns=110) as terminal:
        assert 1 == terminal.end()
        assert terminal.shows("stage://x/train-003  FAILED")
        assert terminal.shows(
            "note: each change is printed as a line; `pip install 'asyncsched[tui]'` adds a live table"
        )


def test_textual_is_imported_by_no_other_verb(staged: Cli) -> None:
    code = "import sys, asyncsched.cli.main as m\ntry: m.main(sys.argv[1:])\nexcept SystemExit: pass\n"
    code += "assert 'textual' not in sys.modules and 'rich' not in sys.modules"
    for line in (["list"], ["monitor", "-o", "json", "stage://x/train-003"], ["monitor", "--help"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *line], env=staged.env, capture_output=True, text=True, check=False
        )
        assert 0 == done.returncode, done.stderr
