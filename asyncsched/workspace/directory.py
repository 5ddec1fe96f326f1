"""Copy a workspace's files on this machine; writing to the copy never changes the workspace."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from typing import TYPE_CHECKING, cast

from asyncsched._tasks import finished_in_thread
from asyncsched.errors import WorkspaceError
from asyncsched.specs.dryrun import WorkspacePlan
from asyncsched.workspace.context import Context, open_tree
from asyncsched.workspace.hashing import workspace_hash
from asyncsched.workspace.threads import Check, in_thread

if TYPE_CHECKING:
    import logging

    from asyncsched.specs.app import AppDef

__all__ = ["IGNORE_FILE", "DirWorkspace", "changed_since", "copy_planned", "directory_hash", "plan_copy"]

IGNORE_FILE = ".asyncschedignore"
"""The file in a workspace's root that lists what a copy leaves out."""

NOTES = 10
"""How many skipped files are logged by name."""


class DirWorkspace:
    """Copy a workspace into directories.

    Attributes:
        workspace: A directory on this machine, or a URL that fsspec can read.
        leave_out: Directories to skip, such as the one that holds the copies.
    """

    def __init__(self, workspace: str, leave_out: Sequence[str] = ()) -> None:
        self.workspace = workspace
        self.leave_out = leave_out

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.workspace!r}, {self.leave_out!r})"

    async def context(self) -> Context:
        """List what would be copied."""
        return await Context.read(self.workspace, ignore=IGNORE_FILE, leave_out=self.leave_out)

    async def hash(self) -> str:
        """Return the workspace hash: equal for equal files, whatever their times and location."""
        return await directory_hash(await self.context())

    async def copy(self, directory: str, expected: str | None = None) -> str:
        """Copy the files into a new directory and return the workspace hash of the copy.

        Modes, empty directories and times are kept. Links stay links: a link to a path in the workspace leads to the
        same path in the copy, any other link leads where it led before. If this fails or is cancelled, nothing is left.

        Args:
            directory: The directory to create; it must not exist.
            expected: The hash that the copy must have; None for any.

        Raises:
            WorkspaceError: A file cannot be read or written, has changed meanwhile, or the hash is not `expected`.
        """
        context = await self.context()

        made: list[str] = []

        def copy(check: Check) -> str:
            from asyncsched.workspace.copying import Copy, make_directory  # loaded when a workspace is first copied

            with closing(open_tree(context.workspace)) as tree:
                make_directory(directory)
                made.append(directory)
                return workspace_hash(Copy(tree, context, directory, check).make())

        try:
            found = await in_thread(copy)
            if expected not in (None, found):
                raise changed_since(context.workspace)
        except (Exception, asyncio.CancelledError):  # others leave no time to wait; the next clean-up removes the copy
            if made:
                with suppress(OSError):  # the first error is to be told
                    await finished_in_thread(lambda: remove(directory))
            raise
        return found


async def plan_copy(app: AppDef, workspace: str, leave_out: Sequence[str], log: logging.Logger) -> WorkspacePlan:
    """Plan a copy for a dry-run, and log what is skipped.

    Args:
        app: The app that will run in the copy.
        workspace: A directory or a URL.
        leave_out: Directories to skip, with those of their parents that do not exist yet.
        log: The logger for skipped files.
    """
    leave_out = await in_thread(lambda _: [each for path in leave_out for each in (path, *_missing(path))])
    context = await DirWorkspace(workspace, leave_out).context()
    for note in context.notes[:NOTES]:
        log.warning("the workspace %s is copied without %s", context.workspace, note)
    if len(context.notes) > NOTES:
        log.warning("the workspace %s is copied without %d others", context.workspace, len(context.notes) - NOTES)
    return WorkspacePlan(app, context.workspace, {"": await directory_hash(context)}, detail=leave_out)


def _missing(path: str) -> Iterator[str]:
    """Yield the parents of a directory that do not exist yet."""
    while not os.path.exists(path := os.path.dirname(path)):
        yield path


async def copy_planned(plan: WorkspacePlan, directory: str) -> None:
    """Make the copy that `plan_copy` has planned, in a directory that must not exist.

    Raises:
        WorkspaceError: The files have changed since, or cannot be copied; nothing is left.
    """
    await DirWorkspace(plan.workspace, cast("Sequence[str]", plan.detail)).copy(directory, plan.hashes[""])


async def directory_hash(context: Context) -> str:
    """Return the workspace hash of a copy."""
    return workspace_hash(await context.digest())


def remove(directory: str) -> None:
    """Remove a copy and its content, whatever its modes, if it exists. It blocks."""
    import shutil  # imported only when something is removed

    with suppress(FileNotFoundError):
        os.chmod(directory, 0o700)
        for parent, names, _ in os.walk(directory):
            for name in names:
                if not os.path.islink(path := f"{parent}/{name}"):
                    os.chmod(path, 0o700)
        shutil.rmtree(directory)


def changed_since(workspace: str) -> WorkspaceError:
    """Return the error for a workspace that has changed since its dry-run."""
    return WorkspaceError(
        f"the workspace {workspace} has changed since its dry-run",
        why="its hash differs, and schedule launches only what the dry-run showed",
        fix="dry-run again (info.renew()), and schedule that",
    )
