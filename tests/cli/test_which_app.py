"""Which app a word means, and which schedulers are heard about, at a terminal."""

from __future__ import annotations

import pytest

from asyncsched.cli.last_launched import last_launched, note_launch
from asyncsched.cli.main import VERBS
from tests.cli._cli import Cli
from tests.cli._terminal import Terminal

pytestmark = pytest.mark.slow

VERBS_OF_APPS = ("status", "describe", "log", "wait", "monitor", "cancel", "delete")


def seen(cli: Cli, *words: str, columns: int = 120) -> tuple[int, list[str]]:
    """Return the exit code, and the lines on the screen."""
    with Terminal(cli, *words, columns=columns, lines=60) as terminal:
        code = terminal.end()
        return code, [line for line in terminal.screen if line]


@pytest.fixture
def unset(broken: Cli) -> Cli:
    """The command line with apps on `stage`, and schedulers that nobody has set up."""
    broken.schedulers = ["stage", "unset", "absent"]
    return broken


@pytest.mark.parametrize(
    "line",
    ["list", "status train-001", "status train-0*", "log train-001", "wait train-005", "describe train-00[1-3]",
     "cancel train-001", "delete train-005", "monitor -o jsonl train-003"],
)  # fmt: skip
def test_a_scheduler_that_is_not_set_up_is_silent(unset: Cli, line: str) -> None:
    code, lines = seen(unset, *line.split())

    assert code == (1 if "monitor" in line else 0)
    assert lines
    assert not any(word in text for text in lines for word in ("unset", "absent", "error:"))


def test_who_names_it_is_told(unset: Cli) -> None:
    for line in ("list -s unset", "status unset://a/b", "status -s unset x", "log 'unset://*/x*'".replace("'", "")):
        code, lines = seen(unset, *line.split())

        assert (5, True) == (code, lines[0].startswith("error: there is no unset here"))
    code, lines = seen(unset, "doctor", "--timeout", "30s")
    assert any(text.startswith("scheduler unset") and "not configured" in text for text in lines)
    code, lines = seen(unset, "doctor", "-s", "unset")
    assert 1 == sum(text.startswith("scheduler ") for text in lines)
    assert ["error: no scheduler is named 'usnet'    did you mean unset?"] == seen(unset, "doctor", "-s", "usnet")[1]


def test_an_app_that_is_found_is_found_though_others_are_away(broken: Cli) -> None:
    broken.schedulers = ["stage", "down"]
    broken.environment["STAGE_APPS"] = "5"
    code, lines = seen(broken, "status", "train-003/"[:9])

    assert (0, True) == (code, any("FAILED" in text for text in lines))
    code, lines = seen(broken, "wait", "train-00[5]", columns=60)
    assert 5 == code  # a pattern may mean apps there, too
    broken.environment["STAGE_NAME"] = "other"
    broken.environment["STAGE_APPS"] = "1"
    code, lines = seen(broken, "status", "train-0")

    assert 0 == code
    assert lines[0] == "note: cannot reach the cluster: nothing listens at 10.0.0.1; start it"


WITHOUT_SCHEDULER = {
    "builtins": "components run on any scheduler",
    "completion": "a script for a shell",
}
"""The verbs that have nothing to do with schedulers: `-s` would change nothing that they print."""


def test_every_verb_takes_a_scheduler(broken: Cli) -> None:
    takes = {name for name in VERBS if "-s, --scheduler" in broken(name, "--help").out}

    assert {*VERBS} - takes == WITHOUT_SCHEDULER.keys()
    assert {*VERBS_OF_APPS} <= takes
    for name in WITHOUT_SCHEDULER:
        done = broken(name, "-s", "stage")
        assert (2, "error: no such option '-s'") == (done.code, done.err.splitlines()[0])
    assert 0 == seen(broken, "status", "-s", "stage", "train-00*")[0]
    code, lines = seen(broken, "log", "-s", "stage", "down://a/b")
    assert (2, "error: down://a/b is on down, and -s names stage") == (code, lines[0])


