"""What somebody sees who types what other programs take, at a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from asyncsched.cli.main import SYNONYMS, VERBS
from tests.cli._cli import Cli
from tests.cli._terminal import Terminal

pytestmark = pytest.mark.slow


@pytest.fixture
def here(cli: Cli) -> Cli:
    (cli.folder / "train.py").write_text("raise SystemExit('a program is not run to see what it is')\n")
    (cli.folder / "jobs.py").write_text(
        "from asyncsched import AppDef\n\n\ndef sweep() -> AppDef:\n    return AppDef('x', [])\n"
    )
    return cli


def told(cli: Cli, *words: str, columns: int = 160) -> list[str]:
    """Return the lines of a mistake."""
    with Terminal(cli, *words, columns=columns) as terminal:
        assert 2 == terminal.end()
        lines = terminal.written.replace("\r\n", "\n").splitlines()
    assert len(lines) <= 6
    assert not any(fault in line for line in lines for fault in ("Traceback", "TypeError", "bug in asyncsched"))
    return lines


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "run train.py --lr 1",
            ["error: train.py is a file, not a component", "  why: a component is a function in a file",
             "  fix: to run the file: asyncsched run -- python train.py --lr 1"],
        ),
        (
            "run jobs.py",
            ["error: jobs.py is a file, not a component", "  why: a component is a function in a file",
             "  fix: did you mean jobs.py:sweep?", "       to run the file: asyncsched run -- python jobs.py"],
        ),
        (
            "run --replicas 2 echo hi",
            ["error: --replicas is for a command after --", "  why: echo was read as the name of a component",
             "  fix: asyncsched run --replicas 2 -- echo hi"],
        ),
        (
            "run --memMB 9 utils.echo",
            ["error: --memMB is for a command after --", "  why: utils.echo has its own arguments",
             "  fix: asyncsched run utils.echo --help shows them"],
        ),
        (
            "run ./nofile.py",
            ["error: no file ./nofile.py", "  why: looked in {folder}",
             "  fix: write a component in a file as path/file.py:function"],
        ),
        ("run trian.py", ["error: no file trian.py", "  why: looked in {folder}", "  fix: did you mean train.py?"]),
        (
            "run /bin/echo hi",
            ["error: /bin/echo is a file, not a component", "  fix: to run a command: asyncsched run -- /bin/echo hi"],
        ),
        (
            "run nosuchcommand",
            ["error: no component nosuchcommand",
             "  fix: asyncsched builtins lists all components (your own: path/file.py:function)",
             "       to run a command: asyncsched run -- nosuchcommand"],
        ),
    ],
)  # fmt: skip
def test_a_program_where_a_component_is_named(here: Cli, line: str, expected: list[str]) -> None:
    assert [text.replace("{folder}", str(here.folder)) for text in expected] == told(here, *line.split())


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (["sleep 1"], "  fix: to run a command: asyncsched run -- sleep 1"),
        (["echo a | wc", "x"], "  fix: to run a command: asyncsched run -- sh -c 'echo a | wc' x"),
        (["./noexec.sh", "x"], "  fix: to run the file: asyncsched run -- sh ./noexec.sh x"),
        (["utils.echo", "--num_replicas", "4G"], "  fix: see asyncsched run utils.echo --help"),
        (["utils.sh", "--memMB", "4G", "true"], "  fix: see asyncsched run utils.sh --help"),
    ],
)
def test_the_command_that_is_offered_works_in_a_shell(cli: Cli, words: list[str], fix: str) -> None:
    (cli.folder / "noexec.sh").write_text("echo hi")

    assert fix == told(cli, "run", *words)[-1]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("run -cfg", "option '-cfg' requires an argument"),
        ("run --replicas x -- ls", "invalid value for '--replicas': 'x' is not a valid whole number"),
        ("list -n", "option '-n' requires an argument"),
        ("log --tail -1", "invalid value for '--tail': -1 is not in the range x>=0"),
    ],
)
def test_a_wrong_option_leads_to_the_help_of_its_command(cli: Cli, line: str, error: str) -> None:
    assert [f"error: {error}", f"  fix: see asyncsched {line.split(maxsplit=1)[0]} --help"] == told(cli, *line.split())


@pytest.mark.parametrize("verb", [["list"], ["run", "--", "echo", "hi"], ["run", "jobs.py:sweep"], ["status", "x"]])
def test_a_working_directory_that_was_removed(cli: Cli, verb: list[str]) -> None:
    assert [
        "error: the working directory no longer exists",
        "  why: it was removed, or moved, after it was entered",
        "  fix: change into a directory that exists, such as with cd",
    ] == told(Astray(cli.folder, cli.environment), *verb)


class Astray(Cli):
    """A command line whose working directory is removed before it starts."""

    def command(self, *args: str) -> list[str]:
        return ["sh", "-c", 'mkdir gone && cd gone && rmdir ../gone && exec "$@"', "sh", *super().command(*args)]


def test_what_other_programs_call_it_names_the_verb(cli: Cli) -> None:
    assert {"ps", "ls", "kill", "stop", "rm", "logs", "top", "submit", "help"} <= SYNONYMS.keys()
    for word, verb in SYNONYMS.items():
        assert word not in VERBS
        assert verb == "asyncsched --help" or verb.split()[0] in VERBS
    for word in ("ps", "logs", "help"):
        assert [f"error: no command {word}    did you mean {SYNONYMS[word]}?"] == told(cli, word, "x", columns=60)


@pytest.mark.parametrize("columns", [60, 100, 160])
def test_nothing_at_all_shows_three_examples(cli: Cli, columns: int) -> None:
    with Terminal(cli, columns=columns) as terminal:
        assert 2 == terminal.end()
        lines = terminal.written.splitlines()

    assert 3 == sum(line.startswith("  asyncsched ") for line in lines)
    assert "asyncsched --help" in lines[-1]
    assert max(map(len, lines)) <= 60


def test_an_example_works_as_it_is_written(cli: Cli) -> None:
    from asyncsched.cli.main import EXAMPLES

    (cli.folder / "train.py").write_text("print('hi')\n")
    (line,) = [line for line in EXAMPLES.splitlines() if "train.py" in line]
    done = cli(*line.split("  ")[1].split()[1:])

    assert (0, "python/0 hi") == (done.code, done.lines[1])


def test_no_file_is_run_to_tell_what_it_is(here: Cli) -> None:
    assert "not run" not in here("run", "train.py").err
    assert Path(here.folder / "train.py").exists()
