"""A group's monitor in the terminal of a program."""

from __future__ import annotations

import signal
import sys
import termios

import pytest

from tests.cli._cli import Cli
from tests.cli._terminal import Terminal

PROGRAM = """
import asyncio, signal, sys
from asyncsched import AppDef, Role, Runner

def job(number, script):
    return AppDef(f"job{number}", [Role("main", entrypoint="sh", args=["-c", script])])

if sys.argv[2:]:
    signal.signal(signal.SIGTERM, lambda *_: open("own", "w").close())

async def main():
    before = [signal.getsignal(number) for number in (signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)]
    async with Runner("me") as runner:
        async with runner.group("local_cwd", on_failure="continue", on_leave="cancel") as group:
            group.start(job(0, "echo hello; while ! test -e go; do sleep 0.05; done"))
            bad = group.start(job(1, "exit 1"), retries=1)
            try:
                async with asyncio.timeout(float(sys.argv[1]) if sys.argv[1:] and sys.argv[1] else None):
                    await group.monitor()
            except TimeoutError:
                print("timed out", flush=True)
            print("left", bad.state, len(bad.attempts), flush=True)
            if not group.jobs[0].state.is_terminal():
                await group.cancel()
    assert before == [signal.getsignal(number) for number in (signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)]

asyncio.run(main())
"""


class Program(Cli):
    """A program in place of a command."""

    def command(self, *args: str) -> list[str]:
        return [sys.executable, "-c", PROGRAM, *args]


def rows(terminal: Terminal) -> list[str]:
    """Return the first words of the table's rows."""
    return [line[2:].split()[0] for line in terminal.screen[3:-1] if line.strip()]


def test_it_leaves_by_itself_when_all_jobs_are_over(cli: Cli) -> None:
    with Terminal(Program(cli.folder), columns=110) as terminal:
        terminal.until(lambda screen: screen.shows("0/2 done, 1 failed, 1 running, 0 waiting"))
        # A job is one row, that of its last attempt.
        terminal.until(lambda screen: ["job0-0", "job1-1"] == sorted(rows(screen)))
        terminal.until(lambda screen: screen.shows("hello"))
        assert ["job0-0", "job1-1"] == sorted(rows(terminal))
        (cli.folder / "go").touch()
        assert 0 == terminal.end()
        assert "left FAILED 2" in terminal.written


def test_it_has_the_keys_of_any_monitor(cli: Cli) -> None:
    with Terminal(Program(cli.folder), columns=110) as terminal:
        terminal.until(lambda screen: screen.shows("0/2 done, 1 failed, 1 running, 0 waiting"))
        terminal.until(lambda screen: screen.shows("> job1") or screen.shows("> job0"))
        terminal.press("f")
        terminal.until(lambda screen: screen.shows("showing 1 of 2, failed only"))
        terminal.until(lambda screen: screen.screen[3].startswith("> job1-1 "))
        terminal.press("f/JOB0\r")
        terminal.until(lambda screen: screen.shows("showing 1 of 2, with 'JOB0'"))
        terminal.press(" ")
        terminal.until(lambda screen: screen.shows("the last 20 lines of job0-0") and screen.shows("main/0 | hello"))
        terminal.press("q\r")
        terminal.until(lambda screen: screen.shows("log of job0-0: 1 line"))
        terminal.press("q")
        terminal.until(lambda screen: not screen.shows("log of job0-0"))
        terminal.press("c")
        terminal.until(lambda screen: screen.shows("cancel job0-0?"))
        terminal.press("y")
        assert 0 == terminal.end(), "all are over now"
        assert "left FAILED 2" in terminal.written


def test_its_user_may_leave_it_and_interrupt_the_program(cli: Cli) -> None:
    with Terminal(Program(cli.folder), columns=110) as terminal:
        terminal.until(lambda screen: screen.shows("0/2 done, 1 failed, 1 running, 0 waiting"))
        terminal.press("q")
        assert 0 == terminal.end()
        assert "left FAILED 2" in terminal.written
    with Terminal(Program(cli.folder), columns=110) as terminal:
        terminal.until(lambda screen: screen.shows("0/2 done, 1 failed, 1 running, 0 waiting"))
        terminal.press("\x03")
        terminal.end()
        assert "KeyboardInterrupt" in terminal.written
        assert "\x1b[?1049l" in terminal.written


def test_a_program_that_cancels_it_gets_its_terminal_back(cli: Cli) -> None:
    with Terminal(Program(cli.folder), "3", columns=110) as terminal:
        assert 0 == terminal.end()
        assert "timed out" in terminal.written.rpartition("\x1b[?1049l")[2]
        assert terminal.settings == termios.tcgetattr(terminal._master)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_the_program_gives_the_terminal_back_first(cli: Cli, number: signal.Signals) -> None:
    with Terminal(Program(cli.folder), columns=110) as terminal:
        terminal.until(lambda screen: screen.shows("0/2 done, 1 failed, 1 running, 0 waiting"))
        terminal.process.send_signal(number)
        assert -number == terminal.end()
        assert all(each in terminal.written for each in ("\x1b[?1049l", "\x1b[?25h"))
        assert terminal.settings == termios.tcgetattr(terminal._master)


def test_a_signal_that_the_program_handles_is_its_own(cli: Cli) -> None:
    with Terminal(Program(cli.folder), "", "own", columns=110) as terminal:
        terminal.until(lambda screen: screen.shows("0/2 done, 1 failed, 1 running, 0 waiting"))
        terminal.process.send_signal(signal.SIGTERM)
        terminal.until(lambda _: (cli.folder / "own").exists())
        terminal.press("q")
        assert 0 == terminal.end()
