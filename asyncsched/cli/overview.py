"""The summary of many apps: their number by state, and the failures with their last lines."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from datetime import UTC, datetime

from asyncsched.cli.app_table import MOST_NAMED, failure_lines, summary_line
from asyncsched.cli.console import Console
from asyncsched.cli.last_lines import with_last_lines
from asyncsched.runner.runner import Runner
from asyncsched.views.apps import AppView
from asyncsched.views.summary import failures, shared

__all__ = ["overview_lines"]


async def overview_lines(console: Console, runner: Runner, views: Collection[AppView]) -> Iterator[str]:
    """Return the lines of a summary and of failures; reads the last log line of each listed failure.

    It is coloured if both stdout and stderr support colours.
    """
    named = [app for _, apps in shared(failures(views), MOST_NAMED)[0] for app in apps]
    told = await with_last_lines(runner, named)
    shown = [told.get(view.handle, view) for view in views]
    color = console.color and sys.stderr.isatty()
    return _lines(shown, datetime.now(UTC), console.width, color)


def _lines(views: Collection[AppView], now: datetime, width: int | None, color: bool) -> Iterator[str]:
    yield from failure_lines(views, now, width=width, color=color)
    yield summary_line(views, width=width, color=color)
