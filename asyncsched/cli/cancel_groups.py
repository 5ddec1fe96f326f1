"""Tell the scripts that run groups that their groups were cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from asyncsched.cli.console import Console
from asyncsched.runner.groups.calling_off import call_off

__all__ = ["call_off_groups"]


async def call_off_groups(
    console: Console, groups: Sequence[str], sessions: Collection[str], running: Collection[str]
) -> None:
    """Tell the scripts of groups to start no more jobs, and report which were reached.

    Args:
        console: Where to report it.
        groups: The groups.
        sessions: The sessions of their apps, and others whose scripts may start jobs of them.
        running: The sessions with apps that have not ended. If there are none, only scripts that were reached are
            reported.
    """
    for group in dict.fromkeys(groups):
        try:
            folder, pids = await asyncio.to_thread(call_off, group, sessions, running)
        except OSError as error:
            console.say(f"warning: scripts that start jobs of {group} could not be told to stop: {error}")
            continue
        for pid in pids:
            console.say(f"{group}: process {pid}, which starts its jobs, was told to stop starting them")
        if running and not pids:
            console.say(
                f"{group}: scripts that still start its jobs stop only if they share {folder} with this process"
            )
