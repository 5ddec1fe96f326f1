"""A supervisor for a test, which leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local.supervisor._client import Supervisor


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The state directory of the test."""
    return tmp_path / "home"


@pytest.fixture
def supervisor(home: Path, leaves_nothing: None) -> Iterator[Supervisor]:
    """A supervisor that is ended after the test, with all that it has started."""
    with Supervisor(home) as supervisor:
        yield supervisor
