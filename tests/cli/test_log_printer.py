"""How log lines are written."""

from __future__ import annotations

import io
import os
import re
from datetime import datetime
from typing import Any

import pytest

from asyncsched.cli import log_printer_footer
from asyncsched.cli.colors import REPLICAS, state_color
from asyncsched.cli.log_printer import FOOTER_EVERY, LinePrinter
from asyncsched.logs.line import LogGap, LogLine, LogOrigin, gap_line, label
from asyncsched.schedulers import DescribeAppResponse
from asyncsched.specs import AppState, ReplicaStatus, RoleStatus, Stream
from asyncsched.views.log_names import Names

A = LogOrigin(app_id="app-1", role="main", replica=0)
B = LogOrigin(app_id="app-2", role="main", replica=1)
NS = 1_700_000_000_123_456_789


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def line(text: str, source: LogOrigin = A, ns: int | None = NS) -> LogLine:
    return label([text], source, ns)[0]


def printed(*lines: LogLine, tty: bool = False, **options: Any) -> str:
    out = Tty() if tty else io.StringIO()
    printer = LinePrinter(out, **options)
    for each in lines:
        printer.add(each)
    printer.finish()
    return out.getvalue()


def test_each_line_has_a_prefix() -> None:
    assert "main/0 a\nmain/1 b\nmain/0 c\n" == printed(line("a\n"), line("b\n", B), line("c\n"))


def described(name: str, *roles: str) -> DescribeAppResponse:
    statuses = [RoleStatus(role, [ReplicaStatus(k, AppState.RUNNING, role, "") for k in (0, 1)]) for role in roles]
    return DescribeAppResponse(name=name, roles_statuses=statuses)


def test_the_app_where_there_are_several() -> None:
    names = Names.of_apps({"app-1": described("train", "main"), "app-2": described("eval", "main", "other")})
    assert "train/0 a\neval/main/1 b\n" == printed(line("a\n"), line("b\n", B), names=names)
    alike = Names.of_apps({"app-1": described("train", "main"), "app-2": described("train", "main")})
    assert "app-1/0 a\napp-2/1 b\n" == printed(line("a\n"), line("b\n", B), names=alike)


def test_a_colour_for_each_replica() -> None:
    told = printed(line("a\n"), line("b\n", B), line("c\n"), color=True, tty=True)
    first, second = (f"\x1b[{color}m" for color in REPLICAS[:2])
    heads = [f"{color}{who}\x1b[0m {color}|\x1b[0m " for color, who in ((first, "main/0"), (second, "main/1"))]

    assert f"{heads[0]}a\n{heads[1]}b\n{heads[0]}c\n" == told


@pytest.mark.parametrize("color", [*REPLICAS, *(state_color(state) for state in AppState)])
def test_colours_can_be_read_on_black_and_on_white(color: str) -> None:
    red, green, blue = rgb(int(color.rpartition(";")[2]))
    light = sum(share * linear(part) for share, part in ((0.2126, red), (0.7152, green), (0.0722, blue)))

    assert 3.9 <= (light + 0.05) / 0.05  # on black
    assert 3.9 <= 1.05 / (light + 0.05)  # on white
    if color in REPLICAS:
        assert blue <= max(red, green), "no blue"
        assert not (red > 2 * max(green, blue)), "no red"


