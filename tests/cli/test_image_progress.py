"""How the command line shows the progress of images."""

from __future__ import annotations

import io
import logging
import sys

import pytest

from asyncsched.cli.console import Console
from asyncsched.cli.image_progress import image_progress
from asyncsched.specs.image_progress import ImageProgress
from asyncsched.workspace.docker import reporter


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def told(out: io.StringIO, monkeypatch: pytest.MonkeyPatch, **cfg: bool) -> str:
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setenv("TERM", "xterm")
    report = reporter(cfg)
    with image_progress(Console()):
        report(ImageProgress(image="app:1", status="Step 1/2 : FROM \x1b[31mbase"))
        report(ImageProgress(image="app:1", status="Pushing", layer="abc", current=1_500_000, total=3_000_000))
        report(ImageProgress(image="app:1", status="Pushed", layer="abc"))
    report(ImageProgress(image="app:1", status="after"))
    return out.getvalue()


def test_lines_elsewhere_have_each_step_and_no_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    text = told(io.StringIO(), monkeypatch)

    first, second = text.splitlines()
    assert first.startswith("app:1: Step 1/2 : FROM ")
    assert "\x1b" not in text
    assert "app:1: Pushed abc" == second


def test_a_terminal_has_one_line_which_goes_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    text = told(Terminal(), monkeypatch)

    assert "\n" not in text
    assert "app:1: Pushing abc 1.5/3.0 MB" in text
    assert 4 == text.count("\r\x1b[K")
    assert text.endswith("\r\x1b[K")
    assert "\x1b[31m" not in text


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_a_narrow_terminal_keeps_what_is_done_and_shortens_the_name(
    monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setenv("TERM", "xterm")
    with image_progress(Console()):
        reporter({})(ImageProgress(image=f"registry.example:5000/team/app:{'4be97e' * 11}", status="Pushing layers"))

    line = out.getvalue().split("\x1b[K")[1].rstrip("\r")
    assert line.endswith(": Pushing layers")
    assert len(line) < columns


def test_quiet_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "" == told(io.StringIO(), monkeypatch, quiet=True)


def test_a_warning_has_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setenv("TERM", "xterm")
    with image_progress(Console()):
        reporter({})(ImageProgress(image="app:1", status="Pulling"))
        logging.getLogger("asyncsched.workspace").warning("passed over: a pipe")

    assert "passed over" not in out.getvalue()
    assert ["passed over: a pipe"] == [record.message for record in caplog.records]
    assert 2 == out.getvalue().count("\r\x1b[K")
