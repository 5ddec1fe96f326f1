"""What the verbs about apps share: what is known of each app, what is told of failures, doing something to each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence

from asyncsched.cli.console import Console
from asyncsched.cli.errors import fail, worst
from asyncsched.cli.loop import answers, run_with_runner
from asyncsched.cli.show import error_row, handle_row, state_code, status_row
from asyncsched.cli.targets import Found, Target, find_apps, parse_target
from asyncsched.errors import UnknownAppError
from asyncsched.runner.runner import Runner
from asyncsched.schedulers.responses import DescribeAppResponse
from asyncsched.specs.handle import AppHandle
from asyncsched.specs.state import AppStatus

__all__ = ["act_on_each", "describe_found", "finish", "run_on_apps", "unknown", "watch_found"]


def run_on_apps(
    console: Console,
    apps: Iterable[str],
    work: Callable[[Console, Runner, Sequence[Target]], Awaitable[int]],
    *,
    parts: bool = False,
) -> int:
    """Return what `work` does with the apps that were named on the command line, with their parts or as a whole."""
    targets = [parse_target(app, parts=parts) for app in apps]
    return run_with_runner(console, lambda runner: work(console, runner, targets))


async def describe_found(
    runner: Runner, handles: Iterable[AppHandle]
) -> dict[AppHandle, DescribeAppResponse | Exception | None]:
    """Return what is known of each app, or why nothing is; each scheduler is asked once for all of its apps."""
    handles = list(handles)
    by_scheduler: dict[str, list[AppHandle]] = {}
    for handle in handles:
        by_scheduler.setdefault(handle.scheduler, []).append(handle)

    async def ask(name: str) -> dict[str, DescribeAppResponse | None]:
        scheduler = await runner.scheduler(name)
        return await scheduler.describe_many([handle.app_id for handle in by_scheduler[name]])

    told = await answers(ask, by_scheduler)
    found: dict[AppHandle, DescribeAppResponse | Exception | None] = {}
    for handle in handles:
        answer = told[handle.scheduler]
        found[handle] = answer if isinstance(answer, Exception) else answer.get(handle.app_id)
    return found


async def unknown(runner: Runner, handle: AppHandle) -> UnknownAppError:
    """Return the error of a handle whose scheduler knows no such app; it says which cluster was asked."""
    fix = f"`asyncsched list -s {handle.scheduler}` shows those that there are"
    place = (await runner.scheduler(handle.scheduler)).place
    where = f" in {place}" if place else ""
    return UnknownAppError(f"no app {handle.app_id} on {handle.scheduler}{where}", fix=fix)


def finish(console: Console, failures: Iterable[Exception], codes: Iterable[int] = (), *, alone: bool = False) -> int:
    """Tell of each failure once, in one line if there are answers beside it; return the exit code of it all."""
    once = {(type(error), str(error)): error for error in failures}
    if alone and len(once) == 1:
        raise next(iter(once.values()))
    return worst([*(fail(console, error) for error in once.values()), *codes])


async def watch_found(console: Console, runner: Runner, found: Found) -> int:
    """Print each change of the apps until all have ended; return the exit code of their ends."""
    failures, codes = list(found.failures), list[int]()
    changes: list[dict[str, object]] = []
    async with runner.watch(found.handles) as events:
        while True:
            try:
                event = await anext(events)
            except StopAsyncIteration:
                break
            except Exception as error:  # noqa: BLE001 - one scheduler's; the steps after it are the others'
                failures.append(error)
                continue
            if event.current is None:
                failures.append(await unknown(runner, event.handle))
                continue
            if console.format == "json":
                changes.append(status_row(event.handle, event.current))
            else:
                _print_change(console, event.handle, event.current)
            if event.over:
                codes.append(state_code(event.state))
    if console.format == "json":
        console.print_rows((), changes)
    return finish(console, failures, codes, alone=not codes)


def _print_change(console: Console, handle: AppHandle, status: AppStatus) -> None:
    if console.format == "table":
        console.print(f"{handle}  {status.state}{f'  {status.msg}' if status.msg else ''}")
    else:
        console.print_json(status_row(handle, status))


async def act_on_each(
    console: Console, runner: Runner, targets: Sequence[Target], act: Callable[[str], Awaitable[None]], done: str
) -> int:
    """Do something to each app that is known, tell what was done, and return the exit code.

    An unknown one is an error here: who types its name believes that it is there.
    """
    found = await find_apps(runner, targets)
    failures = list(found.failures)
    told: dict[AppHandle, str | Exception] = {}
    for handle, answer in (await describe_found(runner, found.handles)).items():
        told[handle] = (
            await unknown(runner, handle) if answer is None else answer if isinstance(answer, Exception) else done
        )
    known = [handle for handle, answer in told.items() if not isinstance(answer, Exception)]
    told |= {handle: error for handle, error in (await answers(act, known)).items() if error is not None}
    failures += [answer for answer in told.values() if isinstance(answer, Exception)]
    if console.format != "table":
        console.print_rows((), [_deed(handle, answer) for handle, answer in told.items()])
    for handle in known:
        if told[handle] is done and console.format == "table":
            console.say(f"{handle}: {done}")
    return finish(console, failures, alone=len(told) <= 1)


def _deed(handle: AppHandle, answer: str | Exception) -> dict[str, object]:
    return error_row(handle, answer) if isinstance(answer, Exception) else {**handle_row(handle), "done": answer}
