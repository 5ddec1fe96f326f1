"""Cancelling apps: the question before, and the message after."""

from __future__ import annotations

from collections.abc import Sequence

from asyncsched.tui.source import MonitorSource
from asyncsched.views.apps import AppView
from asyncsched.views.live_table import LiveTable
from asyncsched.views.text import one_line

__all__ = ["ask_for_end", "ends_of", "question"]

NAMED = 10
"""How many apps the question lists."""


def ends_of(views: Sequence[AppView]) -> list[AppView]:
    """Return the apps that have not ended."""
    return [view for view in views if not view.is_over]


def question(table: LiveTable, views: Sequence[AppView]) -> tuple[str, list[str]]:
    """Return the question whether to cancel these apps, and the lines below it."""
    title = f"cancel {table.name(views[0])}?" if len(views) == 1 else f"cancel {len(views):,} apps?"
    lines = [f"  {one_line(view.handle)}  {view.word}" for view in views[:NAMED]]
    lines += [f"  and {len(views) - NAMED:,} more"] if len(views) > NAMED else []
    hidden = table.hidden_marks
    lines += [f"{hidden:,} marked {'app is' if hidden == 1 else 'apps are'} not shown"] if hidden else []
    return one_line(title), lines


async def ask_for_end(source: MonitorSource, table: LiveTable, views: Sequence[AppView]) -> str:
    """Cancel apps, unmark them, and return a message with the result."""
    handles = [view.handle for view in views]
    failed = await source.cancel(handles)
    table.unmark({*handles}.difference(failed))
    done = len(views) - len(failed)
    which = table.name(views[0]) if len(views) == 1 else f"{done:,} app{'' if done == 1 else 's'}"
    why = next((f"; {len(failed):,} could not be cancelled: {error}" for error in failed.values()), "")
    return f"error{why}" if len(failed) == len(views) else f"cancel requested for {which}{why}"
