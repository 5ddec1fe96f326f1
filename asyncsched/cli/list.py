"""``asyncsched list``: list submitted apps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from asyncsched.cli.console import Console
from asyncsched.cli.control_sequences import visible
from asyncsched.cli.times import moment
from asyncsched.cli.verb import Whole, scheduler_option, verb

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from asyncsched.runner.results import AppList
    from asyncsched.runner.runner import Runner
    from asyncsched.schedulers.responses import ListAppResponse
    from asyncsched.specs.state import AppState
    from asyncsched.views.apps import AppView

__all__ = ["command"]

LIMIT = 30
"""How many apps a table shows by default."""
COUNTED = 100
"""How many further apps are counted."""
COLUMNS = ("app", "name", "state", "replicas", "duration", "age", "reason")


def _states(_ctx: click.Context, _param: click.Parameter, texts: Sequence[str]) -> tuple[AppState, ...] | None:
    from asyncsched.specs.state import AppState

    names = [name.strip().upper() for text in texts for name in text.split(",") if name.strip()]
    known = [state.name for state in AppState]
    for name in names:
        if name not in known:
            raise click.BadParameter(f"{name.lower()!r} is not a state; write one of {', '.join(known).lower()}")
    return tuple(AppState[name] for name in names) or None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """The chosen apps; the fields are the options of ``asyncsched list``."""

    scheduler: str | None
    states: tuple[AppState, ...] | None
    since: datetime | timedelta | None
    name: str | None
    session: str | None
    group: str | None
    limit: int | None

    def is_fit(self, row: ListAppResponse) -> bool:
        """Tell whether name and session match; schedulers do not filter by these."""
        from fnmatch import fnmatchcase

        return (self.name is None or fnmatchcase(row.name, self.name)) and self.session in (None, row.session)


_ALL = _Choice(scheduler=None, states=None, since=None, name=None, session=None, group=None, limit=None)


@verb("list")
@scheduler_option("List only this scheduler.  [default: all]")
@click.option(
    "--state", "states", multiple=True, metavar="STATE,...", callback=_states, help="Only apps in these states."
)
@click.option("--since", type=moment, metavar="TIME", help="Only apps submitted since: 2h (ago), or 2030-12-31.")
@click.option("--name", metavar="NAME", help="Only apps with this name, or a pattern such as 'train-*'.")
@click.option("--session", metavar="SESSION", help="Only apps submitted in this session.")
@click.option("--group", metavar="KEY", help="Only apps in this group.")
@click.option("-n", "--limit", type=Whole(min=1), metavar="N",
              help=f"Show at most this many, the newest.  [default: {LIMIT}; with -o json all]")  # fmt: skip
def command(console: Console, **options: Any) -> int:
    """List the apps submitted through asyncsched, newest first.

    A scheduler that fails is reported in one line; the apps of the others are listed.
    """
    from asyncsched.cli.run_async import run_with_runner

    return run_with_runner(console, lambda runner: _list(console, runner, _Choice(**options)))


async def _list(console: Console, runner: Runner, choice: _Choice) -> int:
    """Print a row for each app that was submitted, newest first."""
    from datetime import UTC, datetime

    from asyncsched.cli.app_arguments import failures_of
    from asyncsched.cli.app_table import wrapped
    from asyncsched.cli.apps import finish
    from asyncsched.cli.json_rows import list_row

    limit = choice.limit or (LIMIT if console.format == "table" else None)
    apps, more = await _chosen(runner, choice, limit)
    failures = failures_of(apps)
    views, unanswered = await _views(runner, apps)
    now = datetime.now(UTC)
    if console.format != "table":
        console.print_rows((), [list_row(view, now) for view in views])
        return finish(console, [*failures, *unanswered])
    _print(console, views, now)
    if not apps and not failures:
        console.say("no apps" if choice == _ALL else "no apps match; `asyncsched list` shows the apps that exist")
    if console.width is not None and (hint := _hint(choice, views, more)):  # for people, who read it at a terminal
        console.say("\n".join(wrapped(hint, console.width)))
    if more:
        told = f"the newest {len(apps)}; {_told(more)}: --limit shows them"
        console.say("\n".join(wrapped(told, console.width)))
    return finish(console, [*failures, *unanswered])


def _hint(choice: _Choice, views: Sequence[AppView], more: Sequence[ListAppResponse]) -> str:
    """Return how many failed, and the command that tells more of them; "" where no command names just these."""
    import shlex

    failed = [view.app_id for view in views if view.word == "FAILED"]
    failed += [row.app_id for row in more if row.state.name == "FAILED"]
    if not failed or (len(failed) > 1 and (choice.since or choice.session or choice.group)):
        return ""
    which = failed[0] if len(failed) == 1 else choice.name or "*"
    words = ["asyncsched", "status", *(["-s", choice.scheduler] if choice.scheduler else []), visible(which)]
    least = "at least " if len(more) == COUNTED else ""
    return f"{least}{len(failed)} failed: `{shlex.join(words)}` shows when, why, and the last output"


def _told(more: Sequence[ListAppResponse]) -> str:
    """Format how many more there are, and how many of them failed."""
    failed = sum(row.state.name == "FAILED" for row in more)
    least = "at least " if len(more) == COUNTED else ""
    return f"{least}{len(more)} more{f' ({failed} failed)' if failed else ''}"


async def _chosen(runner: Runner, choice: _Choice, limit: int | None) -> tuple[AppList, Sequence[ListAppResponse]]:
    """Return the chosen apps up to the limit, and some of those beyond it."""
    from asyncsched.cli.app_arguments import list_apps
    from asyncsched.runner.results import AppList

    is_searched = choice.name is not None or choice.session is not None
    most = None if is_searched or limit is None else limit + COUNTED
    which: dict[str, Any] = {"states": choice.states, "since": choice.since, "group": choice.group}
    if choice.scheduler is not None:
        found = await runner.list(choice.scheduler, limit=most, **which)
    else:
        found = await list_apps(runner, most, **which)
    fit = [row for row in found if choice.is_fit(row)]
    more = [] if limit is None else fit[limit : limit + COUNTED]
    return AppList(fit[:limit], found.failures), more


async def _views(runner: Runner, apps: AppList) -> tuple[list[AppView], list[Exception]]:
    """Return the apps with replicas and times from their schedulers, and the errors of schedulers."""
    from asyncsched.cli.apps import describe_found
    from asyncsched.specs.handle import AppHandle
    from asyncsched.views.answers import listed

    told = await describe_found(runner, [AppHandle(row.app_handle) for row in apps])
    views: list[AppView] = []
    for row in apps:
        answer = told[AppHandle(row.app_handle)]
        views.append(listed(row, None if isinstance(answer, Exception) else answer))
    return views, [answer for answer in told.values() if isinstance(answer, Exception)]


def _print(console: Console, views: Sequence[AppView], now: datetime) -> None:
    from asyncsched.cli.app_table import app_table

    console.print_painted(app_table(views, COLUMNS, now, width=console.width, color=console.color))
