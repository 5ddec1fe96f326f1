"""How log lines are written."""

from __future__ import annotations

import io

import pytest

from asyncsched.cli.lines import LinePrinter
from asyncsched.logs.line import LogGap, LogLine, LogOrigin, gap_line, label

A = LogOrigin(app_id="app-1", role="main", replica=0)
B = LogOrigin(app_id="app-2", role="main", replica=1)
NS = 1_700_000_000_123_456_789


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def line(text: str, source: LogOrigin = A, ns: int | None = NS) -> LogLine:
    return label([text], source, ns)[0]


def printed(*lines: LogLine, tty: bool = False, **options: bool) -> str:
    out = Tty() if tty else io.StringIO()
    printer = LinePrinter(out, **options)
    for each in lines:
        printer.add(each)
    printer.finish()
    return out.getvalue()


def test_each_line_has_a_prefix() -> None:
    assert "main/0 a\nmain/1 b\nmain/0 c\n" == printed(line("a\n"), line("b\n", B), line("c\n"))


def test_the_app_where_there_are_several() -> None:
    assert "app-1/main/0 a\napp-2/main/1 b\n" == printed(line("a\n"), line("b\n", B), several_apps=True)


def test_a_colour_for_each_replica() -> None:
    told = printed(line("a\n"), line("b\n", B), line("c\n"), color=True)

    assert "\x1b[36mmain/0\x1b[0m a\n\x1b[33mmain/1\x1b[0m b\n\x1b[36mmain/0\x1b[0m c\n" == told


def test_timestamps() -> None:
    told = printed(line("a\n"), line("b\n", ns=None), timestamps=True)

    assert "main/0 2023-11-14T22:13:20.123456Z a\nmain/0 - b\n" == told


def test_a_last_line_without_an_end_is_ended() -> None:
    assert "main/0 a\n" == printed(line("a"))


def test_a_line_of_another_breaks_an_unfinished_one() -> None:
    assert "main/0 10%\nmain/1 b\n" == printed(line("10%"), line("b\n", B))


@pytest.mark.parametrize(
    ("fragments", "raw", "on_a_terminal"),
    [
        (["10%", "\r20%", "\rdone\n"], "main/0 10%\r20%\rdone\n", "main/0 10%\rmain/0 20%\rmain/0 done\n"),
        (["10%\r", "20%\r", "done\n"], "main/0 10%\rmain/0 20%\rmain/0 done\n", None),
        (["10%\r20%\rdone\n"], "main/0 10%\r20%\rdone\n", "main/0 10%\rmain/0 20%\rmain/0 done\n"),
        (["dos\r\n", "b\n"], "main/0 dos\r\nmain/0 b\n", None),
        (["half ", "whole\n"], "main/0 half whole\n", None),
    ],
)
def test_progress(fragments: list[str], raw: str, on_a_terminal: str | None) -> None:
    lines = [line(text) for text in fragments]

    assert raw == printed(*lines)
    assert (on_a_terminal or raw) == printed(*lines, tty=True)
    assert printed(*lines, tty=True, timestamps=True).count("Z ") == printed(*lines, tty=True).count("main/0 ")


def test_a_gap_is_told_beside_the_lines(capsys: pytest.CaptureFixture[str]) -> None:
    told = printed(line("a\n"), gap_line(LogGap(reason="rotated away"), A), line("b\n"))

    assert "main/0 a\nmain/0 b\n" == told
    assert "main/0 lines are missing here: rotated away\n" == capsys.readouterr().err


def test_json_lines() -> None:
    assert '"text": "a"' in printed(line("a\n"), as_json=True)
