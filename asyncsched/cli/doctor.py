"""``asyncsched doctor``: check what asyncsched needs to work here."""

from __future__ import annotations

from asyncsched.cli.console import Console
from asyncsched.cli.verb import Verb, verb

__all__ = ["command"]


class _Doctor(Verb):
    """Works when the configuration does not: that is one of the things that it finds."""

    is_configurable = False


@verb("doctor", cls=_Doctor)
def command(console: Console) -> int:
    """Check schedulers, plugins and configuration, each in one line; schedulers are asked at once, for 3 s each.

    The exit code tells whether something is broken; what is not installed or not configured is not.
    """
    from asyncsched.cli.doctor_checks import check_all
    from asyncsched.cli.loop import run_with_runner

    return run_with_runner(console, lambda runner: check_all(console, runner))
