"""Apps for the tests on a cluster, and what becomes of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from asyncsched.schedulers.responses import DescribeAppResponse
from asyncsched.schedulers.slurm import SlurmScheduler
from asyncsched.specs import AppDef, Role

PATIENCE = 150.0


def shell(script: str, name: str = "main", **more: Any) -> Role:
    return Role(name, "", entrypoint="sh", args=["-c", script], **more)


def app(*roles: Role | str, name: str = "job", **more: Any) -> AppDef:
    """An app of roles, or of one that runs a shell script."""
    return AppDef(name, [shell(role, **more) if isinstance(role, str) else role for role in roles])


async def ended(scheduler: SlurmScheduler, app_id: str) -> DescribeAppResponse:
    last: DescribeAppResponse | None = None
    async with asyncio.timeout(PATIENCE), scheduler.watch([app_id]) as watch:
        async for event in watch:
            last = event.current
    assert last is not None
    return last


async def seen(
    scheduler: SlurmScheduler, app_id: str, condition: Callable[[DescribeAppResponse], bool]
) -> DescribeAppResponse:
    """Watch an app until it fulfils a condition."""
    async with asyncio.timeout(PATIENCE), scheduler.watch([app_id]) as watch:
        async for event in watch:
            if event.current is not None and condition(event.current):
                return event.current
    raise AssertionError(f"{app_id} ended without that")


async def run(scheduler: SlurmScheduler, what: AppDef, **cfg: Any) -> DescribeAppResponse:
    return await ended(scheduler, await scheduler.submit(what, cfg))


async def said(scheduler: SlurmScheduler, app_id: str, **query: Any) -> dict[tuple[str, int], list[str]]:
    """The lines of each replica."""
    lines: dict[tuple[str, int], list[str]] = {}
    async with asyncio.timeout(PATIENCE):
        async for line in scheduler.log_iter(app_id, **query):
            lines.setdefault((line.role, line.replica), []).append(line.text)
    return lines
