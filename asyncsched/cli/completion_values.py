"""The completions for the TAB key: apps, schedulers, run options, components and their options.

This runs while the user is typing, so it changes nothing, runs none of the user's files, reports no errors, and waits
only briefly for schedulers.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from asyncsched.components.signature import Parameter
    from asyncsched.runner.runner import Runner
    from asyncsched.schedulers.responses import ListAppResponse
    from asyncsched.specs.run_options import runopts

__all__ = [
    "PART",
    "apps",
    "complete_beginning",
    "components",
    "run_options",
    "run_words",
    "schedulers",
    "several_schedulers",
    "words",
]

PART = "part"
"""The kind of a completion that is only part of a word: no space follows it."""

ASKED_WITHIN = 2.0
"""How many seconds schedulers have to list their apps."""

MOST_APPS = 200

# Words that need no quotes. Names of other people's apps may contain anything, including shell syntax.
_PLAIN = re.compile(r"[\w.:/@%+,=~-]+", re.ASCII)

Items: TypeAlias = "list[CompletionItem[str]]"
AnswerT = TypeVar("AnswerT")


def schedulers(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Return the schedulers."""
    from asyncsched.schedulers.registry import get_default_scheduler_name, get_scheduler_factories

    told = dict.fromkeys(get_scheduler_factories(), "") | {get_default_scheduler_name(): "the default"}
    return complete_beginning(incomplete, told.items())


