"""Workspaces that are copied to where an app runs, and are not made into images."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from asyncsched.specs.app import AppDef
from asyncsched.specs.dryrun import WorkspacePlan
from asyncsched.specs.run_options import CfgVal

__all__ = ["CopiedWorkspaces"]


class CopiedWorkspaces:
    """Reads the workspaces of one scheduler's apps; a copy belongs to its app alone.

    Args:
        backend: The scheduler's name, for its log.
    """

    def __init__(self, backend: str) -> None:
        self._log = logging.getLogger(f"asyncsched.schedulers.{backend}")

    async def own_places(self, cfg: Mapping[str, CfgVal]) -> list[str]:
        """Return the directories in which the scheduler makes others: a copy leaves them out."""
        raise NotImplementedError

    async def preview(self, app: AppDef, workspace: str, cfg: Mapping[str, CfgVal]) -> WorkspacePlan:
        """Return what would be copied."""
        from asyncsched.workspace.directory import plan_copy  # few submits need it

        return await plan_copy(app, workspace, await self.own_places(cfg), self._log)

    async def build(self, plan: WorkspacePlan, app_id: str) -> None:
        """Make the copy, if it is not made by the submit itself."""

    async def push(self, images: Mapping[str, tuple[str, str]]) -> None:
        """Do nothing: a copy is no image."""
