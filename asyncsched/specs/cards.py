"""How apps look in a notebook: self-contained HTML, readable in light and dark, and as text when it is exported.

Nothing here loads, waits or asks. Colours are those of the page, with a dot or a square for a state, whose name always
stands beside it or in its title.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from asyncsched.specs.sightings import last_seen
from asyncsched.specs.state import AppState, AppStatus, ReplicaStatus

if TYPE_CHECKING:
    from asyncsched.specs.handle import AppHandle

__all__ = ["AppRow", "handle_card", "status_card", "table", "text_card"]

_COLOURS = {
    AppState.UNSUBMITTED: "#8b949e",
    AppState.SUBMITTED: "#8b949e",
    AppState.PENDING: "#d29922",
    AppState.RUNNING: "#2f81f7",
    AppState.SUCCEEDED: "#2da44e",
    AppState.FAILED: "#e5534b",
    AppState.CANCELLED: "#8b949e",
    AppState.UNKNOWN: "#a371f7",
}
_SQUARES = 200
_SQUARES_IN_A_ROW = 40
"""How many replicas a strip shows, on a card and in a table; those behind are counted."""
_ROWS = 50
"""How many apps a table shows; a page that is drawn anew four times a second has to be small."""
_REASONS = 10
_FRAME = "font-family:inherit;color:inherit;border-left:4px solid {};padding:2px 0 2px 10px;margin:2px 0"
_CELL = "text-align:left;padding:2px 12px 2px 0;vertical-align:top;color:inherit"
_FAINT = "opacity:.7"


class AppRow(NamedTuple):
    """A line of a table: an app's handle, how it is doing as far as that is known, and when it was submitted."""

    handle: str
    status: AppStatus | None
    created_at: datetime | None = None


def handle_card(handle: AppHandle) -> str:
    """Return a card of a handle's parts, with what was last seen of the app in this process."""
    seen = last_seen(handle)
    told = f"<span style='{_FAINT}'>not looked at yet</span>"
    colour = _COLOURS[AppState.UNSUBMITTED]
    if seen is not None:
        colour = _COLOURS[seen.status.state]
        told = f"{_state(seen.status.state)} <span style='{_FAINT}'>as of {seen.at.astimezone():%H:%M:%S}</span>"
    parts = {"scheduler": handle.scheduler, "session": handle.session, "app": handle.app_id}
    shown = " &middot; ".join(f"{name} <b>{escape(part)}</b>" for name, part in parts.items())
    return _frame(colour, f"<code>{escape(handle)}</code>", shown, told)


def status_card(status: AppStatus) -> str:
    """Return a card of an app's state, replicas, age, and the reasons of what failed or waits."""
    facts = [_state(status.state), _age(status)]
    if status.num_restarts > 0:
        facts.append(f"{status.num_restarts} restarts")
    if status.ui_url and status.ui_url.startswith(("https://", "http://")):
        facts.append(f"<a href='{escape(status.ui_url)}'>{escape(status.ui_url)}</a>")
    lines = [f"<code>{escape(status.handle)}</code>" if status.handle else "", " &middot; ".join(filter(None, facts))]
    lines += [f"{escape(role.role)} {_strip(role.replicas)}" for role in status.roles]
    lines += [escape(reason) for reason in _reasons(status)]
    return _frame(_COLOURS[status.state], *lines)


def text_card(title: str, text: str) -> str:
    """Return a card of a text that is shown as it stands."""
    pre = f"<pre style='margin:0;color:inherit;background:none'>{escape(text)}</pre>"
    return _frame(_COLOURS[AppState.UNSUBMITTED], f"<b>{escape(title)}</b>", pre)


def table(rows: Sequence[AppRow], notes: Iterable[str] = (), *, others: int = 0) -> str:
    """Return a table of apps with a row for each of the first, the number of the others, and notes below it.

    Args:
        rows: The apps; no more are shown than a table has rows for.
        notes: What is told below.
        others: How many apps there are beside those in `rows`.
    """
    heads = "".join(f"<th style='{_CELL}'>{name}</th>" for name in ("app", "state", "replicas", "age", "reason"))
    body = "".join(f"<tr>{_row(row)}</tr>" for row in rows[:_ROWS])
    left_out = max(len(rows) - _ROWS, 0) + others
    more = [f"and {left_out} more"] if left_out else []
    told = "".join(f"<div style='{_FAINT}'>{escape(note)}</div>" for note in (*more, *notes))
    return f"<table style='border-collapse:collapse;color:inherit'><tr>{heads}</tr>{body}</table>{told}"


def _row(row: AppRow) -> str:
    cells = [f"<code>{escape(row.handle)}</code>", "not known"]
    if row.status is not None:
        strips = " ".join(_strip(role.replicas, _SQUARES_IN_A_ROW) for role in row.status.roles)
        age = _age(row.status) or (f"{_span(datetime.now(UTC) - row.created_at)} old" if row.created_at else "")
        cells = [cells[0], _state(row.status.state), strips, age, escape(" ".join(row.status.msg.split()))]
    return "".join(f"<td style='{_CELL}'>{cell}</td>" for cell in cells)


def _frame(colour: str, *lines: str) -> str:
    shown = "".join(f"<div>{line}</div>" for line in lines if line)
    return f"<div style='{_FRAME.format(colour)}'>{shown}</div>"


def _state(state: AppState) -> str:
    return f"<span style='color:{_COLOURS[state]}'>&#9679;</span> <b>{state}</b>"


def _strip(replicas: Sequence[ReplicaStatus], room: int = _SQUARES) -> str:
    squares = "".join(
        f"<span title='{escape(replica.role)}/{replica.id} {replica.state}' style='color:{_COLOURS[replica.state]}'>"
        "&#9632;</span>"
        for replica in replicas[:room]
    )
    states = Counter(replica.state for replica in replicas)
    counts = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    more = f" +{len(replicas) - room}" if len(replicas) > room else ""
    return f"{squares}{more} <span style='{_FAINT}'>{counts}</span>"


def _reasons(status: AppStatus) -> list[str]:
    own = [
        f"{replica.role}/{replica.id}: {replica.reason}"
        for role in status.roles
        for replica in role.replicas
        if replica.reason
    ]
    told = [status.msg] if status.msg and status.msg not in own else []
    more = [f"and {len(own) - _REASONS} more"] if len(own) > _REASONS else []
    return told + own[:_REASONS] + more


def _age(status: AppStatus) -> str:
    """Return how long the app has been running, or ran; nothing if it has not started."""
    replicas = [replica for role in status.roles for replica in role.replicas]
    started = [replica.started_at for replica in replicas if replica.started_at is not None]
    if not started:
        return ""
    ended = [replica.finished_at for replica in replicas if replica.finished_at is not None]
    over = status.is_terminal() and len(ended) == len(replicas)
    until = max(ended) if over else datetime.now(UTC)
    return f"{'ran' if over else 'running for'} {_span(until - min(started))}"


def _span(time: timedelta) -> str:
    seconds = max(int(time.total_seconds()), 0)
    if seconds < 60:
        return f"{seconds} s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"
