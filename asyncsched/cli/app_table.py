"""A table of apps that fits a terminal, with a summary and the failures below it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from textwrap import wrap

from asyncsched.cli.colors import BOLD, FAINT, painted, state_color
from asyncsched.cli.control_sequences import visible
from asyncsched.cli.table import GAP, cut
from asyncsched.specs.state import AppState
from asyncsched.views.apps import AppView, common_prefix, distinct, shared_beginning
from asyncsched.views.spans import ago, short
from asyncsched.views.summary import Failure, bar, failures, shared, summary

__all__ = ["MOST_NAMED", "app_table", "clock_time", "failure_lines", "more_line", "summary_line", "wrapped"]

MOST_NAMED = 60
"""How many failed apps are listed."""

_ALL = "asyncsched list --state failed"
_WRAPPED = 4
_BAR = 40
_CELLS = {AppState.SUCCEEDED: "█", AppState.FAILED: "x", AppState.CANCELLED: "-", AppState.RUNNING: "▒"}
_LONG = 24
"""If starts of ids are longer than this, their common prefix is dropped before other columns are."""
_READABLE = 40
"""The minimum width of a reason in its row; if less would fit, it is shown below the row."""
_LEAST = {"app": 12, "reason": 12}
_GOES_FIRST = ("name", "age")
_GOES_THEN = ("since", "duration", "replicas", "reason")


def app_table(
    views: Sequence[AppView], columns: Sequence[str], now: datetime, *, width: int | None, color: bool
) -> Iterator[str]:
    """Yield a header and a line for each app; empty columns are left out.

    In a narrow terminal, the common prefix of handles is dropped first, then names and ages, then the ends of ids that
    are not needed to tell them apart. Then other columns are dropped in favour of the reason. A reason that would still
    be cut too short is shown below its row.

    Args:
        views: The apps.
        columns: The columns; a name is shown only if the app's id does not begin with it.
        now: The current time, for ages.
        width: The width to fit into; None cuts nothing, and an unusually long cell widens only its own row.
        color: Whether to colour states.
    """
    cells = {name: [_cell(name, view, now) for view in views] for name in columns}
    cells = {name: each for name, each in cells.items() if any(each) or name in ("app", "state")}
    widths = _fitting(cells, [view.handle for view in views], width)
    below = _below(cells, widths)
    yield GAP.join(f"{name.upper():<{size}}" for name, size in widths.items()).rstrip()
    least = distinct(cells["app"])
    for row, view in enumerate(views):
        shown = {name: cells[name][row] for name in widths}
        if width is not None:
            shown = {name: _cut(name, text, widths[name], least) for name, text in shown.items()}
        told = [(name, text.ljust(widths[name])) for name, text in shown.items()]
        hue = state_color(view.state) if color else ""
        yield GAP.join(painted(text, hue) if name == "state" else text for name, text in told).rstrip()
        if below[row]:
            yield from wrapped(f"    {below[row]}", width)


def _cell(name: str, view: AppView, now: datetime) -> str:
    if name == "since":
        return clock_time(view.since, now)
    told = {
        "app": view.handle,
        "name": "" if view.app_id.startswith(view.name.lower()) else view.name,
        "state": view.word,
        "replicas": str(view.tally),
        "duration": short(view.duration(now)),
        "age": short(now - view.created_at) if view.created_at else "",
        "reason": view.reason,
    }
    return visible(" ".join(told[name].split()), one_line=True)


def clock_time(when: datetime | None, now: datetime) -> str:
    """Format a time in the local time zone; with the date unless it is today."""
    if when is None:
        return ""
    here = when.astimezone()
    return f"{here:%H:%M:%S}" if here.date() == now.astimezone().date() else f"{here:%Y-%m-%d %H:%M}"


def _fitting(cells: dict[str, list[str]], handles: Collection[str], width: int | None) -> dict[str, int]:
    """Return the widths of the columns to show; shorten the cells of `app` if handles do not fit.

    The common prefix of handles is dropped first, then names and ages, then the ends of ids that are not needed to tell
    them apart, because the start of an id names the app. Then a column of replicas that says 1 for each app is dropped,
    and reasons are cut; then a long common prefix of ids goes, and then more columns.
    """
    widths = {name: max(len(name), *map(len, each), 0) for name, each in cells.items()}
    if width is None:
        return {name: _usual(name, cells[name]) if name != "reason" else size for name, size in widths.items()}
    if _sum(widths) <= width:
        return widths
    _drop(cells, widths, len(visible(common_prefix(handles), one_line=True)))
    for name in _GOES_FIRST:
        if name in widths and _sum(widths) > width:
            del widths[name]
    if (over := _sum(widths) - width) > 0:
        widths["app"] = max(widths["app"] - over, min(widths["app"], max(distinct(cells["app"]), len("app"))))
    if _sum(widths) > width and {*cells.get("replicas", ())} <= {"1", ""}:  # which tells less than a name or a reason
        widths.pop("replicas", None)
    _give_way(widths, "reason", width)
    if _sum(widths) > width and widths["app"] > _LONG and len(cells["app"]) > 1:
        _drop(cells, widths, len(shared_beginning(cells["app"])), mark="…")
    _give_way(widths, "app", width)
    for name in _GOES_THEN:
        if name in widths and _sum(widths) > width:
            del widths[name]
    widths["app"] = max(1, widths["app"] - max(_sum(widths) - width, 0))
    for name in ("reason", "app"):  # the space of dropped columns
        if name in widths:
            widths[name] = min(max(map(len, cells[name]), default=0), widths[name] + width - _sum(widths))
            widths[name] = max(widths[name], len(name))
    return widths if _sum(widths) <= width else {"app": width}


def _usual(name: str, cells: Sequence[str]) -> int:
    """Return the width of a column, without regard to cells that are much longer than most."""
    sizes = sorted(map(len, cells))
    most = max(_LONG, len(name), 2 * sizes[(len(sizes) - 1) // 2]) if sizes else 0
    return max(len(name), *(size for size in sizes if size <= most), 0)


def _below(cells: Mapping[str, list[str]], widths: Mapping[str, int]) -> list[str]:
    """Remove the reasons that would be cut too short from the table and return them; "" for the others."""
    if (reasons := cells.get("reason")) is None:
        return [""] * len(cells["app"])
    room = widths.get("reason", 0)
    below = [text if room < min(len(text), _READABLE) else "" for text in reasons]
    reasons[:] = ["" if low else text for text, low in zip(reasons, below, strict=True)]
    return below


def _drop(cells: dict[str, list[str]], widths: dict[str, int], size: int, mark: str = "") -> None:
    """Drop the common prefix of the cells of `app`."""
    if size > len(mark):
        cells["app"] = [mark + each[size:] for each in cells["app"]]
        widths["app"] = max(len("app"), *map(len, cells["app"]))


def _give_way(widths: dict[str, int], name: str, width: int) -> None:
    if name in widths and (over := _sum(widths) - width) > 0:
        widths[name] = max(widths[name] - over, min(widths[name], _LEAST[name]))


def _sum(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + len(GAP) * (len(widths) - 1)


def _cut(name: str, text: str, width: int, least: int) -> str:
    """Cut a text; for an app, its start if that is unique, else its start and end."""
    if name != "app" or len(text) <= width:
        return cut(text, width)
    if width >= least:
        return text[:width]
    if width < _LEAST["app"]:
        return cut(text, width)
    return f"{text[: width - width // 2 - 1]}…{text[-(width // 2) :]}"


def summary_line(views: Collection[AppView], *, width: int | None, color: bool) -> str:
    """Return the number of apps by state, with a bar if there is room for it."""
    states = [view.state for view in views]
    text = summary(states)
    room = _BAR if width is None else min(width - len(text) - len(GAP) - 2, _BAR)
    if len(views) < 2 or room < 10:
        return text if width is None else cut(text, width)
    cells = "".join(
        painted(_CELLS.get(part.state, "░") * part.cells, state_color(part.state) if color else "")
        for part in bar(states, room)
    )
    return f"{painted(text, BOLD if color else '')}{GAP}[{cells}]"


def failure_lines(views: Collection[AppView], now: datetime, *, width: int | None, color: bool) -> Iterator[str]:
    """Yield the failed apps, grouped by reason: since when, why, and the last line of each."""
    told, left = shared(failures(views), MOST_NAMED)
    least = max(distinct([view.app_id for view in views]), len("app"))  # this much of an id identifies the app
    hue = state_color(AppState.FAILED) if color else ""
    faint = FAINT if color else ""
    for failure, apps in told:
        head, *more = _head(failure, now, width)
        begin = f"{len(failure.apps)} failed"
        yield painted(begin, hue) + head.removeprefix(begin)
        yield from more
        rest = [f"  {clock_time(app.finished_at, now)}{f'  {app.last_line}' if app.last_line else ''}" for app in apps]
        size = max(len(app.app_id) for app in apps)
        if width is not None:
            size = max(min(size, width - 2 - max(map(len, rest))), min(size, least))
        for app, text in zip(apps, rest, strict=True):
            yield _cut_to(visible(f"  {app.app_id[:size]:<{size}}{text}", one_line=True).rstrip(), width)
        if len(failure.apps) > len(apps):
            yield painted(_cut_to(f"  and {len(failure.apps) - len(apps)} more: {_ALL}", width), faint)
        yield painted(_cut_to(more_line(apps[0], "log", width), width), faint)
    if left:
        count = sum(len(failure.apps) for failure in left)
        yield _cut_to(f"and {count} that failed in {len(left)} other way{'s' if len(left) > 1 else ''}: {_ALL}", width)


def _head(failure: Failure, now: datetime, width: int | None) -> list[str]:
    """Return how many failed for one reason, since when, and the reason; wrapped if it does not fit one line."""
    since = f" since {clock_time(failure.since, now)} ({ago(failure.since, now)})" if failure.since else ""
    why = visible(failure.reason, one_line=True)
    text = f"{len(failure.apps)} failed{since}{f': {why}' if why else ''}"
    return wrapped(text, width)


def wrapped(text: str, width: int | None) -> list[str]:
    """Wrap a text, with the second and later lines indented; cut a very long one."""
    if width is None or len(text) <= width:
        return [text]
    lines = wrap(text, max(width, 10), subsequent_indent="    ", break_on_hyphens=False)
    return lines if len(lines) <= _WRAPPED else [*lines[: _WRAPPED - 1], cut(f"{lines[_WRAPPED - 1]} …", width)]


def more_line(view: AppView, verb: str, width: int | None, part: str = "") -> str:
    """Return the command that shows more of an app or its part; with the id alone if the handle does not fit."""
    told = f"  more: asyncsched {verb} {visible(f'{view.handle}{part}', one_line=True)}"
    if width is None or len(told) <= width:
        return told
    return f"  more: asyncsched {verb} {visible(f'{view.app_id}{part}', one_line=True)}"


def _cut_to(text: str, width: int | None) -> str:
    return text if width is None else cut(text, width)
