"""What a terminal gets to see of control sequences in names, messages and logs."""

from __future__ import annotations

import json
import re
import shlex

import pytest

from tests.cli._cli import Cli
from tests.cli._terminal import Terminal

TITLE = "\x1b]0;PWNED\x07"
EVIL = f"n{TITLE}\x1b[2J\x9b2J"
SHOWN = r"n\x1b]0;PWNED\x07\x1b[2J\x9b2J"
OUTPUT = f"a{TITLE}\x1b[2J\x1b[31mred\x1b[?1049h\x1b[1A\x1b]52;c;QQ==\x1b\\"


@pytest.fixture
def evil(cli: Cli) -> Cli:
    cli.environment |= {"STAGE_APPS": "12", "STAGE_NAME": EVIL, "STAGE_ROLE": EVIL, "STAGE_REASON": EVIL}
    cli.environment["STAGE_REPLICAS"] = "7"  # of several, those that failed are named
    return cli


@pytest.mark.parametrize(
    "command",
    [
        "list",
        "status train-003",
        "status train-*",
        "status --watch train-003 train-013",
        "describe train-003",
        "log train-003",
        "wait train-003",
        f"status {EVIL}",
        f"delete -s {EVIL} x",
        f"run {EVIL}",
        f"run ./{EVIL}.py",
        f"run --replicas 2 {EVIL}",
        f"{EVIL}",
        "list -o json",
        "status -o jsonl train-003",
        "--debug status train-003",
        f"status stage://x/{EVIL}",
        f"log --streams {EVIL} x",
    ],
)
def test_names_and_messages_are_shown_and_not_obeyed(evil: Cli, command: str) -> None:
    with Terminal(evil, *command.split(), columns=500) as terminal:
        terminal.end()

        assert "PWNED" in terminal.written
        assert not {"\x07", "\x9b"} & {*terminal.written}
        assert "\x1b" not in re.sub(r"\x1b\[([\d;]*m|K)", "", terminal.written)


def test_what_is_asked_and_how_it_gets_on_is_not_obeyed_either(evil: Cli) -> None:
    with Terminal(evil, "cancel", f"{EVIL[:1]}*", "train-00*", columns=200) as terminal:
        terminal.until(lambda screen: screen.shows("[y/N]"))
        terminal.press("n\r")
        assert 130 == terminal.end()
        assert not {"\x07", "\x9b"} & {*terminal.written}
    name = EVIL.replace("[", "(")  # or it is a pattern
    evil.environment["STAGE_NAME"] = name
    with Terminal(evil, "wait", name, columns=200) as terminal:
        terminal.until(lambda screen: screen.shows("waiting for train-011, RUNNING"))
        terminal.press("\x03")
        assert 130 == terminal.end()
        assert rf"is the newest of 12 apps named {SHOWN.replace('[', '(')}" in terminal.written
        assert not {"\x07", "\x9b"} & {*terminal.written}
    with Terminal(evil, "wait", "train-00*", columns=200) as terminal:
        terminal.until(lambda screen: screen.shows("1 FAILED"))
        terminal.press("\x03")
        assert 130 == terminal.end()
        assert SHOWN in terminal.written
        assert TITLE not in terminal.written


def test_a_pipe_gets_names_that_can_be_shown_too(evil: Cli) -> None:
    assert SHOWN in evil("list").out
    assert EVIL == json.loads(evil("list", "-n", "1", "-o", "json").out)[0]["name"]


def test_the_monitor_obeys_nothing_but_its_keys(evil: Cli) -> None:
    evil.environment["STAGE_SAYS"] = OUTPUT
    with Terminal(evil, "monitor", "train-*", columns=200, lines=20) as terminal:
        terminal.until(lambda screen: screen.shows("exited with code -9: ared"))
        terminal.press("\r")
        terminal.until(lambda screen: screen.shows(f"{SHOWN}/0 | ared"))
        terminal.press(" ")
        terminal.until(lambda screen: screen.shows("the last 20 lines"))
        terminal.press("q")
        terminal.until(lambda screen: not screen.shows("the last 20 lines"))
        terminal.press("d")
        terminal.until(lambda screen: screen.shows("definition of"))
        terminal.press("qqq")
        assert 0 == terminal.end()
        assert TITLE not in terminal.written
        assert "\x1b]52" not in terminal.written
        assert 1 == terminal.written.count("\x1b[?1049h")
        assert "\x1b[2J" not in terminal.written
        assert "\x9b" not in terminal.written


def written(cli: Cli, *options: str, replicas: int = 1) -> str:
    """Return what comes after the handle, with a terminal's ends of lines made the usual ones."""
    line = ["run", "-s", "stage", "--log", "--no-color", *options, "--replicas", str(replicas), "--", "sh", "-c"]
    with Terminal(cli, *line, f"echo first\necho {shlex.quote(OUTPUT)}\necho last", columns=200) as terminal:
        assert 0 == terminal.end()
        lines = terminal.written.replace("\r\n", "\n").splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("stage://") and "SUCCEEDED" not in line)


def test_of_a_replicas_output_only_colours_pass(cli: Cli) -> None:
    assert "sh/0 | first\nsh/0 | a\x1b[31mred\x1b[0m\nsh/0 | last\n" == written(cli)
    several = written(cli, "--no-prefix", replicas=2)

    assert 2 == several.count("a\x1b[31mred\x1b[0m\n")
    assert 4 == several.count("\x1b")


def test_one_replica_without_a_prefix_may_move_in_its_own_lines(cli: Cli) -> None:
    assert "first\na\x1b[31mred\x1b[1A\x1b[0m\nlast\n" == written(cli, "--no-prefix")


def test_the_same_of_one_replica_that_is_chosen(cli: Cli) -> None:
    up = "\x1b[1A"
    cli.environment |= {"STAGE_APPS": "1", "STAGE_SAYS": f"x\n{up}y"}
    for app, told in ("train-000", f"x\n{up}y\n"), ("train-000/main/0", f"x\n{up}y\n"), ("train-*", f"x\n{up}y\n"):
        with Terminal(cli, "log", "--no-prefix", app) as terminal:
            assert 0 == terminal.end()
            assert told == terminal.written.replace("\r\n", "\n")
    cli.environment["STAGE_APPS"] = "2"
    with Terminal(cli, "log", "--no-prefix", "train-*") as terminal:
        assert 0 == terminal.end()
        assert "x\ny\n" * 2 == terminal.written.replace("\r\n", "\n")


def test_raw_output_is_passed_on(cli: Cli) -> None:
    assert f"sh/0 | first\nsh/0 | {OUTPUT}\nsh/0 | last\n" == written(cli, "--raw")
    assert f"first\n{OUTPUT}\nlast\n" == written(cli, "--raw", "--no-prefix")


def test_a_pipe_gets_what_replicas_write_as_it_is(cli: Cli) -> None:
    done = cli("run", "-s", "stage", "--log", "utils.sh", f"echo {shlex.quote(OUTPUT)}")

    assert f"sh/0 {OUTPUT}" == done.lines[1]
    done = cli("run", "-s", "stage", "--log", "--no-prefix", "utils.sh", f"echo {shlex.quote(OUTPUT)}")

    assert OUTPUT == done.lines[1]
