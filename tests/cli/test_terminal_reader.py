"""The terminal that the other tests read behaves as a real one does."""

from __future__ import annotations

from tests.cli._cli import Cli
from tests.cli._terminal import Terminal


class Script(Cli):
    """A script in place of a command."""

    def command(self, *args: str) -> list[str]:
        return ["sh", "-c", *args]


def test_its_cursor_moves_up_with_a_border_that_rises_above_it(cli: Cli) -> None:
    script = r"stty -echo; printf '\033[20;1Hbefore\n'; read go; printf after; read go"
    with Terminal(Script(cli.folder), script, lines=24) as terminal:
        terminal.until(lambda screen: "before" == screen.screen[19])
        terminal.resize(80, 8)
        terminal.press("\n")
        terminal.until(lambda screen: "after" == screen.screen[7])
        terminal.press("\n")
        assert 0 == terminal.end()


def test_what_one_read_cuts_is_gone_on_with_by_the_next(cli: Cli) -> None:
    script = r"stty -echo; printf 'x\033[3'; read go; printf ';5Hy\303'; read go; printf '\244'; read go"
    with Terminal(Script(cli.folder), script, lines=5) as terminal:
        terminal.until(lambda screen: screen.written.endswith("\x1b[3"))
        terminal.press("\n")
        terminal.until(lambda screen: "    y" == screen.screen[2])
        terminal.press("\n")
        terminal.until(lambda screen: "    yä" == screen.screen[2])
        terminal.press("\n")
        assert 0 == terminal.end()
