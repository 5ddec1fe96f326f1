"""Tell the scripts of groups that their groups are called off."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from asyncsched.cli.console import Console
from asyncsched.runner.groups.calling_off import call_off

__all__ = ["call_off_groups"]


async def call_off_groups(
    console: Console, groups: Sequence[str], sessions: Collection[str], running: Collection[str]
) -> None:
    """Ask the scripts of groups to start nothing more, and say who is reached.

    Args:
        console: Where to say it.
        groups: The groups.
        sessions: The sessions of their apps, and others whose scripts may start some.
        running: Those with apps that have not ended: where there is none, only a script that is known is spoken of.
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
