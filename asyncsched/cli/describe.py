"""``asyncsched describe``: the definition of an app."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asyncsched.cli.console import Console
from asyncsched.cli.verb import verb, with_apps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asyncsched.cli.app_arguments import Target
    from asyncsched.runner.runner import Runner

__all__ = ["command"]


@verb("describe")
@with_apps
def command(console: Console, apps: tuple[str, ...], scheduler: str | None) -> int:
    """Show the definition of apps, as far as their scheduler knows it: roles, programs, resources.

    APP is a handle, an id, a name, the start of an id, or a pattern such as 'train-*'. @last, or no APP at all, is the
    app that was last launched from here.
    """
    from asyncsched.cli.apps import run_on_apps

    return run_on_apps(console, apps, _describe, scheduler=scheduler)


async def _describe(console: Console, runner: Runner, targets: Sequence[Target]) -> int:
    """Print what each app is made of."""
    from asyncsched.cli.app_arguments import find_apps
    from asyncsched.cli.apps import finish, unknown
    from asyncsched.cli.json_rows import error_row
    from asyncsched.cli.run_async import answers
    from asyncsched.specs.masking import masked
    from asyncsched.specs.yaml import to_yaml

    found = await find_apps(console, runner, targets)
    handles = found.handles
    failures = list(found.failures)
    rows: list[dict[str, object]] = []
    for handle, app in (await answers(runner.describe, handles)).items():
        if app is None or isinstance(app, Exception):
            failures.append(await unknown(runner, handle) if app is None else app)
            rows.append(error_row(handle, failures[-1]))
        else:
            rows.append({"handle": str(handle), "app": masked(app)})
            if console.format == "table":
                console.print(to_yaml({"handle": str(handle), "app": masked(app)}))
    if console.format != "table":
        console.print_rows((), rows)
    return finish(console, failures, alone=len(rows) <= 1)
