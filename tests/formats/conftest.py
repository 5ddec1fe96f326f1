"""The frozen answers name the user that they were recorded by."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def recorded_by(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "root")