def several_schedulers(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Return schedulers for a list separated by commas."""
    before, comma, last = incomplete.rpartition(",")
    return [_item(f"{before}{comma}{item.value}", item.help) for item in schedulers(ctx, param, last)]


def components(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Return the components, including those in files."""
    from asyncsched.components import get_components

    told = {name: each.summary.partition("\n")[0] for name, each in get_components().items()}
    return [*complete_beginning(incomplete, told.items()), *_in_files(incomplete)]


def _in_files(incomplete: str) -> Items:
    """Return the functions in a file, or files and folders."""
    file, colon, _ = incomplete.partition(":")
    if colon:
        from asyncsched.components.finder import functions_in

        found = functions_in(Path(file).expanduser())
        return complete_beginning(incomplete, ((f"{file}:{name}", "") for name in found))
    folder, slash, beginning = incomplete.rpartition("/")
    try:
        entries = sorted(Path(folder + slash).expanduser().iterdir())
    except OSError:
        return []
    items: Items = []
    for entry in entries:
        path = f"{folder}{slash}{entry.name}"
        if not entry.name.startswith(beginning) or (not beginning and entry.name.startswith(".")):
            continue
        if entry.name.endswith(".py") and entry.is_file():
            items.append(_item(f"{path}:", "", PART))
        elif entry.is_dir():
            items.append(_item(f"{path}/", "", PART))
    return [item for item in items if _PLAIN.fullmatch(item.value)]


def run_options(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Return the run options of the chosen scheduler; after a comma, those not given yet."""
    from asyncsched.schedulers.registry import get_default_scheduler_name

    before, comma, last = incomplete.rpartition(",")
    name, equals, value = last.partition("=")
    opts = _run_opts(ctx.params.get("scheduler") or get_default_scheduler_name())
    if opts is None:
        return []
    if equals:
        values = ["true", "false"] if dict(opts).get(name) is not None and dict(opts)[name].type_name == "bool" else []
        return [_item(f"{before}{comma}{name}={text}", "") for text in values if text.startswith(value)]
    given = {each.partition("=")[0] for each in before.split(",")}
    return [
        _item(f"{before}{comma}{option}=", f"{opt.type_name}: {_first_line(opt.help)}", PART)
        for option, opt in opts
        if option.startswith(name) and option not in given
    ]


def _run_opts(scheduler: str) -> runopts | None:
    async def ask(runner: Runner) -> runopts:
        return await runner.scheduler_run_opts(scheduler)

    return _asked(ask)


def words(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Return what can follow the options of ``run``: a component's name or its arguments."""
    is_first = not ctx.params.get("words") and not ctx.params.get("is_command")
    return components(ctx, param, incomplete) if is_first else run_words(ctx, incomplete)


def run_words(ctx: click.Context, incomplete: str) -> Items:
    """Return what can follow a component's name, or the two dashes before a command."""
    given: Sequence[str] = ctx.params.get("words") or ()
    if ctx.params.get("is_command") or not given:
        return [_file(incomplete)]
    parameters = _parameters(given[0])
    flags = {flag: each for each in parameters for flag in (each.flag, *each.aliases)}
    before = flags.get(given[-1]) if len(given) > 1 else None
    if before is not None and not (before.value is bool and before.shape == "one"):
        return complete_beginning(incomplete, ((choice, "") for choice in before.choices)) or [_file(incomplete)]
    left = [each for each in parameters if each.shape != "rest" and not {each.flag, *each.aliases} & {*given[1:]}]
    if incomplete and not incomplete.startswith("-"):
        return [_file(incomplete)]
    found = complete_beginning(incomplete, ((each.flag, _told(each)) for each in left))
    return found or [_file(incomplete)]


def _file(incomplete: str) -> CompletionItem[str]:
    return CompletionItem(incomplete, type="file")


def _parameters(component: str) -> Sequence[Parameter]:
    """Return the parameters of a component; the user's files are read but not run."""
    from asyncsched.components import get_component
    from asyncsched.components.finder import functions_in, is_ours
    from asyncsched.components.signature import Parameter

    if not is_ours(component):
        file, _, function = component.partition(":")
        names = functions_in(Path(file).expanduser()).get(function, [])
        return [Parameter(name=name, value=str, shape="one", required=False) for name in names]
    return get_component(component).parameters


def _told(parameter: Parameter) -> str:
    default = "" if parameter.default is None else f", default {parameter.default}"
    return f"{_first_line(parameter.help)} ({parameter.type_name}{', required' if parameter.required else default})"


def _first_line(text: str) -> str:
    return " ".join(text.split()).partition(". ")[0].rstrip(".")


def apps(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Return the apps that the verb can act on, newest first, each with its state and age."""
    from asyncsched.cli.json_rows import age
    from asyncsched.cli.last_launched import LAST

    if incomplete.startswith("@"):
        return complete_beginning(incomplete, [(LAST, "the app that was launched last from here")])
    scheme = incomplete.partition("://")[0] if "://" in incomplete else ""
    rows = _rows(scheme or ctx.params.get("scheduler") or "")
    given = set(cast("Sequence[str]", ctx.params.get("apps") or ()))
    told: dict[str, str] = {}
    for row in rows:
        name = row.app_handle if scheme else row.app_id
        if _fits(row, ctx.command.name) and not {row.app_id, row.app_handle} & given:
            told.setdefault(name, f"{row.state}, {age(row.created_at)}" if row.created_at else str(row.state))
    return complete_beginning(incomplete, told.items())[:MOST_APPS]


def _fits(row: ListAppResponse, verb: str | None) -> bool:
    """Tell whether a verb can act on an app: `delete` needs an ended app, `cancel` one that has not ended."""
    if verb in ("cancel", "delete"):
        return row.state.is_terminal() == (verb == "delete")
    return True


def _rows(scheduler: str) -> list[ListAppResponse]:
    """Return the apps of one scheduler, or of all that answer in time, newest first."""
    from asyncsched.cli.app_arguments import chosen_schedulers
    from asyncsched.cli.run_async import answers

    async def ask(runner: Runner) -> list[ListAppResponse]:
        async def rows(name: str) -> Sequence[ListAppResponse]:
            async with asyncio.timeout(ASKED_WITHIN):
                return await runner.list(name, limit=MOST_APPS)

        names = [scheduler] if scheduler else chosen_schedulers() or await runner.scheduler_backends()
        told = await answers(rows, names)
        found = [row for answer in told.values() if not isinstance(answer, Exception) for row in answer]
        return sorted(found, key=lambda row: row.created_at.timestamp() if row.created_at else 0.0, reverse=True)

    return _asked(ask) or []


def _asked(ask: Callable[[Runner], Awaitable[AnswerT]]) -> AnswerT | None:
    """Return the result of a call with a runner; None if it fails."""
    from asyncsched.cli.run_async import SESSION, parameters
    from asyncsched.runner.runner import Runner

    async def main() -> AnswerT:
        async with Runner(SESSION, None, None, **parameters()) as runner:
            return await ask(runner)

    try:
        return asyncio.run(main())
    except Exception:  # noqa: BLE001 - the user is typing: errors are reported when the command runs
        return None


def complete_beginning(incomplete: str, told: Iterable[tuple[str, str]]) -> Items:
    """Return the values with this start, each with its description; values that would need quotes are left out."""
    return [_item(value, help_) for value, help_ in told if value.startswith(incomplete) and _PLAIN.fullmatch(value)]


def _item(value: str, help_: str | None, kind: str = "plain") -> CompletionItem[str]:
    return CompletionItem(value, type=kind, help=help_ or None)
