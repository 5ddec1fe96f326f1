"""Turn schedulers' answers about an app into its row."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from asyncsched.views.apps import AppView, seen

if TYPE_CHECKING:
    from asyncsched.schedulers.responses import DescribeAppResponse, ListAppResponse

__all__ = ["described", "listed", "with_listed"]


def described(handle: str, answer: DescribeAppResponse | None) -> AppView:
    """Return the view of an app from its scheduler's answer; None means that the app is unknown."""
    if answer is None:
        return AppView(handle=handle, state=None)
    view = seen(handle, answer.state, answer.msg, answer.roles_statuses)
    over = answer.state.is_terminal()
    return replace(
        view,
        name=answer.name,
        session=answer.session,
        created_at=answer.created_at,
        started_at=answer.started_at or view.started_at,
        finished_at=(answer.finished_at if over else None) or view.finished_at,
    )


def listed(row: ListAppResponse, answer: DescribeAppResponse | None = None) -> AppView:
    """Return the view of an app from a list.

    Args:
        row: The app.
        answer: Its description, if the scheduler was asked for it.
    """
    view = AppView(handle=row.app_handle, state=row.state) if answer is None else described(row.app_handle, answer)
    return replace(
        view,
        name=row.name or view.name,
        session=row.session or view.session,
        created_at=row.created_at or view.created_at,
    )


def with_listed(view: AppView, row: ListAppResponse | None) -> AppView:
    """Add the details that only a list has to a view from a watch."""
    if row is None:
        return view
    state = row.state if view.state is None else view.state
    return replace(view, state=state, name=row.name, session=row.session, created_at=row.created_at)
