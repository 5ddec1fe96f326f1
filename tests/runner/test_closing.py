"""Closing takes as long as what it ends is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from asyncsched import AppDef, AppState, Role, Runner

GRACE = 16.0
"""More than closing a scheduler takes that has nothing to end."""


@pytest.mark.slow
async def test_apps_get_their_grace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASYNCSCHED_HOME", str(tmp_path / "home"))
    deaf = Role("deaf", "", entrypoint="sh", args=["-c", "trap '' TERM; echo ready; while :; do sleep 1; done"])
    async with Runner("first") as runner:
        handle = await runner.run(AppDef("deaf", [deaf]), "local_cwd", {"grace_period": GRACE})
        async for line in runner.log_lines(handle, should_tail=True):
            assert "ready" == line.text
            break
    async with Runner("second") as runner:
        status = await runner.status(handle)

    assert status is not None
    assert AppState.CANCELLED is status.state
    assert "SIGKILL" in status.roles[0].replicas[0].reason
