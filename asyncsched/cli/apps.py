"""What the verbs about apps share: finding the apps, describing them, and reporting failures."""

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
    """Run `work` on the apps named on the command line and return its exit code.

    Args:
        console: Where to print.
        apps: The arguments that name apps.
        work: Called with the console, a runner and the parsed arguments.
        parts: Whether arguments may name roles and replicas.
        groups: The named groups.
        scheduler: The scheduler to search, if one was named.
        or_last: Whether no argument means the app that was launched last.
    """
    only = scheduler or ""
    targets = [_target(parse_target(app, parts=parts), only) for app in apps]
    targets += [Target(app=group, is_group=True, only=only) for group in groups]
    if or_last and not targets:
        targets = [_target(Target(app=LAST), only)]
        console.say(f"note: {targets[0].app} was launched last")
    return run_with_runner(console, lambda runner: work(console, runner, targets))


def _target(target: Target, only: str) -> Target:
    """Resolve ``@last``, and restrict the argument to the named scheduler."""
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
    """Return the description of each app, or the error; each scheduler is asked once for all of its apps."""
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
    """Return the error for an app that its scheduler does not know; it names the cluster that was asked."""
    fix = f"`asyncsched list -s {handle.scheduler}` shows the apps that exist"
    place = (await runner.scheduler(handle.scheduler)).place
    where = f" in {place}" if place else ""
    return UnknownAppError(f"no app {handle.app_id} on {handle.scheduler}{where}", fix=fix)


def finish(console: Console, failures: Iterable[Exception], codes: Iterable[int] = (), *, alone: bool = False) -> int:
    """Report each failure once, on one line if there are also results; return the exit code."""
    once = {(type(error), str(error)): error for error in failures}
    if alone and len(once) == 1:
        raise next(iter(once.values()))
    return worst([*(fail(console, error) for error in once.values()), *codes])
