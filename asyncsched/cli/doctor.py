"""``asyncsched doctor``: check what asyncsched needs to work here."""

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
@scheduler_option("Of the schedulers, check this one only.  [default: all]")
@click.option(
    "--timeout", type=duration, metavar="TIME", default="3s", show_default=True, help="How long schedulers may take."
)
def command(console: Console, scheduler: str | None, timeout: float) -> int:
    """Check schedulers, plugins and configuration, each in one line; schedulers are all asked at once.

    The exit code tells whether something is broken; what is not installed or not set up is not.
    """
    from asyncsched.cli.doctor_checks import check_all
    from asyncsched.cli.run_async import run_with_runner

    return run_with_runner(console, lambda runner: check_all(console, runner, within=timeout, only=scheduler or ""))
