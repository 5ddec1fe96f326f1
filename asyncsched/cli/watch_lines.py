"""Print a line for each change of apps, for ``status --watch`` and for ``monitor`` without a terminal."""

from __future__ import annotations

from dataclasses import dataclass, field

from asyncsched.cli.app_arguments import Found
from asyncsched.cli.apps import finish, unknown
from asyncsched.cli.colors import painted, state_color
from asyncsched.cli.console import Console
from asyncsched.cli.control_sequences import visible
from asyncsched.cli.json_rows import state_code, status_row
from asyncsched.cli.overview import overview_lines
from asyncsched.cli.run_async import next_event
from asyncsched.runner.convert import AppEvent
from asyncsched.runner.runner import Runner
from asyncsched.specs.handle import AppHandle
from asyncsched.views.apps import AppView, app_view

__all__ = ["watch_found"]


async def watch_found(console: Console, runner: Runner, found: Found) -> int:
    """Print each change of the apps until all have ended, then a summary; return the exit code."""
    failures, codes = list(found.failures), list[int]()
    changes = _Changes(console)
    async with runner.watch(found.handles) as events:
        while (event := await next_event(events, failures.append)) is not None:
            if event.current is None:
                failures.append(await unknown(runner, event.handle))
                continue
            changes.tell(event)
            if event.is_terminal():
                codes.append(state_code(event.state))
    if console.format == "json":
        console.print_rows((), changes.rows)
    if console.format == "table" and len(changes.views) > 1:
        console.say_painted(["", *await overview_lines(console, runner, changes.views.values())])
    return finish(console, failures, codes, alone=not codes)


@dataclass(slots=True)
class _Changes:
    """What was printed about each app."""

    console: Console
    views: dict[AppHandle, AppView] = field(default_factory=dict[AppHandle, AppView])
    rows: list[dict[str, object]] = field(default_factory=list[dict[str, object]])
    _told: dict[AppHandle, str] = field(default_factory=dict[AppHandle, str])

    def tell(self, event: AppEvent) -> None:
        """Print a change; as a line only if it differs from the app's last line."""
        if self.console.format == "json":
            self.rows.append(status_row(event.handle, event.current))
        elif self.console.format == "jsonl":
            self.console.print_json(status_row(event.handle, event.current))
        else:
            view = self.views[event.handle] = app_view(event.handle, event.current)
            line = _line(view, self.console.color)
            if self._told.get(event.handle) != line:
                self._told[event.handle] = line
                self.console.print_painted([line])


def _line(view: AppView, color: bool) -> str:
    state = painted(view.word, state_color(view.state) if color else "")
    replicas = str(view.tally) if view.tally.of > 1 else ""
    told = [visible(view.handle, one_line=True), state, replicas, visible(view.reason, one_line=True)]
    return "  ".join(filter(None, told))
