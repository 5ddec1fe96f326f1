"""A durable group of jobs, run as ``python -m tests.runner.durable_script PLAN``, which dies where it is told to.

PLAN is JSON, a `Plan` of tests.runner.durable.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from asyncsched import AppDef, BindMount, Role, Runner
from asyncsched.errors import ConflictError
from asyncsched.runner.groups.journal import Journal
from asyncsched.specs.mounts import Mount

TOLD = 3
"""How it ends when it is told that another process runs the group."""


async def main(plan: dict[str, Any]) -> None:
    if plan["kill_at"]:
        _die_at(plan["kill_at"], sent_only=plan["sent_only"])
    mounts: list[Mount] = [BindMount(plan["out"], plan["inside"])] if plan["inside"] != plan["out"] else []
    async with Runner("kills") as runner:
        try:
            async with runner.group(plan["scheduler"], plan["cfg"], limit=plan["limit"], key="durable") as group:
                for index in range(plan["jobs"]):
                    script = f"{plan['before']}echo run >> {plan['inside']}/ran-{index}"
                    role = Role("main", plan["image"], entrypoint="sh", args=["-c", script], mounts=mounts)
                    group.start(AppDef("job", [role]))
        except ConflictError:
            sys.exit(TOLD)
        assert all(job.state.name == "SUCCEEDED" for job in group.jobs)


def _die_at(count: int, *, sent_only: bool) -> None:
    """Die before the line of this number is added to the journal.

    Args:
        count: Which line.
        sent_only: Whether only lines count that say that a submit has returned: its app is there, and nothing says so.
    """
    passed = 0
    add: Callable[..., None] = Journal.add

    def counted(self: Journal, *lines: Any, **more: Any) -> None:
        nonlocal passed
        passed += sum("sent" in line for line in lines) if sent_only else 1
        if passed >= count:
            os.kill(os.getpid(), signal.SIGKILL)
        add(self, *lines, **more)

    Journal.add = counted  # type: ignore[method-assign]  # where a process may die is between two of its lines


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
