"""Apps of an older release, with its supervisor still running, in the hands of the present one; and the reverse."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests._support import eventually_blocking
from tests.cli._cli import Cli
from tests.formats._frozen import KEYS, RELEASES, unpack_package

SCRIPT = "echo started; trap 'echo told to end; exit 0' TERM; while :; do sleep 0.05; done"


class Both:
    """Two command lines on one state directory: that of the release before, and the present one."""

    def __init__(self, release: str, folder: Path) -> None:
        package = unpack_package(release, folder / "package")
        work = folder / "work"
        work.mkdir()
        home = {"ASYNCSCHED_HOME": str(folder / "home")}
        self.old = Cli(work, home, [package], ["local_cwd"])
        self.new = Cli(work, home, [], ["local_cwd"])
        self.started: list[tuple[Cli, str]] = []

    def run(self, cli: Cli, *args: str) -> str:
        """Start a detached app and return its handle."""
        done = cli("run", "--detach", *args)
        assert 0 == done.code, done.err
        (handle,) = done.lines
        self.started.append((cli, handle))
        return handle

    def end(self) -> None:
        """End what is left, by the release that has started it: the other one may be what has failed."""
        for cli in (self.old, self.new):
            if left := [handle for starter, handle in self.started if starter is cli]:
                cli("cancel", *left)


@pytest.fixture(params=RELEASES)
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Both]:
    made = Both(request.param, tmp_path)
    yield made
    made.end()


def test_the_old_package_is_what_runs(both: Both) -> None:
    code = "import asyncsched.schedulers.local as local; print(local.__file__)"
    where = subprocess.run(
        [sys.executable, "-c", code], cwd=both.old.folder, env=both.old.env, capture_output=True, text=True, check=True
    )

    assert str(both.old.plugins[0]) in where.stdout


@pytest.mark.parametrize(
    "upward",
    [pytest.param(True, id="old app, new hands"), pytest.param(False, id="new app, old hands", marks=pytest.mark.slow)],
)
def test_a_detached_app_is_listed_followed_cancelled_and_deleted(both: Both, tmp_path: Path, upward: bool) -> None:
    starter, other = (both.old, both.new) if upward else (both.new, both.old)
    handle = both.run(starter, "--", "sh", "-c", SCRIPT)

    assert [(handle, "RUNNING")] == [(row["handle"], row["state"]) for row in other("list", "-o", "json").json]
    follower = other.start("log", "-f", handle)
    try:
        assert follower.stdout is not None
        assert "sh/0 started\n" == follower.stdout.readline()
        assert 0 == other("cancel", handle).code
        assert follower.communicate(timeout=40)[0].endswith("sh/0 told to end\n")  # the shell may say a word before
    finally:
        follower.kill()
        follower.communicate()
    (ended,) = other("wait", "-o", "json", handle).json
    assert ("CANCELLED", 0) == (ended["state"], ended["roles"][0]["replicas"][0]["exit_code"])
    assert 0 == other("delete", handle).code
    assert [] == starter("list", "-o", "json").json
    eventually_blocking(lambda: not list((tmp_path / "home" / "supervisors").iterdir()))


def test_an_app_that_has_ended_is_told_with_its_code_and_its_log(both: Both) -> None:
    handle = both.run(both.old, "--replicas", "2", "--", "sh", "-c", "echo one; echo two >&2; exit 3")

    assert 1 == both.new("wait", handle).code
    assert ["one", "one", "two", "two"] == sorted(line["text"] for line in both.new("log", "-o", "jsonl", handle).jsonl)
    (status,) = both.new("status", "-o", "json", handle).json
    assert [3, 3] == [each["exit_code"] for each in status["roles"][0]["replicas"]]


def test_a_key_that_was_used_before_the_upgrade_is_the_same_app_after_it(both: Both) -> None:
    """The digest of an unchanged app and unchanged options stays: a field that is new must not enter it by default."""
    command = ("--key", KEYS, "--", "sleep", "3600")
    handle = both.run(both.old, *command)

    assert handle == both.run(both.new, *command)
    other = both.new("run", "--detach", "--key", KEYS, "--", "sleep", "1800")

    assert [] == other.lines
    assert "ConflictError" in other.err
