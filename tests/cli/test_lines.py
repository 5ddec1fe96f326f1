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


def test_a_sequence_that_is_cut_into_pieces_is_a_sequence() -> None:
    again = LogOrigin(**A._asdict())
    pieces = [line(text) for text in ("a\x1b", "]0;ti", "tle\x1b")]
    pieces += [line(text, again) for text in ("\\b\x1b[3", "1mc\n")]

    assert "main/0 ab\x1b[31mc\x1b[0m\n" == printed(*pieces, tty=True)
    assert "main/0 a\x1b]0;title\x1b\\b\x1b[31mc\n" == printed(*pieces)
    assert printed(*pieces) == printed(*pieces, tty=True, raw=True)


def test_each_replicas_pieces_are_its_own() -> None:
    told = printed(line("a\x1b"), line("[2Jb\n", B), line("[2Jc\n"), tty=True)

    assert "main/0 a\nmain/1 [2Jb\nmain/0 c\n" == told


def test_a_colour_ends_where_another_replica_breaks_its_line_and_at_the_end() -> None:
    assert "main/0 \x1b[31ma\x1b[0m\nmain/1 b\n" == printed(line("\x1b[31ma"), line("b\n", B), tty=True)
    assert "main/0 \x1b[31ma\x1b[0m\n" == printed(line("\x1b[31ma"), tty=True)
    assert "main/0 \x1b[31m1\x1b[0m\rmain/0 2\n" == printed(line("\x1b[31m1"), line("\r2\n"), tty=True)


def test_the_cursor_stays_still_from_the_second_replica_on() -> None:
    up = "x\n\x1b[1Ay\n"

    assert f"{up}{up}" == printed(line("x\n"), line(up[2:]), line(up), tty=True, prefix=False, alone=True)
    assert "x\ny\n" == printed(line("x\n"), line(up[2:]), tty=True, prefix=False)
    assert "x\nb\ny\n" == printed(line("x\n"), line("b\n", B), line("\x1b[1Ay\n"), tty=True, prefix=False, alone=True)


def test_a_prefix_shows_what_a_name_holds() -> None:
    evil = LogOrigin(app_id="a", role="r\x1b]0;t\x07\n", replica=0)

    assert "r\\x1b]0;t\\x07\\x0a/0 a\n" == printed(line("a\n", evil))


def test_a_gap_says_nothing_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    printed(gap_line(LogGap(reason="gone\x1b[2J"), A), tty=True)

    assert "main/0 lines are missing here: gone\\x1b[2J\n" == capsys.readouterr().err
