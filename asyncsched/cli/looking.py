"""Show what schedulers know of apps."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from asyncsched.cli.console import Console
from asyncsched.cli.errors import fail, worst
from asyncsched.cli.loop import answers
from asyncsched.cli.show import age, error_row, list_row, state_code, status_row
from asyncsched.cli.targets import Found, Target, failures_of, find_apps, list_apps
from asyncsched.errors import UnknownAppError
from asyncsched.runner.answers import status_of
from asyncsched.runner.runner import Runner
from asyncsched.schedulers.responses import DescribeAppResponse
from asyncsched.specs.handle import AppHandle
from asyncsched.specs.masking import masked
from asyncsched.specs.state import AppStatus
from asyncsched.specs.yaml import to_yaml

__all__ = ["describe_apps", "describe_found", "finish", "show_list", "show_status", "unknown", "watch_found"]


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


async def show_status(console: Console, runner: Runner, found: Found, roles: Collection[str] | None) -> int:
    """Print the status of the one app in full, of several as a table; return the exit code."""
    known: list[AppStatus] = []
    rows: list[dict[str, object]] = []
    failures = list(found.failures)
    for handle, answer in (await describe_found(runner, found.handles)).items():
        if answer is None or isinstance(answer, Exception):
            failures.append(unknown(handle) if answer is None else answer)
            rows.append(error_row(handle, failures[-1]))
            continue
        known.append(status_of(answer, handle))
        rows.append(_status_row(handle, answer, roles))
    if console.format != "table":
        console.print_rows((), rows)
    elif len(known) == 1 and not failures and not found.apps[0][1].is_pattern:
        console.print(known[0].format(roles).rstrip())
    elif known:
        console.print_rows(("handle", "state", "replicas", "msg"), [row for row in rows if "error" not in row])
    return finish(console, failures, alone=not known)


def _status_row(handle: AppHandle, answer: DescribeAppResponse, roles: Collection[str] | None) -> dict[str, object]:
    started = sum(replica.state.is_started() for replica in answer.replicas)
    row = status_row(handle, status_of(answer, handle), roles)
    return {**row, "replicas": f"{started}/{len(answer.replicas)}"}


def finish(console: Console, failures: Iterable[Exception], codes: Iterable[int] = (), *, alone: bool = False) -> int:
    """Tell of each failure once, in one line if there are answers beside it; return the exit code of it all."""
    once = {(type(error), str(error)): error for error in failures}
    if alone and len(once) == 1:
        raise next(iter(once.values()))
    return worst([*(fail(console, error) for error in once.values()), *codes])


def unknown(handle: AppHandle) -> UnknownAppError:
    """Return the error of a handle whose scheduler knows no such app."""
    fix = f"`asyncsched list -s {handle.scheduler}` shows those that there are"
    return UnknownAppError(f"no app {handle.app_id} on {handle.scheduler}", fix=fix)


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
                failures.append(unknown(event.handle))
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


async def describe_apps(console: Console, runner: Runner, targets: Sequence[Target]) -> int:
    """Print what each app is made of."""
    found = await find_apps(runner, targets)
    handles = found.handles
    failures = list(found.failures)
    rows: list[dict[str, object]] = []
    for handle, app in (await answers(runner.describe, handles)).items():
        if app is None or isinstance(app, Exception):
            failures.append(unknown(handle) if app is None else app)
            rows.append(error_row(handle, failures[-1]))
        else:
            rows.append({"handle": str(handle), "app": masked(app)})
            if console.format == "table":
                console.print(to_yaml({"handle": str(handle), "app": masked(app)}))
    if console.format != "table":
        console.print_rows((), rows)
    return finish(console, failures, alone=len(rows) <= 1)


async def show_list(console: Console, runner: Runner, scheduler: str | None, limit: int | None) -> int:
    """Print a row for each app that was submitted, newest first."""
    apps = await (list_apps(runner, limit) if scheduler is None else runner.list(scheduler, limit=limit))
    rows = [{**list_row(row), "age": age(row.created_at)} for row in apps]
    if console.format != "table":
        for row in rows:
            del row["age"]
        rows += [error_row(name, error) for name, error in apps.failures.items() if error in failures_of(apps)]
    console.print_rows(("handle", "state", "name", "age"), rows)
    return finish(console, failures_of(apps))
