"""Workspaces of local apps: each app gets a copy, which is moved into its directory when it starts."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from asyncsched._tasks import finished_in_thread
from asyncsched._typing import override
from asyncsched.schedulers._common.copies import CopiedWorkspaces
from asyncsched.schedulers.local.errors import failed
from asyncsched.schedulers.local.state_dir import StateDir
from asyncsched.schedulers.local.supervisor.formats import APPS, COPIED, WORKSPACE, unfinished_name
from asyncsched.schedulers.local.supervisor.host import start_time
from asyncsched.specs.dryrun import WorkspacePlan
from asyncsched.specs.run_options import CfgVal

__all__ = ["LocalWorkspaces", "directory_of"]

_serial = itertools.count()


class _Owner(Protocol):
    _home: StateDir


class LocalWorkspaces(CopiedWorkspaces):
    """Copies the workspaces of one scheduler's apps.

    Args:
        scheduler: The scheduler.
    """

    def __init__(self, scheduler: _Owner) -> None:
        super().__init__("local")
        self._home = scheduler._home
        self._copied: dict[str, str] = {}

    @override
    async def own_places(self, cfg: Mapping[str, CfgVal]) -> list[str]:
        await asyncio.to_thread(self._home.choose)
        return [str(self._home.path)]

    @override
    async def build(self, plan: WorkspacePlan, app_id: str) -> None:
        """Copy the workspace of a dry-run; `copied` returns the copy."""
        from asyncsched.workspace.directory import copy_planned

        name = await asyncio.to_thread(self._make_name, app_id)
        await copy_planned(plan, str(self._home.path / APPS / name))
        self._copied[app_id] = name

    def _make_name(self, app_id: str) -> str:
        self._home.make()
        # Named like a supervisor's unfinished directories, so that it is removed like those if this process is killed.
        try:
            start = start_time(os.getpid()) or 0
        except OSError as error:
            raise failed("this process cannot be identified", error) from error
        return unfinished_name(os.getpid(), start, next(_serial), f"{app_id}{COPIED}")

    @asynccontextmanager
    async def copied(self, app_id: str) -> AsyncGenerator[str]:
        """Yield the name of an app's copy, empty if there is none; afterwards remove it unless it was moved."""
        name = self._copied.pop(app_id, "")
        try:
            yield name
        finally:
            if name:
                await finished_in_thread(lambda: self._home.remove_unfinished(name))


def directory_of(home: StateDir, app_id: str) -> Path:
    """Return the directory of an app's copy of its workspace."""
    return home.app_path(app_id) / WORKSPACE
