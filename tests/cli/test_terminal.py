"""The command line in a terminal: colours and narrow windows."""

from __future__ import annotations

import pytest

from tests.cli._cli import Cli
from tests.cli._terminal import Terminal


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
