"""How long the steps of every call of a runner are, and how many: what an application's loop has to share."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from asyncsched import AppDef, AppHandle, Role, Runner
from asyncsched.clock import Clock
from asyncsched.testing import FakeScheduler, FakeService
from benchmarks._harness import Claim, at_most

REPLICAS = 100
APPS = 500
Call = Callable[[Runner, list[AppHandle]], Awaitable[object]]


async def _read(runner: Runner, handles: list[AppHandle]) -> int:
    return sum([1 async for _ in runner.log_lines(handles)])


async def _watch(runner: Runner, handles: list[AppHandle]) -> int:
    async with runner.watch(handles) as events:
        return len([await anext(events) for _ in handles])


CALLS: dict[str, Call] = {
    "run": lambda runner, handles: runner.run(_app(REPLICAS), "fake"),
    "dryrun": lambda runner, handles: runner.dryrun(_app(REPLICAS), "fake"),
    "status": lambda runner, handles: runner.status(handles[0]),
    "describe": lambda runner, handles: runner.describe(handles[0]),
    "list": lambda runner, handles: runner.list(),
    "cancel": lambda runner, handles: runner.cancel(handles[1]),
    "wait": lambda runner, handles: runner.wait(handles[1]),
    f"watch of {APPS} apps": _watch,
    f"logs of {APPS} apps": _read,
}


class _Meter:
    """Counts the loop's steps and keeps the longest, by the CPU time of its thread."""

    def __init__(self) -> None:
        self.steps = 0
        self.longest = 0.0
        self._run = asyncio.Handle._run

    def __enter__(self) -> _Meter:
        run = self._run

        def measured(handle: asyncio.Handle) -> None:
            began = time.thread_time()
            run(handle)
            self.steps += 1
            self.longest = max(self.longest, time.thread_time() - began)

        gc.collect()
        gc.disable()  # a collection may fall into any step
        asyncio.Handle._run = measured  # type: ignore[method-assign,assignment]  # no other way to look at steps
        return self

    def __exit__(self, *error: object) -> None:
        asyncio.Handle._run = self._run  # type: ignore[method-assign]  # as above
        gc.enable()


async def claims() -> AsyncIterator[Claim]:
    """Measure every call on a service that answers at once, where nothing hides what is ours."""
    for name, call in CALLS.items():
        service = FakeService(Clock(), start_delay=None)
        scheduler = FakeScheduler("benchmark", service)
        async with Runner("benchmark", {"fake": scheduler}) as runner:
            handles = [await runner.run(_app(1), "fake") for _ in range(APPS)]
            for handle in handles:
                service.start(handle.app_id)
                service.say(handle.app_id, "a line\n" * 20)
            service.exit(handles[1].app_id)
            await call(runner, handles)  # what is imported or compiled once
            with _Meter() as meter:
                await _task(call(runner, handles))
        await scheduler.close()
        service.close()
        yield at_most(
            f"no step of {name} takes 20 ms",
            meter.longest * 1000,
            20.0,
            unit=" ms",
            detail=f"{meter.steps} steps",
        )


async def _task(call: Awaitable[Any]) -> None:
    async def run() -> None:
        await call

    await asyncio.create_task(run())


def _app(replicas: int) -> AppDef:
    return AppDef("job", [Role("main", image="", entrypoint="work", num_replicas=replicas)])
