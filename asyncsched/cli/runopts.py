"""``asyncsched runopts``: the run options of schedulers and their configured values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from asyncsched.cli.console import Console
from asyncsched.cli.verb import completer, scheduler_option, verb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asyncsched.runner.config import Config
    from asyncsched.runner.runner import Runner
    from asyncsched.specs.run_options import runopts

__all__ = ["command"]


@verb("runopts")
@click.argument("schedulers", nargs=-1, metavar="[SCHEDULER]...", shell_complete=completer("schedulers"))
@scheduler_option("Same as the argument SCHEDULER.")
def command(console: Console, schedulers: tuple[str, ...], scheduler: str | None) -> int:
    """Show each run option with its type, its value, and the origin of the value; for all schedulers by default."""
    from asyncsched.cli.run_async import run_with_runner

    named = (*schedulers, scheduler) if scheduler else schedulers
    return run_with_runner(console, lambda runner: _show(console, runner, named))


async def _show(console: Console, runner: Runner, schedulers: Sequence[str]) -> int:
    """Print each option with its value and the value's origin."""
    from asyncsched.cli.errors import fail, worst
    from asyncsched.cli.run_async import answers, parted
    from asyncsched.errors import MissingExtraError
    from asyncsched.runner.config import load_config

    known, failures = parted(await answers(runner.scheduler_run_opts, schedulers or await runner.scheduler_backends()))
    config = load_config()
    names = await runner.scheduler_backends()
    rows = [row for name, opts in known.items() for row in _rows(config, name, opts, names)]
    if console.format == "table":
        for name, opts in known.items():
            _print_section(console, name, opts, [row for row in rows if row["scheduler"] == name])
    else:
        console.print_rows((), rows)
    for note in config.notes:
        console.say(f"note: {note}")
    if len(schedulers) == 1 == len(failures):
        raise failures[schedulers[0]]
    codes = {name: fail(console, error) for name, error in failures.items()}
    # Packages that are not installed are an error only for schedulers that were named.
    absent = {name for name, error in failures.items() if isinstance(error, MissingExtraError)}
    return worst([code for name, code in codes.items() if name in schedulers or name not in absent])


def _rows(config: Config, name: str, opts: runopts, schedulers: Sequence[str]) -> list[dict[str, object]]:
    from asyncsched.runner.config import run_options

    configured = run_options(config, name, opts, schedulers=schedulers)
    rows: list[dict[str, object]] = []
    for option, opt in opts:
        setting = configured.get(option)
        value = opt.default if setting is None else setting.value
        rows.append({
            "scheduler": name,
            "option": option,
            "type": opt.type_name,
            "required": opt.is_required,
            "value": _shown(option, value),
            "default": _shown(option, opt.default),
            "origin": "default" if setting is None else setting.origin,
            "help": opt.help,
        })  # fmt: skip
    return rows


def _shown(option: str, value: object) -> object:
    from asyncsched.specs.masking import masked

    shown = masked({option: value})
    assert isinstance(shown, dict)
    return shown[option]


def _print_section(console: Console, name: str, opts: runopts, rows: Sequence[dict[str, object]]) -> None:
    console.print(f"{name}:" if rows else f"{name}: no run options")
    for row in rows:
        is_default = row["origin"] == "default"
        value = "required" if row["required"] and is_default else f"= {row['value']}"
        instead = "" if row["required"] else f"; by default {row['default']}"
        origin = "" if is_default else f"   (from {row['origin']}{instead})"
        console.print(f"  {row['option']} ({row['type']}) {value}{origin}\n      {row['help']}")
