"""The contract on workspaces."""

from __future__ import annotations

import asyncio
import copy
import uuid
from pathlib import Path

import pytest

from asyncsched.errors import WorkspaceError
from asyncsched.testing.contract.rig import ContractRig, texts

__all__ = ["WorkspaceContract"]


class WorkspaceContract:
    """Apps run with a workspace's files; a backend without support for workspaces says so."""

    @pytest.fixture
    def workspace(self, rig: ContractRig, tmp_path: Path) -> str:
        """A workspace with a few files, for a backend that supports workspaces."""
        if type(rig.scheduler).workspace_builder is None:
            pytest.skip("this backend does not support workspaces")
        if not rig.runs_workspaces:
            pytest.skip("nothing here runs the images of workspaces")
        root = tmp_path / "workspace"
        (root / "sub").mkdir(parents=True)
        (root / "sub/hello.txt").write_text("hello from a file\n")
        (root / "tool.sh").write_text("#!/bin/sh\necho from a program\n")
        (root / "tool.sh").chmod(0o755)
        (root / "link").symlink_to("sub")
        return str(root)

    async def test_a_backend_without_workspaces_names_those_that_have_them(
        self, rig: ContractRig, tmp_path: Path
    ) -> None:
        if type(rig.scheduler).workspace_builder is not None:
            pytest.skip("this backend supports workspaces")

        for call in (rig.scheduler.submit, rig.scheduler.submit_dryrun):
            with pytest.raises(ValueError, match=r"does not support a workspace.*local_cwd"):
                await call(rig.app(), rig.cfg, str(tmp_path))

    async def test_an_app_finds_the_files_of_its_workspace(self, rig: ContractRig, workspace: str) -> None:
        app = rig.app("cat link/hello.txt; ./tool.sh")
        kept = copy.deepcopy(app)
        app_id = await rig.submit(app, workspace=workspace)
        found = await rig.ended(app_id)

        assert ["hello from a file", "from a program"] == texts(await rig.lines(app_id, should_tail=True))
        assert kept == app
        assert ["main"] == [role.name for role in found.roles]

    async def test_a_dry_run_with_a_workspace_is_scheduled_as_it_was_shown(
        self, rig: ContractRig, workspace: str
    ) -> None:
        before = await rig.listed()
        info = await rig.scheduler.submit_dryrun(rig.app("cat sub/hello.txt"), rig.cfg, workspace)

        assert before >= await rig.listed()
        assert " + workspace " in (info.workspace or "")
        assert " + workspace " in repr(info)
        assert info.app_id == await rig.scheduler.schedule(info)
        await asyncio.to_thread(Path(workspace, "sub/hello.txt").write_text, "edited")
        assert info.app_id == await rig.scheduler.schedule(info)
        assert ["hello from a file"] == texts(await rig.lines(info.app_id, should_tail=True))

    async def test_a_workspace_that_has_changed_since_its_dry_run_is_refused(
        self, rig: ContractRig, workspace: str
    ) -> None:
        file = Path(workspace, "sub/hello.txt")
        await asyncio.to_thread(file.write_text, uuid.uuid4().hex)  # content that cannot have been built before
        info = await rig.scheduler.submit_dryrun(rig.app("cat sub/hello.txt"), rig.cfg, workspace)
        await asyncio.to_thread(file.write_text, "edited")

        with pytest.raises(WorkspaceError, match="changed"):
            await rig.scheduler.schedule(info)
        assert not await rig.scheduler.exists(info.app_id)

    async def test_a_workspace_that_cannot_be_read_is_refused(self, rig: ContractRig, workspace: str) -> None:
        with pytest.raises(WorkspaceError, match="cannot read the workspace"):
            await rig.submit(rig.app(), workspace=f"{workspace}/missing")
