"""``asyncsched configure``: write a starter configuration file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from asyncsched.cli.console import Console
from asyncsched.cli.verb import completer, verb

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from asyncsched.runner.runner import Runner

__all__ = ["command"]


@verb("configure")
@click.option(
    "-s",
    "--schedulers",
    metavar="SCHEDULER,...",
    shell_complete=completer("several_schedulers"),
    help="Only for these schedulers.  [default: all]",
)
@click.option("-r", "--required", is_flag=True, help="Only required options.")
@click.option("-p", "--print", "to_stdout", is_flag=True, help="Print it instead of writing ./asyncsched.toml.")
def command(console: Console, schedulers: str | None, required: bool, to_stdout: bool) -> int:
    """Write ./asyncsched.toml with everything that can be set, explained and commented out."""
    from pathlib import Path

    from asyncsched.cli.run_async import run_with_runner

    names = [name.strip() for name in (schedulers or "").split(",") if name.strip()]
    path = Path("asyncsched.toml")
    return run_with_runner(
        console,
        lambda runner: _write(console, runner, names, to_stdout=to_stdout, required_only=required, path=path),
    )


async def _write(
    console: Console, runner: Runner, schedulers: Sequence[str], *, to_stdout: bool, required_only: bool, path: Path
) -> int:
    """Write a commented file with the options of these schedulers, or of all that can be used here."""
    from asyncsched.cli.apps import finish
    from asyncsched.cli.run_async import answers, parted
    from asyncsched.runner.config import config_template

    known, failures = parted(await answers(runner.scheduler_run_opts, schedulers or await runner.scheduler_backends()))
    if schedulers and failures:
        return finish(console, failures.values())
    text = config_template(known, required_only=required_only)
    if to_stdout:
        console.print(text)
    else:
        _write_new(path, text)
        console.say(f"wrote {path}: uncomment what you want to set")
    return 0


def _write_new(path: Path, text: str) -> None:
    from asyncsched.errors import ConfigError

    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(
            f"{path} exists already", fix="move it away, or use --print to see what would be written"
        ) from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written", why=str(error)) from error
