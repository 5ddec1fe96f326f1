"""Many replicas, as an ordinary user with ordinary limits."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests._support import eventually_blocking
from tests.local.supervisor._client import BOOT, Log, Supervisor, app, shell

NOBODY = 65534
REPLICAS = 600
SOFT_LIMIT = ("/bin/sh", "-c", 'ulimit -S -n 1024; exec "$@"', "sh")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def ordinary(leaves_nothing: None) -> Iterator[Supervisor]:
    """A supervisor of an ordinary user, who may open 1,024 files unless he asks for more."""
    # Not below the directories of pytest, which nobody else may enter.
    place = Path(tempfile.mkdtemp())
    try:
        with _start(place) as supervisor:
            yield supervisor
    finally:
        shutil.rmtree(place)


def _start(place: Path) -> Supervisor:
    home = place / "home"
    if os.geteuid() != 0:
        return Supervisor(home, prefix=SOFT_LIMIT)
    home.mkdir(mode=0o700)
    place.chmod(0o755)
    os.chown(home, NOBODY, NOBODY)
    # It runs from anywhere: ours may lie where nobody else may look.
    copy = shutil.copytree(BOOT.parent, place / "supervisor")
    prefix = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *SOFT_LIMIT)
    return Supervisor(home, prefix=prefix, boot=(_python(prefix), "-I", "-S", str(copy / BOOT.name)))


def _python(prefix: tuple[str, ...]) -> str:
    if not shutil.which("setpriv"):
        pytest.skip("becoming another user takes setpriv")
    for each in (sys.executable, "/usr/bin/python3"):
        command = [*prefix, each, "-I", "-c", "import sys; assert sys.version_info >= (3, 11)"]
        if not subprocess.run(command, check=False, capture_output=True).returncode:
            return each
    pytest.skip("no interpreter that an ordinary user may run")


def _has_written(log: Log) -> bool:
    return log.stdout.endswith(b"\n") and log.stderr.endswith(b"\n")


def test_six_hundred_replicas(ordinary: Supervisor) -> None:
    before = ordinary.descriptors()
    ordinary.sock.settimeout(120)
    replicas = [shell(f"echo {k} $(id -u) $(ulimit -n); echo err >&2; exec sleep 1000", k=k) for k in range(REPLICAS)]
    ordinary.submit(*replicas)
    user = NOBODY if os.geteuid() == 0 else os.geteuid()

    for k in range(REPLICAS):
        log = ordinary.log(k)
        eventually_blocking(functools.partial(_has_written, log))
        assert f"{k} {user} 1024\n".encode() == log.stdout
    # Two pipes and three files each.
    assert len(ordinary.descriptors()) < len(before) + 5 * REPLICAS + 10

    ordinary.ask("cancel", app_id="app")
    record = ordinary.until()
    assert {-15} == {each["exit_code"] for each in record["replicas"]}
    assert all(each["over"] for each in record["replicas"])
    eventually_blocking(lambda: ordinary.descriptors() == before)


def test_two_hundred_processes_that_ignore_term(ordinary: Supervisor) -> None:
    ordinary.sock.settimeout(120)
    ordinary.submit(
        *[shell("trap '' TERM; echo ready; while :; do sleep 1000; done", k=k) for k in range(200)], grace_period=0.5
    )
    for k in range(200):
        ordinary.log(k).wait_for(b"ready\n")
    ordinary.ask("cancel", app_id="app")

    assert {-9} == {each["exit_code"] for each in ordinary.until()["replicas"]}


def test_too_few_descriptors_are_a_refusal(home: Path, leaves_nothing: None) -> None:
    with Supervisor(home, prefix=["/bin/sh", "-c", 'ulimit -n 100; exec "$@"', "sh"]) as supervisor:
        before = supervisor.descriptors()
        answer = supervisor.ask("submit", app=app(*[shell("exit 0", k=k) for k in range(50)]))

        assert ("refused", "Too many open files") == (answer["error"], answer["message"])
        eventually_blocking(lambda: supervisor.descriptors() == before)
        assert 0 == supervisor.run(shell("exit 0"))["replicas"][0]["exit_code"]
