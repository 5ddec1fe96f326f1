"""What the tests of processes on this machine share."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from asyncsched.schedulers.local import LocalScheduler
from asyncsched.schedulers.local.supervisor.host import is_alive
from tests._support import eventually_blocking
from tests.local._local import IS_ROOT, NOBODY
from tests.local._log import Log


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state directory of the test's own, not there yet; at the end, no supervisor of it is left."""
    path = tmp_path / "home"
    monkeypatch.setenv("ASYNCSCHED_HOME", str(path))
    yield path
    eventually_blocking(lambda: not _supervisors(path))
    assert [] == [each.read_text() for each in path.glob("crash.*")]


def _supervisors(home: Path) -> list[int]:
    """Return the supervisors of a state directory that are there."""
    names = [each.stem.partition("-") for each in (home / "supervisors").glob("*.sock")]
    return [int(pid) for pid, _, start in names if is_alive(int(pid), int(start))]


@pytest.fixture
async def scheduler(home: Path) -> AsyncIterator[LocalScheduler]:
    """A scheduler with that state directory."""
    async with LocalScheduler("session") as scheduler:
        yield scheduler


@pytest.fixture
def ordinary_home() -> Iterator[Path]:
    """A directory of an ordinary user, where we are root: one that he can reach."""
    with tempfile.TemporaryDirectory(prefix="asyncsched-") as name:
        if IS_ROOT:
            os.chown(name, NOBODY, NOBODY)
        yield Path(name)


@pytest.fixture
def token() -> str:
    """What marks the processes of a test's app."""
    return f"mark-{uuid4().hex}"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where the log of a replica lies."""
    return tmp_path / "0"


@pytest.fixture
def log(place: Path) -> Iterator[Log]:
    """The log there, as a supervisor writes it."""
    log = Log(place)
    yield log
    log.close()
