"""What TAB completes: in the shells themselves, each in a terminal, and what they are told."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from asyncsched.cli.completion_shells import line_of
from asyncsched.cli.completion_values import complete_beginning
from tests.cli._cli import Cli
from tests.cli._terminal import Terminal

pytestmark = pytest.mark.slow

SHELLS = {
    "bash": (
        ["--norc", "--noprofile", "-i"],
        "bind 'set show-all-if-ambiguous on'; eval \"$(asyncsched completion bash)\"",
    ),
    "zsh": (["-f", "-i"], 'autoload -U compinit; compinit -u -D; eval "$(asyncsched completion zsh)"'),
    "fish": (["--no-config", "-i"], "asyncsched completion fish | source"),
}
ESCAPES = re.compile(r"\x1b(\[[0-9;?>=]*[A-Za-z]|[()][A-Z0-9]|[=>]|\][^\x07\x1b]*(\x07|\x1b\\))|\r|\x0f")
TO_THE_BEGINNING, AWAY = "\x01", "\x03"


class Shell(Cli):
    """A shell in place of the command."""

    def command(self, *args: str) -> list[str]:
        return [*args]


@pytest.fixture
def full(cli: Cli) -> Cli:
    """The command line with four apps, one of which has ended, and a file with a component."""
    cli.environment["STAGE_APPS"] = "4"
    (cli.folder / "jobs.py").write_text(
        "from asyncsched import AppDef\n\nraise SystemExit('a file is not run because somebody presses TAB')\n\n"
        "def sweep(lr: float, epochs: int = 1) -> AppDef:\n    return AppDef('x', [])\n"
    )
    return cli


@pytest.fixture(params=SHELLS)
def shell(full: Cli, request: pytest.FixtureRequest) -> Iterator[Terminal]:
    """A shell that has read its completion script."""
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    if not (Path(sys.executable).parent / "asyncsched").exists():
        pytest.skip("asyncsched is not installed as a command")
    words, setup = SHELLS[request.param]
    cli = Shell(full.folder, full.environment | {"PS1": "$ ", "ENV": ""})
    with Terminal(cli, request.param, *words, columns=160, lines=50) as terminal:
        terminal.press(f"{setup}; echo rea''dy\r")
        terminal.until(lambda screen: "ready" in plain(screen))
        terminal.name = request.param  # type: ignore[attr-defined]  # for the tests of one shell
        yield terminal


def plain(terminal: Terminal) -> str:
    return ESCAPES.sub("", terminal.written)


def completed(shell: Terminal, typed: str, *words: str) -> None:
    """Press TAB behind what is typed, and see that the line consists of these words."""
    shell.written = ""
    shell.press(f"asyncsched {typed}\t")
    shell.until(lambda screen: words[-1] in plain(screen))
    shell.written = ""
    shell.press(f"{TO_THE_BEGINNING}printf '[%s]\\n' \r")
    shell.until(lambda screen: "\n".join(f"[{word}]" for word in ("asyncsched", *words)) in plain(screen))


def test_in_a_shell(shell: Terminal) -> None:
    completed(shell, "delete tr", "delete", "train-003")
    completed(shell, "delete stage://o", "delete", "stage://old/train-003")
    completed(shell, "run -s sta", "run", "-s", "stage")
    completed(shell, "run -s stage -cfg que", "run", "-s", "stage", "-cfg", "queue=")
    completed(shell, "run -s stage -cfg queue=a,prio", "run", "-s", "stage", "-cfg", "queue=a,priority=")
    completed(shell, "run utils.ec", "run", "utils.echo")
    completed(shell, "run utils.echo --m", "run", "utils.echo", "--msg")
    completed(shell, "run jobs.py:sw", "run", "jobs.py:sweep")
    completed(shell, "run jobs.py:sweep --ep", "run", "jobs.py:sweep", "--epochs")
    completed(shell, "run -- cat jo", "run", "--", "cat", "jobs.py")
    completed(shell, "run utils.copy --src jo", "run", "utils.copy", "--src", "jobs.py")
    completed(shell, "stat", "status")


def test_apps_are_listed_with_their_state_and_age(shell: Terminal) -> None:
    shell.written = ""
    shell.press("asyncsched status t\t")
    if shell.name == "zsh":  # type: ignore[attr-defined]  # set by the fixture
        shell.until(lambda screen: "train-00" in plain(screen))  # first what they have in common
        shell.press("\t")
    shell.until(lambda screen: "train-000" in plain(screen) and re.search(r"FAILED, \d+[smhd]", plain(screen)))
    assert re.search(r"RUNNING, \d+[smhd]", plain(shell))


def told(cli: Cli, line: str, **environment: str) -> list[tuple[str, ...]]:
    """Return what a shell is told: kind, value, and what to say of it."""
    done = cli(_ASYNCSCHED_COMPLETE="zsh_complete", COMP_TEXT=f"asyncsched {line}", **environment)
    assert (0, "") == (done.code, done.err)
    return [tuple(text.split("\t")) for text in done.lines if text]


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("l", ["list", "log"]),
        ("cancel ", ["train-002", "train-001", "train-000"]),
        ("cancel train-002 ", ["train-001", "train-000"]),
        ("delete ", ["train-003"]),
        ("log @", ["@last"]),
        ("status -s stage stage://old/train-000", ["stage://old/train-000"]),
        ("status -s nosuch ", []),
        ("runopts st", ["stage"]),
        ("configure -s stage,sta", ["stage,stage"]),
        ("-o js", ["json", "jsonl"]),
        ("completion ", ["bash", "zsh", "fish"]),
        ("run jobs", ["jobs.py:"]),
        ("run jobs.py:", ["jobs.py:sweep"]),
        ("run jobs.py:sweep -", ["--lr", "--epochs"]),
        ("run jobs.py:sweep --lr 1 -", ["--epochs"]),
        ("run utils.echo --image ", [""]),
        ("run utils.echo -", ["--msg", "--image", "--num_replicas"]),
        ("run --repl", ["--replicas"]),
        ("run -s stage -cfg queue=x,prio", ["queue=x,priority="]),
        ("run -s stage -cfg queue=x,queu", []),
        ("run -- l", ["l"]),
        ("builtins utils.s", ["utils.sh"]),
        ("nosuch ", []),
        ("run 'utils.ec", ["utils.echo"]),
    ],
)
def test_what_is_told(full: Cli, line: str, values: list[str]) -> None:
    assert values == [value for _, value, _ in told(full, line)]


def test_schedulers_that_do_not_answer_are_not_waited_for(full: Cli, broken: Cli) -> None:
    full.plugins = broken.plugins
    full.environment["STAGE_APPS"] = "4"
    full.schedulers = ["silent", "stage", "down", "absent"]

    assert ["train-003"] == [value for _, value, _ in told(full, "delete ")]


def test_nothing_that_a_shell_would_obey_is_completed() -> None:
    names = ["ok", "a b", "$(id)", "`id`", "a;b", "a\nb", "a'b", "a&b", "a\x1b[2Jb", "über", "*", "<x", "#x", "!x", ""]

    assert ["ok"] == [item.value for item in complete_beginning("", [(name, "") for name in names])]
    (item,) = complete_beginning("", [("ok", "\x1b]0;title\x07 of\ta\nlong \x9bkind")])
    assert "plain\tok\t]0;title of a long kind" == line_of(item)
