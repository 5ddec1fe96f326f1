"""The end of apps: what is asked before, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence

from asyncsched.tui.source import MonitorSource
from asyncsched.views.apps import AppView
from asyncsched.views.live_table import LiveTable
from asyncsched.views.text import one_line

__all__ = ["ask_for_end", "ends_of", "question"]

NAMED = 10
"""How many apps a question names."""


def ends_of(views: Sequence[AppView]) -> list[AppView]:
    """Return those of these apps that have not ended."""
    return [view for view in views if not view.is_over]


def question(table: LiveTable, views: Sequence[AppView]) -> tuple[str, list[str]]:
    """Return the question whether these apps are to be cancelled, and what is told below it."""
    title = f"cancel {table.name(views[0])}?" if len(views) == 1 else f"cancel {len(views):,} apps?"
    lines = [f"  {one_line(view.handle)}  {view.word}" for view in views[:NAMED]]
    lines += [f"  and {len(views) - NAMED:,} more"] if len(views) > NAMED else []
    hidden = table.hidden_marks
    lines += [f"{hidden:,} of those that are marked are not shown"] if hidden else []
    return one_line(title), lines


async def ask_for_end(source: MonitorSource, table: LiveTable, views: Sequence[AppView]) -> str:
    """Ask the schedulers for the end of apps, unmark them, and return what came of it."""
    handles = [view.handle for view in views]
    failed = await source.cancel(handles)
    table.unmark({*handles}.difference(failed))
    which = table.name(views[0]) if len(views) == 1 else f"{len(views) - len(failed):,} apps"
    why = next((f"; {len(failed):,} could not be cancelled: {error}" for error in failed.values()), "")
    return f"error{why}" if len(failed) == len(views) else f"the end of {which} was asked for{why}"
