"""Workspaces that are copied to the app's machine instead of built into images."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from asyncsched.specs.app import AppDef
from asyncsched.specs.dryrun import WorkspacePlan
from asyncsched.specs.run_options import CfgVal

__all__ = ["CopiedWorkspaces"]


class CopiedWorkspaces:
    """Reads the workspaces of one scheduler's apps; each app gets a separate copy.

    Args:
        backend: The scheduler's name, for log messages.
    """

    def __init__(self, backend: str) -> None:
        self._log = logging.getLogger(f"asyncsched.schedulers.{backend}")

    async def own_places(self, cfg: Mapping[str, CfgVal]) -> list[str]:
        """Return the directories in which the scheduler creates files; a copy leaves them out."""
        raise NotImplementedError

    async def preview(self, app: AppDef, workspace: str, cfg: Mapping[str, CfgVal]) -> WorkspacePlan:
        """Return the plan of the copy."""
        from asyncsched.workspace.directory import plan_copy  # imported late: few submits need it

        return await plan_copy(app, workspace, await self.own_places(cfg), self._log)

    async def build(self, plan: WorkspacePlan, app_id: str) -> None:
        """Make the copy, unless the submit makes it."""

    async def push(self, images: Mapping[str, tuple[str, str]]) -> None:
        """Do nothing: a copy is not an image."""