def rgb(number: int) -> tuple[int, int, int]:
    """Return a colour of the 256."""
    if number >= 232:
        grey = 8 + 10 * (number - 232)
        return grey, grey, grey
    steps = (0, 95, 135, 175, 215, 255)
    return steps[(number - 16) // 36], steps[(number - 16) // 6 % 6], steps[(number - 16) % 6]


def linear(part: int) -> float:
    return part / 255 / 12.92 if part <= 10 else ((part / 255 + 0.055) / 1.055) ** 2.4


def test_on_a_terminal_prefixes_are_of_one_width_and_stderr_is_marked() -> None:
    names = Names.of_apps({"app-1": described("t", "main"), "app-2": described("evaluate", "main")})
    of_stderr = B._replace(stream=Stream.STDERR)
    told = printed(line("a\n"), line("b\n", B), line("c\n", of_stderr), names=names, tty=True)

    assert "t/0        | a\nevaluate/1 | b\nevaluate/1 ! c\n" == told
    assert "evaluate/1 c\n" == printed(line("c\n", of_stderr), names=names)


def test_timestamps() -> None:
    here = datetime.fromtimestamp(NS // 10**9).astimezone()
    told = printed(line("a\n"), line("b\n", ns=None), timestamps=True)

    assert f"main/0 {here.replace(microsecond=123456).isoformat()} a\nmain/0 - b\n" == told
    assert f"main/0 | {here:%Y-%m-%d %H:%M:%S}.123 a\n" == printed(line("a\n"), timestamps=True, tty=True)


def test_a_last_line_without_an_end_is_ended() -> None:
    assert "main/0 a\n" == printed(line("a"))


def test_a_line_of_another_breaks_an_unfinished_one() -> None:
    assert "main/0 10%\nmain/1 b\n" == printed(line("10%"), line("b\n", B))


@pytest.mark.parametrize(
    ("fragments", "raw", "on_a_terminal"),
    [
        (["10%", "\r20%", "\rdone\n"], "main/0 10%\r20%\rdone\n", "10%\rmain/0 | 20%\rmain/0 | done\n"),
        (["10%\r", "20%\r", "done\n"], "main/0 10%\rmain/0 20%\rmain/0 done\n", "10%\rmain/0 | 20%\rmain/0 | done\n"),
        (["10%\r20%\rdone\n"], "main/0 10%\r20%\rdone\n", "10%\rmain/0 | 20%\rmain/0 | done\n"),
        (["dos\r\n", "b\n"], "main/0 dos\r\nmain/0 b\n", "dos\r\nmain/0 | b\n"),
        (["half ", "whole\n"], "main/0 half whole\n", "half whole\n"),
    ],
)
def test_progress(fragments: list[str], raw: str, on_a_terminal: str) -> None:
    lines = [line(text) for text in fragments]

    assert raw == printed(*lines)
    assert f"main/0 | {on_a_terminal}" == printed(*lines, tty=True, alone=True)
    stamped = printed(*lines, tty=True, alone=True, timestamps=True)
    assert len(re.findall(r"\.123 ", stamped)) == on_a_terminal.count("main/0 ") + 1


UP = "\x1b[{}A\x1b[J"


@pytest.fixture
def sized(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_printer_footer, "terminal_size", lambda: os.terminal_size((30, 6)))


@pytest.mark.usefixtures("sized")
def test_progress_bars_of_several_replicas_are_a_footer_with_the_latest_of_each() -> None:
    out = Tty()
    printer = LinePrinter(out)

    def shown(*lines: LogLine) -> tuple[list[float | None], str]:
        delays = [printer.add(each) for each in lines]
        out.truncate(out.seek(0))
        printer.flush()
        return delays, out.getvalue()

    assert ([0.0], "main/0 | hi\n") == shown(line("hi\n"))
    assert ([FOOTER_EVERY, None], "main/0 | 20%\n") == shown(line("10%\r"), line("20%\r"))
    assert ([FOOTER_EVERY], UP.format(1) + "main/0 | 20%\nmain/1 | 5%\n") == shown(line("\r5%", B))
    assert ([0.0], UP.format(2) + "main/1 | a line\nmain/0 | 20%\n") == shown(line("\ra line\n", B))
    assert ([0.0], UP.format(1) + "main/0 | 100%\n") == shown(line("100%\r\n"))
    assert ([0.0], "main/0 | bye\n") == shown(line("bye\n"))
    assert ([FOOTER_EVERY], "main/0 | 1%\n") == shown(line("1%\r"))
    beside = line("warning\n", A._replace(stream=Stream.STDERR))
    assert ([0.0], UP.format(1) + "main/0 ! warning\nmain/0 | 1%\n") == shown(beside)


@pytest.mark.usefixtures("sized")
def test_a_footer_is_cut_to_the_terminal_and_steps_aside_for_others() -> None:
    out = Tty()
    printer = LinePrinter(out, color=True)
    for k in range(4):
        printer.add(line("\x1b[31m" + "x" * 90 + "\r", A._replace(replica=k)))
    printer.flush()
    drawn = re.sub(r"\x1b\[[\d;]*m", "", out.getvalue()).splitlines()

    assert ["main/0 | xxxxxxxxxxxxxxxxxxxx", "main/1 | xxxxxxxxxxxxxxxxxxxx", "and 2 more"] == drawn
    out.truncate(out.seek(0))
    printer.step_aside()
    assert UP.format(3) == out.getvalue()
    printer.step_aside()
    assert UP.format(3) == out.getvalue()
    printer.finish()
    assert 4 * 90 == out.getvalue().count("x")


@pytest.mark.usefixtures("sized")
def test_our_own_lines_stand_among_those_of_a_terminal_and_else_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    out = Tty()
    printer = LinePrinter(out)
    printer.add(line("10%\r"))
    printer.flush()
    out.truncate(out.seek(0))
    printer.tell("-- train-1 SUCCEEDED")
    assert UP.format(1) + "-- train-1 SUCCEEDED\nmain/0 | 10%\n" == out.getvalue()
    LinePrinter(io.StringIO()).tell("-- train-1 SUCCEEDED")
    assert "-- train-1 SUCCEEDED\n" == capsys.readouterr().err


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

    assert "main/0 | ab\x1b[31mc\x1b[0m\n" == printed(*pieces, tty=True)
    assert "main/0 a\x1b]0;title\x1b\\b\x1b[31mc\n" == printed(*pieces)
    assert printed(*pieces).replace("main/0 ", "main/0 | ") == printed(*pieces, tty=True, raw=True)


def test_each_replicas_pieces_are_its_own() -> None:
    told = printed(line("a\x1b"), line("[2Jb\n", B), line("[2Jc\n"), tty=True)

    assert "main/1 | [2Jb\nmain/0 | ac\n" == told


def test_a_colour_ends_where_another_replica_breaks_its_line_and_at_the_end() -> None:
    broken = printed(line("\x1b[31ma"), line("b\n", B), tty=True, alone=True)
    assert "main/0 | \x1b[31ma\x1b[0m\nmain/1 | b\n" == broken
    assert "main/1 | b\nmain/0 | \x1b[31ma\x1b[0m\n" == printed(line("\x1b[31ma"), line("b\n", B), tty=True)
    assert "main/0 | \x1b[31ma\x1b[0m\n" == printed(line("\x1b[31ma"), tty=True)
    redrawn = printed(line("\x1b[31m1"), line("\r2\n"), tty=True, alone=True)
    assert "main/0 | \x1b[31m1\x1b[0m\rmain/0 | 2\n" == redrawn


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

    assert "main/0 | lines are missing here: gone\\x1b[2J\n" == capsys.readouterr().err


def test_prefixes_end_in_one_column_when_one_name_is_long() -> None:
    names = Names.of_apps({"app-1": described("a-name-" * 8, "main"), "app-2": described("b", "main")})
    written = re.sub(r"\x1b\[[\d;]*m", "", printed(line("x\n"), line("y\n", B), names=names, tty=True))
    marks = [each.index(" | ") for each in written.replace("\r", "").splitlines() if " | " in each]

    assert 2 == len(marks)
    assert 1 == len({*marks})
    assert all(each in written for each in ("a-name-", "/0 |", "b/1 "))
