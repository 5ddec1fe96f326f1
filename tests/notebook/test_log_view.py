"""The box of a log in a notebook: coloured prefixes, bounded, progress bars in one line each."""

from __future__ import annotations

import re

from asyncsched.logs.line import LogGap, LogLine, LogOrigin, gap_line, label
from asyncsched.specs import Stream
from asyncsched.views.log_view import KEPT, LONGEST, LogView

A = LogOrigin(app_id="app-1", role="main", replica=0)
B = A._replace(app_id="app-2", replica=10)


def line(text: str, source: LogOrigin = A) -> LogLine:
    return label([text], source, None)[0]


def viewed(*lines: LogLine, several: bool = False) -> LogView:
    view = LogView(several=several)
    for each in lines:
        view.add(each)
    return view


def test_prefixes_are_aligned_coloured_and_tell_stderr() -> None:
    of_stderr = A._replace(stream=Stream.STDERR)
    view = viewed(line("a <b>\n"), line("b\n", B), line("c\n", of_stderr))
    html = view.html()

    assert "main/0 | a <b>\nmain/10 | b\nmain/0 ! c" == view.text()
    assert 2 == len({*re.findall("<span style='color:(#[0-9a-f]+)'>", html)})
    assert ">main/0  |</span> a &lt;b&gt;" in html
    assert "max-height" in html
    assert "app-2/main/10 | b" == viewed(line("b\n", B), several=True).text()


def test_a_log_without_lines_says_so_and_is_no_empty_box() -> None:
    view = LogView()
    view.note = "no longer followed"

    assert "no lines so far\nno longer followed" == view.text()
    assert "max-height" not in view.html()
    view.add(line("half"))
    assert ("main/0 | half\nno longer followed", True) == (view.text(), "max-height" in view.html())


def test_the_last_lines_are_kept_and_long_ones_cut() -> None:
    view = viewed(*(line(f"{n}\n") for n in range(KEPT + 5)), line("x" * 2 * LONGEST))

    assert f"the last {KEPT} of {KEPT + 5} lines" == view.text().splitlines()[-1]
    assert "main/0 | 5" == view.text().splitlines()[0]
    assert [LONGEST] == [len(found) for found in re.findall("xx+", view.html())]


def test_a_progress_bar_is_one_line_at_the_bottom() -> None:
    view = viewed(line("10%\r"), line("20%\r"), line("other\n", B), line("\r30%"))

    assert "main/10 | other\nmain/0 | 30%" == view.text()
    view.add(line("0\n"))
    assert "main/10 | other\nmain/0 | 30%0" == view.text()
    half = viewed(line("ha"), line("lf\n"))
    assert "main/0 | half" == half.text()


def test_nothing_is_obeyed_and_gaps_are_told() -> None:
    evil = "a\x1b]0;title\x07\x1b[2J\x1b[31mred\x1b[0m\x9b\n"
    view = viewed(line(evil), gap_line(LogGap(reason="rotated away"), A))

    assert "main/0 | ared\nmain/0 | lines are missing here: rotated away" == view.text()
