"""How long the steps of every call of a runner are: what an application's loop has to share."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from asyncsched import AppDef, AppHandle, Role, Runner
from asyncsched.clock import Clock
from asyncsched.errors import AsyncSchedError
from asyncsched.testing import FakeScheduler, FakeService
from benchmarks._harness import LEAST_ROUNDS, Claim, Rounds, at_most, in_turns_on_loop, on_loop
from benchmarks._reference import STEP, reference_work

REPLICAS = 100
MANY = 10_000
LIMIT = 0.4
"""Of the reference work: far below all of it, which is what an application can count on."""

Call = Callable[[Runner, list[AppHandle]], Awaitable[object]]


async def _read(runner: Runner, handles: list[AppHandle]) -> int:
    return sum([1 async for _ in runner.log_lines(handles)])


async def _watch(runner: Runner, handles: list[AppHandle]) -> int:
    async with runner.watch(handles) as events:
        return len([await anext(events) for _ in handles])


async def _discard(runner: Runner, handles: list[AppHandle]) -> None:
    async with runner.watch(handles[1:]) as events:
        await anext(events)
        events.discard(*handles[1:])
        events.add(handles[0])
        while (await anext(events)).handle != handles[0]:
            pass


async def _complete(runner: Runner, handles: list[AppHandle]) -> int:
    return len([handle async for handle, _ in runner.as_completed(handles)])


CALLS: dict[str, tuple[int, Call]] = {
    "run": (2, lambda runner, handles: runner.run(_app(REPLICAS), "fake")),
    "dryrun": (2, lambda runner, handles: runner.dryrun(_app(REPLICAS), "fake")),
    "status": (2, lambda runner, handles: runner.status(handles[0])),
    "describe": (2, lambda runner, handles: runner.describe(handles[0])),
    "cancel": (2, lambda runner, handles: runner.cancel(handles[1])),
    "wait": (2, lambda runner, handles: runner.wait(handles[1])),
    "list": (MANY, lambda runner, handles: runner.list()),
    "watch": (MANY, _watch),
    "discard": (MANY, _discard),
    "wait_all": (MANY, lambda runner, handles: runner.wait_all(handles)),
    "as_completed": (MANY, _complete),
    "log_lines": (1000, _read),
}


class _Meter:
    """Keeps the longest of the loop's steps, by the CPU time of its thread."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.on = True
        self._run = asyncio.Handle._run

    def __enter__(self) -> _Meter:
        run = self._run

        def measured(handle: asyncio.Handle) -> None:
            began = time.thread_time()
            run(handle)
            if self.on:  # the step that switches it off is the benchmark's own
                self.longest = max(self.longest, time.thread_time() - began)

        gc.collect()
        gc.disable()  # a collection may fall into any step
        asyncio.Handle._run = measured  # type: ignore[method-assign,assignment]  # no other way to look at steps
        return self

    def __exit__(self, *error: object) -> None:
        self.on = False
        asyncio.Handle._run = self._run  # type: ignore[method-assign]  # as above
        gc.enable()


async def claims() -> AsyncIterator[Claim]:
    """Measure every call on a service that answers at once, where nothing hides what is ours."""
    for name, (apps, call) in CALLS.items():
        async with _started(apps, ended=name in ("wait", "wait_all", "as_completed")) as (runner, handles):
            await call(runner, handles[:2])  # what is imported or compiled once
            taken = await _in_turns(partial(_longest, call, runner, handles))
        yield _at_most(f"{name} ({apps} apps)", taken)
    for name in ("local_docker", "aws_batch"):
        taken = await _in_turns(partial(_cold, name))
        yield _at_most(f"the first watch on {name}", taken)


async def _in_turns(ours: Callable[[], Awaitable[float]]) -> Rounds[float]:
    return await in_turns_on_loop({"ours": ours, STEP: on_loop(reference_work)}, LEAST_ROUNDS)


def _at_most(name: str, taken: Rounds[float]) -> Claim:
    what = f"CPU of the longest step of {name}"
    return at_most(what, taken.ratio("ours", STEP), LIMIT, detail=taken.told(1e3, "ms"))


@asynccontextmanager
async def _started(apps: int, *, ended: bool) -> AsyncIterator[tuple[Runner, list[AppHandle]]]:
    """Give a runner with so many apps that write, or have ended."""
    service = FakeService(Clock(), start_delay=None)
    scheduler = FakeScheduler("benchmark", service)
    async with Runner("benchmark", {"fake": scheduler}) as runner:
        handles = [await runner.run(_app(1), "fake") for _ in range(apps)]
        for handle in handles:
            service.start(handle.app_id)
            service.say(handle.app_id, "a line\n" * 20)
            if ended:
                service.exit(handle.app_id)
        yield runner, handles
    await scheduler.close()
    service.close()


async def _longest(call: Call, runner: Runner, handles: list[AppHandle]) -> float:
    with _Meter() as meter:
        await _task(call(runner, handles))
    return meter.longest


async def _cold(name: str) -> float:
    """Return the same of the first use of a scheduler in a process that has not imported it."""
    command = (sys.executable, "-m", "benchmarks.runner_steps", name)
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    return float(out)


async def _first_watch(name: str) -> None:
    async with Runner("benchmark") as runner:
        with contextlib.suppress(TimeoutError, AsyncSchedError):  # there may be no daemon and no account here
            await asyncio.wait_for(anext(runner.watch([f"{name}://me/nosuchapp"])), 2)


async def _task(call: Awaitable[Any]) -> None:
    async def run() -> None:
        await call

    await asyncio.create_task(run())


def _app(replicas: int) -> AppDef:
    return AppDef("job", [Role("main", image="", entrypoint="work", num_replicas=replicas)])


if __name__ == "__main__":
    with _Meter() as one:
        asyncio.run(_task(_first_watch(sys.argv[1])))
    print(one.longest)  # read by the process that has started this one
