"""``asyncsched doctor``: check schedulers, plugins and configuration."""

from __future__ import annotations

import click

from asyncsched.cli.console import Console
from asyncsched.cli.times import duration
from asyncsched.cli.verb import Verb, scheduler_option, verb

__all__ = ["command"]


class _Doctor(Verb):
    """Works when the configuration does not: that is one of the things that it finds."""

    is_configurable = False


@verb("doctor", cls=_Doctor)
@scheduler_option("Check only this scheduler.  [default: all]")
@click.option(
    "--timeout", type=duration, metavar="TIME", default="3s", show_default=True, help="How long to wait for an answer."
)
def command(console: Console, scheduler: str | None, timeout: float) -> int:
    """Check schedulers, plugins and configuration, one line each. All schedulers are checked at once.

    The exit code tells whether something is broken. Schedulers that are not installed or not set up do not count.
    """
    from asyncsched.cli.doctor_checks import check_all
    from asyncsched.cli.run_async import run_with_runner

    return run_with_runner(console, lambda runner: check_all(console, runner, within=timeout, only=scheduler or ""))
