"""What the tests of formats share: each frozen release, and the user whose name the frozen answers hold."""

from __future__ import annotations

import pytest

from tests.formats._frozen import RELEASES


@pytest.fixture(autouse=True)
def recorded_by(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "root")


@pytest.fixture(params=RELEASES, scope="module")
def release(request: pytest.FixtureRequest) -> str:
    """A frozen release."""
    return str(request.param)
