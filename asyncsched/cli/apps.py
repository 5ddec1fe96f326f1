"""What the verbs about apps share: which apps they are about, what is known of each, what is told of failures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace

from asyncsched.cli.app_arguments import Target, parse_target
from asyncsched.cli.console import Console
from asyncsched.cli.errors import fail, worst
from asyncsched.cli.last_launched import LAST, last_launched
from asyncsched.cli.run_async import answers, run_with_runner
from asyncsched.errors import ConfigError, UnknownAppError
from asyncsched.runner.runner import Runner
from asyncsched.schedulers.responses import DescribeAppResponse
from asyncsched.specs.handle import AppHandle

__all__ = ["describe_found", "finish", "run_on_apps", "unknown"]


def run_on_apps(
    console: Console,
    apps: Iterable[str],
    work: Callable[[Console, Runner, Sequence[Target]], Awaitable[int]],
    *,
    parts: bool = False,
    groups: Iterable[str] = (),
    scheduler: str | None = None,
    or_last: bool = True,
) -> int:
    """Return what `work` does with the apps that were named on the command line, with their parts or as a whole.

    Args:
        console: Where to print.
        apps: The apps as they were named.
        work: Does it.
        parts: Whether roles and replicas may be named.
        groups: The groups that were named.
        scheduler: The one that was named to look for them.
        or_last: Whether the app that was launched last is meant where none is named.
    """
    only = scheduler or ""
    targets = [_target(parse_target(app, parts=parts), only) for app in apps]
    targets += [Target(app=group, is_group=True, only=only) for group in groups]
    if or_last and not targets:
        targets = [_target(Target(app=LAST), only)]
        console.say(f"note: {targets[0].app} was launched last")
    return run_with_runner(console, lambda runner: work(console, runner, targets))


def _target(target: Target, only: str) -> Target:
    """Return what is meant, on the scheduler that was named."""
    if target.app == LAST:
        last = last_launched(only)
        if last is None:
            where = f" on {only}" if only else ""
            raise UnknownAppError(f"no app was launched from here{where}", fix="name one; `asyncsched list` shows them")
        return replace(target, app=last)
    if only and target.scheduler not in ("", only):
        raise ConfigError(f"{target.app} is on {target.scheduler}, and -s names {only}", fix="leave out one of them")
    return replace(target, only=only)


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
    fix = f"`asyncsched list -s {handle.scheduler}` shows the apps that exist"
    place = (await runner.scheduler(handle.scheduler)).place
    where = f" in {place}" if place else ""
    return UnknownAppError(f"no app {handle.app_id} on {handle.scheduler}{where}", fix=fix)


def finish(console: Console, failures: Iterable[Exception], codes: Iterable[int] = (), *, alone: bool = False) -> int:
    """Tell of each failure once, in one line if there are answers beside it; return the exit code of it all."""
    once = {(type(error), str(error)): error for error in failures}
    if alone and len(once) == 1:
        raise next(iter(once.values()))
    return worst([*(fail(console, error) for error in once.values()), *codes])
