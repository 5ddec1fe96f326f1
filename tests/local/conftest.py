"""What the tests of processes on this machine share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from asyncsched.schedulers.local import LocalScheduler


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory of the test's own, not there yet."""
    path = tmp_path / "home"
    monkeypatch.setenv("ASYNCSCHED_HOME", str(path))
    return path


@pytest.fixture
async def scheduler(home: Path) -> AsyncIterator[LocalScheduler]:
    """A scheduler with that state directory."""
    async with LocalScheduler("session") as scheduler:
        yield scheduler
