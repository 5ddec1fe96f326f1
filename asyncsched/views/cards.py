"""Cards for notebooks: self-contained HTML, readable in light and dark themes, and as text when exported.

Nothing here loads, waits or calls a service. Text has the colours of the page. A state is a coloured dot or square,
with its name beside it or in its title.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape
from typing import TYPE_CHECKING

from asyncsched.specs.last_seen import last_seen
from asyncsched.specs.state import AppState, AppStatus, ReplicaStatus
from asyncsched.views.apps import AppView, app_view
from asyncsched.views.endings import why_ended
from asyncsched.views.overview import Line, Overview
from asyncsched.views.replicas import alike, groups, rows
from asyncsched.views.summary import bar, summary

if TYPE_CHECKING:
    from asyncsched.specs.handle import AppHandle

__all__ = ["handle_card", "status_card", "status_line", "table", "text_card"]

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
_SQUARES = 1200
"""Most replicas in a strip of a card; the others are only counted."""
_SQUARES_IN_A_TABLE = 240
_REASONS = 10
_FRAME = "font-family:inherit;color:inherit;border-left:4px solid {};padding:2px 0 2px 10px;margin:2px 0"
_CELL = "text-align:left;padding:2px 12px 2px 0;vertical-align:top;color:inherit"
_FAINT = "opacity:.7"
_BAR_CELLS = 120
_BAR = "display:flex;max-width:40em;height:8px;margin:4px 0"
_PRE = (
    "margin:0;padding:0;font-family:monospace;white-space:pre-wrap;overflow-wrap:anywhere;color:inherit;background:none"
)
_STRIP = "display:inline-block;font-family:monospace;line-height:1;letter-spacing:0"
FOLD_AT = 12
"""Lines from which a text is folded."""


def handle_card(handle: AppHandle) -> str:
    """Return a card with a handle's parts and the status that this process last saw."""
    seen = last_seen(handle)
    told = f"<span style='{_FAINT}'>no status read yet</span>"
    colour = _COLOURS[AppState.UNSUBMITTED]
    if seen is not None:
        colour = _COLOURS[seen.status.state]
        told = f"{_state(seen.status.state)} <span style='{_FAINT}'>as of {seen.at.astimezone():%H:%M:%S}</span>"
    parts = {"scheduler": handle.scheduler, "session": handle.session, "app": handle.app_id}
    shown = " &middot; ".join(f"{name} <b>{escape(part)}</b>" for name, part in parts.items())
    return _frame(colour, f"<code>{escape(handle)}</code>", shown, told)


def status_card(status: AppStatus, now: datetime) -> str:
    """Return a card with an app's state, replicas, age, and the reasons of failures and waits."""
    view = app_view(status.handle, status)
    facts = [_state(status.state), view.age(now)]
    if status.num_restarts > 0:
        facts.append(f"{status.num_restarts} restarts")
    if status.ui_url and status.ui_url.startswith(("https://", "http://")):
        facts.append(f"<a href='{escape(status.ui_url)}'>{escape(status.ui_url)}</a>")
    lines = [f"<code>{escape(status.handle)}</code>" if status.handle else "", " &middot; ".join(filter(None, facts))]
    lines += [f"{escape(role.role)} {_strip(role.replicas)}" for role in status.roles]
    lines += [escape(reason) for reason in _reasons(view)]
    return _frame(_COLOURS[status.state], *lines)


def status_line(status: AppStatus) -> str:
    """Return which app is in which state and why, in the words of its card."""
    about = f"{status.handle} is {status.state}" if status.handle else f"it is {status.state}"
    reason = why_ended(status)
    return f"{about}: {reason}" if reason else about


def text_card(title: str, text: str) -> str:
    """Return a card with a text; a long text is folded."""
    pre = f"<pre style='{_PRE}'>{escape(text)}</pre>"
    count = text.count("\n") + 1
    if count > FOLD_AT:
        head = f"<summary><b>{escape(title)}</b> <span style='{_FAINT}'>{count} lines</span></summary>"
        return _frame(_COLOURS[AppState.UNSUBMITTED], f"<details>{head}{pre}</details>")
    return _frame(_COLOURS[AppState.UNSUBMITTED], f"<b>{escape(title)}</b>", pre)


