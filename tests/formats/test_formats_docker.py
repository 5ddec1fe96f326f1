"""Containers of a release before: their labels, names and states tell the same apps."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asyncsched.errors import ConflictError
from asyncsched.schedulers import get_scheduler
from asyncsched.specs import AppDef, Role
from tests.formats._docker import KEYED, OPTIONS, old_daemon, told
from tests.formats._frozen import KEYS, changed, frozen


@pytest.fixture
def heard(release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A daemon that tells what was frozen; the requests that it has heard."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "config"))
    for name in ("DOCKER_CONTEXT", "DOCKER_TLS", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"):
        monkeypatch.delenv(name, raising=False)
    with old_daemon(frozen(release, "docker/daemon.json"), tmp_path / "docker.sock") as heard:
        yield heard


def test_apps_are_told_as_they_were(release: str, heard: list[str]) -> None:
    before: Any = frozen(release, "docker/told.json")

    async def look() -> Any:
        async with get_scheduler("local_docker", "other") as scheduler:
            return await told(scheduler, [*before["described"]])

    assert [] == [*changed(before, asyncio.run(look()))]


def test_a_key_that_was_used_before_is_the_same_app(release: str, heard: list[str]) -> None:
    before: Any = frozen(release, "docker/told.json")
    (keyed,) = (app_id for app_id in before["described"] if app_id.startswith(KEYS))

    async def again(app: AppDef) -> str:
        async with get_scheduler("local_docker", "session") as scheduler:
            info = await scheduler.submit_dryrun(app, OPTIONS, key=KEYS)
            return await scheduler.schedule(info)

    assert keyed == asyncio.run(again(KEYED))
    with pytest.raises(ConflictError):
        asyncio.run(again(AppDef("other", [Role("worker", "image", entrypoint="true")])))
    assert [] == [line for line in heard if not line.startswith("GET ")]
