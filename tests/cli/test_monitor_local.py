"""The monitor in a real terminal, over processes that run."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.cli._cli import Cli
from tests.cli._terminal import Terminal

LAUNCH = """
import asyncio, json, sys
from asyncsched import AppDef, Role, Runner

async def main():
    async with Runner("me") as runner:
        script, settings = sys.argv[1], json.loads(sys.argv[2])
        role = Role("main", entrypoint="sh", args=["-c", script, "${replica_id}"], **settings)
        print(await runner.run(AppDef("job", [role]), "local_cwd", {"detach": True}))

asyncio.run(main())
"""


@pytest.fixture
def local(cli: Cli) -> Iterator[Cli]:
    """The command line, with processes of this machine alone, which are ended behind each test."""
    cli.schedulers = ["local_cwd"]
    yield cli
    ended = cli("cancel", "-y", "--wait", "job*")
    assert 0 == ended.code, ended.err


def launch(local: Cli, script: str, **settings: object) -> str:
    """Start a script that runs on; return its id."""
    command = [sys.executable, "-c", LAUNCH, script, json.dumps(settings)]
    done = subprocess.run(command, cwd=local.folder, env=local.env, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr
    return done.stdout.strip().rpartition("/")[2]


def test_scrolled_back_the_log_counts_what_comes_and_stands_still(local: Cli) -> None:
    go_on = "for n in $(seq 100); do echo old $n; done; until test -e go; do sleep 0.05; done"
    launch(local, f"{go_on}; for n in $(seq 214); do echo more $n; done; sleep 3600")
    with Terminal(local, "monitor", columns=90, lines=24) as terminal:
        terminal.until(lambda screen: screen.shows("1 app: 1 running"))
        terminal.press("\r")
        terminal.until(lambda screen: screen.shows("log of job: 100 lines") and screen.shows("main/0 | old 100"))
        terminal.press("\x1b[A")
        terminal.until(lambda screen: screen.shows("old 99") and not screen.shows("old 100"))
        (local.folder / "go").touch()
        terminal.until(lambda screen: screen.shows("log of job: 314 lines, +214 new"))
        assert terminal.shows("main/0 | old 99")
        assert not terminal.shows("main/0 | more")
        terminal.press("G")
        terminal.until(lambda screen: screen.shows("more 214") and not screen.shows(", +"))
        terminal.press("g")
        terminal.until(lambda screen: screen.shows("main/0 | old 1 ") or screen.shows("main/0 | old 2"))
        terminal.press("q")
        terminal.until(lambda screen: not screen.shows("log of"))
        terminal.press("q")
        assert 0 == terminal.end()


def test_the_log_is_searched_to_and_fro(local: Cli) -> None:
    launch(local, "for n in $(seq 60); do echo step $n; done; sleep 3600")
    with Terminal(local, "monitor", columns=90, lines=24) as terminal:
        terminal.until(lambda screen: screen.shows("1 app: 1 running"))
        terminal.press("\r")
        terminal.until(lambda screen: screen.shows("60 lines"))
        terminal.press("/STEP 1\r")
        for keys, told in (("", "11/11"), ("N", "10/11"), ("n", "11/11"), ("n", "1/11"), ("N", "11/11")):
            terminal.press(keys)
            terminal.until(lambda screen, told=told: screen.shows(f"'step 1' {told}"))  # type: ignore[misc]
        terminal.press("/nowhere\r")
        terminal.until(lambda screen: screen.shows("'nowhere' is not found"))
        terminal.press("\x03")
        assert 130 == terminal.end()


def test_equal_replicas_are_one_row_and_the_one_that_failed_is_peeked_at(local: Cli) -> None:
    launch(local, "echo here is $0; test $0 != 3 || exit 7; sleep 3600", num_replicas=12)
    with Terminal(local, "monitor", columns=90, lines=20) as terminal:
        terminal.until(lambda screen: screen.shows("0/1/12"))
        terminal.press("x")
        terminal.until(lambda screen: screen.shows("main/0-2,4-11"))
        terminal.until(lambda screen: re.search(r"main/3 +FAILED +1 x +exit code 7", screen.screen[4]))
        terminal.until(lambda screen: re.search(r"main/0-2,4-11 +RUNNING +11 x", screen.screen[5]))
        terminal.until(lambda screen: not screen.screen[6].strip())
        terminal.press("x")
        terminal.until(lambda screen: not screen.shows("main/0-2"))
        terminal.press(" ")
        terminal.until(lambda screen: screen.shows("the last 20 lines of job") and screen.shows("main/3 | here is 3"))
        assert not terminal.shows("here is 4")
        terminal.press("\x03")
        assert 130 == terminal.end()


def test_it_describes_without_secrets(local: Cli) -> None:
    launch(local, "echo hello; sleep 3600", env={"API_TOKEN": "hunter2", "PLACE": "here"})
    with Terminal(local, "monitor", columns=90, lines=40) as terminal:
        terminal.until(lambda screen: screen.shows("1 app: 1 running"))
        terminal.press("d")
        terminal.until(lambda screen: screen.shows("definition of job"))
        terminal.until(lambda screen: screen.shows("PLACE: here") and screen.shows("API_TOKEN: '***'"))
        assert "hunter2" not in terminal.written
        terminal.press("\x1b")
        terminal.until(lambda screen: not screen.shows("definition of"))
        terminal.process.send_signal(signal.SIGTERM)
        assert 143 == terminal.end()


def test_a_long_line_is_read_to_its_end_and_the_log_gets_the_whole_screen(local: Cli) -> None:
    launch(local, "printf 'begin%0150dend\\n' 0; sleep 3600")
    with Terminal(local, "monitor", columns=90, lines=24) as terminal:
        terminal.until(lambda screen: screen.shows("1 app: 1 running"))
        terminal.press("\r")
        terminal.until(lambda screen: screen.shows("main/0 | begin"))
        terminal.press("\x1b[C" * 5)
        terminal.until(lambda screen: screen.shows("from column 101") and screen.shows("0end"))
        assert terminal.shows("DONE/FAILED/OF")
        terminal.press("z")
        terminal.until(lambda screen: not screen.shows("DONE/FAILED/OF"))
        terminal.press("z")
        terminal.until(lambda screen: screen.shows("DONE/FAILED/OF"))
        terminal.press("q ")
        terminal.until(lambda screen: screen.shows("the last 20 lines") and screen.shows("0end"))
        terminal.press("\x03")
        assert 130 == terminal.end()