def table(shown: Overview, now: datetime, notes: Iterable[str] = (), title: str = "") -> str:
    """Return a summary with a bar, a table of apps without empty columns, and notes.

    Args:
        shown: The apps.
        now: The present time, for ages.
        notes: Notes below the table.
        title: The heading; by default the number of apps in each state.
    """
    cells = [_cells(line, now) for line in shown.lines]
    names = ("app", "state", "replicas", "age", "reason")
    used = [column for column in range(len(names)) if column < 2 or any(row[column] for row in cells)]
    heads = "".join(f"<th style='{_CELL}'>{names[column]}</th>" for column in used)
    body = "".join(f"<tr>{''.join(_cell(row[column]) for column in used)}</tr>" for row in cells)
    more = [f"and {shown.others} more"] if shown.others else []
    told = "".join(f"<div style='{_FAINT}'>{escape(note)}</div>" for note in (*more, *notes))
    head = f"<div>{escape(title or summary(shown.states))}</div>{_bar(shown)}"
    return f"{head}<table style='border-collapse:collapse;color:inherit'><tr>{heads}</tr>{body}</table>{told}"


def _bar(shown: Overview) -> str:
    if not shown.states:
        return ""
    parts = "".join(
        f"<span title='{part.state}' style='flex:{part.cells};background:{_COLOURS[part.state]}'></span>"
        for part in bar(shown.states, _BAR_CELLS)
    )
    return f"<div style='{_BAR}'>{parts}</div>"


def _cell(html: str) -> str:
    return f"<td style='{_CELL}'>{html}</td>"


def _cells(line: Line, now: datetime) -> tuple[str, ...]:
    view = line.view
    name = f"<code>{escape(view.handle)}</code>"
    if view.state is None:
        return name, "not known", "", "", ""
    reason, age = escape(view.reason), _age(view, now)
    if len(line.handles) > 1:
        handles = "".join(f"<div><code>{escape(handle)}</code></div>" for handle in line.handles)
        name = f"<details><summary>{len(line.handles)} apps that failed in the same way</summary>{handles}</details>"
        return name, _state(view.state), "", age, reason
    strips = " ".join(_strip(role.replicas, _SQUARES_IN_A_TABLE) for role in view.roles)
    return name, _state(view.state), strips, age, reason


def _frame(colour: str, *lines: str) -> str:
    shown = "".join(f"<div>{line}</div>" for line in lines if line)
    return f"<div style='{_FRAME.format(colour)}'>{shown}</div>"


def _state(state: AppState) -> str:
    return (
        f"<span style='white-space:nowrap'><span style='color:{_COLOURS[state]}'>&#9679;</span> <b>{state}</b></span>"
    )


def _strip(replicas: Sequence[ReplicaStatus], most: int = _SQUARES) -> str:
    squares = "".join(f"<div>{_squares(row)}</div>" for row in rows(replicas, most))
    more = f" +{len(replicas) - most}" if len(replicas) > most else ""
    return f"<span style='{_STRIP}'>{squares}</span>{more} <span style='{_FAINT}'>{_counts(replicas)}</span>"


def _squares(row: Sequence[ReplicaStatus]) -> str:
    return "".join(
        f"<span title='{escape(each.name)} {each.state}' style='color:{_COLOURS[each.state]}'>"
        f"{'&#9632;' * len(each.ids)}</span>"
        for each in alike(row)
    )


def _age(view: AppView, now: datetime) -> str:
    age = view.age(now)
    return f"<span style='white-space:nowrap'>{escape(age)}</span>" if age else ""


def _counts(replicas: Iterable[ReplicaStatus]) -> str:
    states = Counter(replica.state for replica in replicas)
    return ", ".join(f"{count} {state}" for state, count in sorted(states.items()))


def _reasons(view: AppView) -> list[str]:
    """Return why an app failed or waits; with several replicas, also which replicas and why."""
    found = groups(view.replicas) if view.tally.of > 1 else []
    own = [told for group in found if group.why and (told := f"{group.name}: {group.why}") not in view.reason]
    more = [f"and {len(own) - _REASONS} more"] if len(own) > _REASONS else []
    return [*filter(None, [view.reason]), *own[:_REASONS], *more]
