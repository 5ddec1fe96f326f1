"""Show run options, and write a configuration file with all of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from asyncsched.cli.console import Console
from asyncsched.cli.errors import fail, worst
from asyncsched.cli.looking import finish
from asyncsched.cli.loop import answers
from asyncsched.errors import ConfigError, MissingExtraError
from asyncsched.runner.config import Config, config_template, load_config, run_options
from asyncsched.runner.runner import Runner
from asyncsched.specs.masking import masked
from asyncsched.specs.options import runopts

__all__ = ["show_options", "write_configuration"]


async def _options(runner: Runner, schedulers: Sequence[str]) -> tuple[dict[str, runopts], dict[str, Exception]]:
    """Return the options of each scheduler, and why those have none that cannot be used here."""
    told = await answers(runner.scheduler_run_opts, schedulers or await runner.scheduler_backends())
    known = {name: answer for name, answer in told.items() if not isinstance(answer, Exception)}
    return known, {name: answer for name, answer in told.items() if isinstance(answer, Exception)}


async def show_options(console: Console, runner: Runner, schedulers: Sequence[str]) -> int:
    """Print each option with its value and where that comes from."""
    known, failures = await _options(runner, schedulers)
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
    # A package that is not installed is no fault while one only looks around.
    absent = {name for name, error in failures.items() if isinstance(error, MissingExtraError)}
    return worst([code for name, code in codes.items() if name in schedulers or name not in absent])


def _rows(config: Config, name: str, opts: runopts, schedulers: Sequence[str]) -> list[dict[str, object]]:
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


async def write_configuration(
    console: Console, runner: Runner, schedulers: Sequence[str], *, to_stdout: bool, required_only: bool, path: Path
) -> int:
    """Write a commented file with the options of these schedulers, or of all that can be used here."""
    known, failures = await _options(runner, schedulers)
    text = config_template(known, required_only=required_only)
    if to_stdout:
        console.print(text)
    else:
        _write_new(path, text)
        console.say(f"wrote {path}: uncomment what you want to set")
    return finish(console, failures.values() if schedulers else ())


def _write_new(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(
            f"{path} exists already", fix="move it away, or use --print to see what would be written"
        ) from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written", why=str(error)) from error