def test_an_exact_name_beats_a_beginning_and_the_newest_of_a_name_is_read(staged: Cli) -> None:
    staged.environment["STAGE_NAME"] = "train-00"  # ten ids begin so
    code, lines = seen(staged, "status", "train-00")

    assert (0, "note: stage://old/train-029 is the newest of 30 apps named train-00") == (code, lines[0])
    for verb in ("log", "describe"):
        code, lines = seen(staged, verb, "train-00")

        assert (0, "note: stage://old/train-029 is the newest of 30 apps named train-00") == (code, lines[0])
    for verb in ("cancel", "delete"):
        code, lines = seen(staged, verb, "train-00")

        assert (2, "error: 'train-00' matches 30 apps") == (code, lines[0])
        assert "  fix: write an id, or 'train-00*' for all" in lines
    staged.environment["STAGE_APPS"] = "1"
    assert (0, False) == ((found := seen(staged, "status", "train-00"))[0], "note" in found[1][0])


def test_an_id_beats_a_name(staged: Cli) -> None:
    staged.environment["STAGE_NAME"] = "train-007"

    assert '"app_id": "train-007"' in staged("status", "-o", "json", "train-007").out


def test_the_last_one_launched_here(cli: Cli) -> None:
    cli.schedulers = ["local_cwd"]
    code, lines = seen(cli, "status")
    assert (4, ["error: no app was launched from here", "  fix: name one; `asyncsched list` shows them"]) == (
        code,
        lines,
    )
    cli("run", "utils.echo", "--msg", "one")
    handle = cli("run", "utils.echo", "--msg", "two").lines[0]

    code, lines = seen(cli, "log")
    assert (0, f"note: {handle} was launched last") == (code, lines[0])
    for last in ("@last", "@last/echo/0"):
        code, lines = seen(cli, "log", last)
        assert (0, 1, True) == (code, len(lines), lines[0].endswith(" two"))
    assert handle == cli("status", "-o", "json").json[0]["handle"]
    assert handle in cli("wait", "@last").out
    assert f"handle: {handle}" in cli("describe").out
    assert (0, [f"{handle}: had already ended: SUCCEEDED"]) == seen(cli, "cancel", "@last")


def test_nobody_ends_the_last_one_by_an_empty_variable(cli: Cli) -> None:
    cli.schedulers = ["local_cwd"]
    handle = cli("run", "utils.echo").lines[0]
    for verb in ("cancel", "delete"):
        done = cli(verb)  # no terminal is there to ask

        assert (2, "error: missing argument 'APP...'") == (done.code, done.err.splitlines()[0])
    with Terminal(cli, "delete", columns=100) as terminal:
        terminal.until(lambda screen: screen.shows(f"delete {handle}? [y/N]"))
        terminal.press("\r")
        assert 130 == terminal.end()
        assert terminal.shows("nothing was done")
    assert handle in cli("list").out


def test_the_last_one_of_each_scheduler_is_remembered(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("ASYNCSCHED_HOME", str(tmp_path_factory.mktemp("home") / "deep"))
    assert None is last_launched()
    note_launch("slurm://cli/a")
    note_launch("local_cwd://cli/b")
    note_launch("local_cwd://cli/c")

    assert ["local_cwd://cli/c", "slurm://cli/a", None] == [last_launched(), last_launched("slurm"), last_launched("x")]
    for number in range(100):
        note_launch(f"s{number}://cli/a")
    assert "s99://cli/a" == last_launched()
    assert None is last_launched("slurm")


def test_where_nothing_can_be_written_it_runs_all_the_same(cli: Cli) -> None:
    (cli.folder / "state").mkdir()
    (cli.folder / "state/asyncsched").mkdir()
    (cli.folder / "state/asyncsched/cli").write_text("a file where a folder is needed")
    cli.environment["XDG_RUNTIME_DIR"] = "/dev/null"

    assert 0 == cli("run", "-s", "stage", "--log", "utils.sh", "echo hi").code
    assert "no app was launched from here" in cli("status").err
