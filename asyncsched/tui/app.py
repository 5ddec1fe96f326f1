"""The monitor itself: it runs the actions of keys and paints changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from functools import partial
from typing import Any, ClassVar

from textual import events, on
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.driver import Driver

from asyncsched._tasks import BackgroundTasks, outlast
from asyncsched._typing import override
from asyncsched.tui.ending import ask_for_end, ends_of, question
from asyncsched.tui.keys import BINDINGS, HELP, HINTS, LOG_HINTS
from asyncsched.tui.painter import Painter
from asyncsched.tui.panes import HeadLine, HeadPane, LogPane, Styles, TablePane, TextLine, TextPane, fitting, ruled
from asyncsched.tui.readers import PEEKED, LastLines, description, peek
from asyncsched.tui.screens import Question, TextScreen
from asyncsched.tui.shown_log import MOST, ShownLog
from asyncsched.tui.source import MonitorSource
from asyncsched.tui.terminal import driver_class, is_gone
from asyncsched.views.apps import AppView
from asyncsched.views.live_log import LiveLog
from asyncsched.views.live_order import SORTS, STATE_FILTERS
from asyncsched.views.live_table import LiveTable
from asyncsched.views.text import one_line

__all__ = ["CLOSED", "INTERRUPTED", "MonitorApp"]

INTERRUPTED, CLOSED = "SIGINT", "SIGHUP"
"""Why the user left, as the name of the signal with the same meaning."""
CLEANUP_TIMEOUT = 10.0

LOOKS_AT_TERMINAL = 1.0
"""Seconds between two looks whether the terminal is still there."""

_log = logging.getLogger("asyncsched.tui")


class MonitorApp(App[str]):
    """Shows the apps of a source until the user leaves.

    Args:
        source: Where the apps come from.
        color: Whether to use colours.
        leaves: Whether to leave when no app can change any more.
        on_terminal: Whether it draws on a real terminal, and leaves when that is closed.

    Attributes:
        table: The apps.
        painter: Paints changes.
        failure: The error that ended it, if any.
    """

    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = None
    CSS = """
    * { scrollbar-size: 0 0; }
    Screen { background: ansi_default; color: ansi_default; layout: vertical; }
    #head { height: 2; }
    #table { height: 1fr; }
    #log-title { height: 1; }
    #log { height: 1fr; }
    #foot { height: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = BINDINGS

    def __init__(
        self, source: MonitorSource, *, color: bool = True, leaves: bool = False, on_terminal: bool = False
    ) -> None:
        super().__init__(driver_class=driver_class() if on_terminal else None, ansi_color=True)
        self.table = LiveTable()
        self.painter = Painter(source.clock, self._paint)
        self.failure: BaseException | None = None
        self._source = source
        self._leaves = leaves
        self._on_terminal = on_terminal
        self._tasks = BackgroundTasks(_log)
        self._shown_log = ShownLog(source, self.table, self._tasks, self.painter.changed)
        self._in_log = False
        self._note = ""
        self._factory: Any = None
        styles = Styles(color=color)
        self._styles_of = styles
        self._head = HeadPane(styles, id="head")
        self._table = TablePane(styles, id="table")
        self._log_title = TextPane(styles, id="log-title")
        self._log_pane = LogPane(styles, id="log")
        self._foot = TextPane(styles, id="foot")
        self._typed: str | None = None  # the text typed after a slash; None: keys run actions

    # Its life

    @override
    def compose(self) -> ComposeResult:
        self._log_title.display = self._log_pane.display = False
        yield from (self._head, self._table, self._log_title, self._log_pane, self._foot)

    def on_load(self) -> None:
        """Restore the loop's task factory, which textual has replaced."""
        asyncio.get_running_loop().set_task_factory(self._factory)

    def on_mount(self) -> None:
        """Start to follow the apps and to read their last lines."""
        self._start(self._follow(), "apps of the monitor")
        last = LastLines(self._source, self.table, self.painter.changed)
        self._start(last.run(self._visible), "last lines of the monitor")
        if self._on_terminal:
            self.set_interval(LOOKS_AT_TERMINAL, self._leave_if_gone)  # for hours there may be nothing to paint
        self.painter.changed()

    def on_resize(self) -> None:
        """Paint again once the panes have their new size."""
        self.call_after_refresh(self.painter.now)

    @on(Driver.SignalResume)
    def draw_again(self) -> None:
        """Draw everything: after a stop (Ctrl-Z, and ``fg`` in the shell) the terminal shows something else."""
        self.screen.refresh(layout=True)

    async def show(self) -> str | None:
        """Run until the user leaves. Cancelling it also leaves."""
        self._factory = asyncio.get_running_loop().get_task_factory()
        # In a separate task: textual takes a cancellation as a request to leave, and does not pass it on.
        running = asyncio.create_task(self.run_async(mouse=False), name="monitor")
        try:
            await asyncio.wait([running])
        finally:
            if not running.done():
                self.exit()
                if not await outlast([running], CLEANUP_TIMEOUT):
                    running.cancel()
                    await outlast([running], CLEANUP_TIMEOUT)
            await self.close()
        if self.failure is not None:
            raise self.failure
        return running.result()

    @override
    def _handle_exception(self, error: Exception) -> None:
        """Leave and keep the error; textual would print it with the values of all variables, including secrets."""
        if not self._on_terminal:
            super()._handle_exception(error)
            return
        self.failure = self.failure or error
        self.exit()

    async def on_unmount(self) -> None:
        """End the background tasks."""
        await self.close()

    async def close(self) -> None:
        """End all tasks of the monitor; the apps keep running. Idempotent."""
        self.painter.close()
        await self._tasks.close(CLEANUP_TIMEOUT)

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        return self._tasks.start(work, name=name)

    async def _follow(self) -> None:
        try:
            await self._source.follow(self.table, self.painter.changed, self.note)
        except Exception as error:  # noqa: BLE001 - raised by `show`, once the terminal is restored
            self.failure = error
            self.exit()
            return
        if self._leaves:
            self.exit()
        self.note("all apps have ended; press q to leave")

    @override
    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave keys to an open dialog, and to a text that is being typed."""
        if action in ("interrupt", "suspend_process", "quit"):
            return True
        if len(self.screen_stack) > 1:
            return False
        return action == "escape" or self._typed is None

    @override
    async def on_event(self, event: events.Event) -> None:
        """Take the keys of a text that is being typed."""
        is_new = isinstance(event, events.InputEvent) and not event.is_forwarded
        if is_new and self._typed is not None and len(self.screen_stack) == 1:
            if isinstance(event, events.Key) and event.key not in ("escape", "ctrl+c", "ctrl+z", "ctrl+q"):
                self._take_key(self._typed, event)
                return
            if isinstance(event, events.Paste):
                self._type(self._typed + " ".join(event.text.split()))
                return
        await super().on_event(event)

    # Painting

    def note(self, text: str) -> None:
        """Show a text in the last line until the next key."""
        self._note = one_line(text)
        self.painter.changed()

    def _visible(self) -> list[str]:
        handles = self.table.visible(self._table.height)
        self._source.need(handles)
        return handles

    def _paint(self) -> None:
        if not self.is_running or not self._head.is_attached:
            return
        if self._on_terminal and self._leave_if_gone():
            return
        table, width = self.table, self.size.width
        now = datetime.fromtimestamp(self._source.clock.time_ns() / 1e9, UTC)
        summary = one_line(table.summary())
        room = HeadPane.room(summary, width)
        bar = tuple(table.bar(room)) if room >= 10 else ()
        self._head.show([HeadLine(summary, bar), HeadLine(table.showing())])
        self._table.show_table(table.window(self._table.height, now))
        if self.log_view is not None:
            title = ruled(self._shown_log.title(), width)
            self._log_title.show([TextLine(title, "bold" if self._in_log else "faint")])
            self._log_pane.show_log(
                self.log_view.window(self._log_height), self.log_view.names.width, self._shown_log.cut
            )
        self._foot.show([self._last_line])

    def _leave_if_gone(self) -> bool:
        """Leave if the terminal was closed; return whether it was."""
        if not is_gone():
            return False
        self.exit(CLOSED)
        return True

    @property
    def _last_line(self) -> TextLine:
        if self._typed is not None:
            return TextLine(f"{'search' if self._in_log else 'filter'}: {one_line(self._typed)}▏", "bold")
        if self._note:
            return TextLine(self._note)
        return TextLine(fitting(LOG_HINTS if self._in_log else HINTS, self.size.width), "faint")

    @property
    def log_view(self) -> LiveLog | None:
        """The open log; None if none is open."""
        return self._shown_log.log

    @property
    def _log_height(self) -> int:
        return self._log_pane.size.height

    def _done(self) -> None:
        """Show the effect of a key."""
        self._note = ""
        self.painter.now()

    # Moving

    def action_move(self, by: int) -> None:
        """Move the cursor, or scroll the log."""
        if self._in_log and self.log_view is not None:
            self.log_view.scroll(by, self._log_height)
        else:
            self.table.move(by)
        self._done()

    def action_page(self, by: int) -> None:
        """Move by a page."""
        height = self._log_height if self._in_log else self._table.height
        self.action_move(by * max(height - 1, 1))

    def action_far(self, by: int) -> None:
        """Go to the beginning or the end."""
        if not self._in_log or self.log_view is None:
            self.action_move(by * len(self.table))
            return
        if by < 0:
            self.log_view.to_start(self._log_height)
        else:
            self.log_view.to_end()
        self._done()

    def action_sideways(self, by: int) -> None:
        """Scroll the log's long lines left or right."""
        if self._in_log:
            self._shown_log.move(by)
            self._done()

    def action_other_pane(self) -> None:
        """Switch between the log and the table."""
        self._in_log = self.log_view is not None and not self._in_log
        self._table.display = True
        self._arranged()

    def action_larger(self) -> None:
        """Give the log the whole screen, or show the table again."""
        if self._in_log:
            self._table.display = not self._table.display
            self._arranged()

    # Choosing

    def action_mark(self) -> None:
        """Mark or unmark the app under the cursor."""
        self.table.toggle_mark()
        self._done()

    def action_mark_shown(self) -> None:
        """Mark all shown apps."""
        self.table.mark_shown()
        self._done()

    def action_unmark(self) -> None:
        """Unmark all apps."""
        self.table.unmark()
        self._done()

    def action_failed(self) -> None:
        """Show only failed apps, or all again."""
        self.table.filter(states="all" if self.table.states == "failed" else "failed")
        self._done()

    def action_state(self) -> None:
        """Show only apps in the next state."""
        self.table.filter(states=_next(STATE_FILTERS, self.table.states))
        self._done()

    def action_sort(self) -> None:
        """Show the apps in the next order."""
        self.table.sort_by(_next(SORTS, self.table.sort))
        self._done()

    def action_replicas(self) -> None:
        """Show or hide the replicas of the app under the cursor."""
        self.table.toggle_replicas()
        self._done()

    # Filter and search

    def action_ask(self) -> None:
        """Start typing a text to filter by, or to search for in the log."""
        self._typed = "" if self._in_log else self.table.text
        self._done()

    def _take_key(self, typed: str, event: events.Key) -> None:
        if event.key == "enter":
            if self._in_log and self.log_view is not None:
                self.log_view.search(typed, self._log_height)
            self._typed = None
            self._done()
        elif event.key == "backspace":
            self._type(typed[:-1])
        elif event.key == "ctrl+u":
            self._type("")
        elif event.character is not None and event.is_printable:
            self._type(typed + event.character)

    def _type(self, typed: str) -> None:
        self._typed = typed
        if not self._in_log:
            self.table.filter(text=typed)
        self._done()

    def action_search(self, by: int) -> None:
        """Go to the next line that contains the text, or to the previous one."""
        if self.log_view is not None:
            self.log_view.step(by, self._log_height)
        self._done()

    # The log

    def action_log(self) -> None:
        """Open the log of the selected apps."""
        self.table.hold()
        chosen = self.table.chosen
        if len(chosen) > MOST:
            self.note(f"a log shows at most {MOST:,} apps, and {len(chosen):,} are marked")
        elif chosen:
            self._shown_log.open(chosen)
            self._in_log = True
            self._arranged()

    def action_attempt(self) -> None:
        """Show the next attempt of the log's apps: all, the first, and so on."""
        if self.log_view is not None:
            self._shown_log.next_attempt()
            self._done()

    def _close_log(self) -> None:
        self._shown_log.close()
        self._in_log = False
        self._table.display = True
        self._arranged()

    def _arranged(self) -> None:
        """Show or hide the log; paint once the panes have their new size."""
        self._log_title.display = self._log_pane.display = self.log_view is not None
        self.call_after_refresh(self._done)

    # Details, and cancelling

    def action_peek(self) -> None:
        """Show the last lines of the app under the cursor."""
        self._look(f"the last {PEEKED} lines of", partial(peek, self._source))

    def action_describe(self) -> None:
        """Show the definition of the app under the cursor."""
        self._look("definition of", partial(description, self._source))

    def _look(self, what: str, read: Callable[[AppView], Awaitable[list[str]]]) -> None:
        self.table.hold()
        self._done()
        view = self.table.view(self.table.cursor or "")
        if view is not None:
            title = one_line(f"{what} {self.table.name(view)}")
            self._start(self._show_read(title, read(view)), "look at an app")

    async def _show_read(self, title: str, reading: Awaitable[list[str]]) -> None:
        try:
            lines = await reading
        except Exception as error:  # noqa: BLE001 - also a plugin's own errors; the table continues
            self.note(f"error: {error}")
            return
        self.call_later(self.push_screen, TextScreen(self._styles_of, title, lines))

    def action_cancel(self) -> None:
        """Ask for confirmation, then cancel the selected apps."""
        self.table.hold()
        self._done()
        views = [view for handle in self.table.chosen if (view := self.table.view(handle)) is not None]
        ending = ends_of(views)
        if ending:
            self.push_screen(Question(self._styles_of, *question(self.table, ending)), partial(self._answered, ending))
        else:
            self.note("it has already ended" if len(views) == 1 else f"all {len(views):,} have already ended")

    def _answered(self, views: list[AppView], answer: bool | None) -> None:
        if answer:
            self._start(self._cancel(views), "end of apps")

    async def _cancel(self, views: list[AppView]) -> None:
        try:
            self.note(await ask_for_end(self._source, self.table, views))
        except Exception as error:  # noqa: BLE001 - also a plugin's own errors; the table continues
            self.note(f"error: {error}")

    # Leaving

    def action_help(self) -> None:
        """Show the keys."""
        self.push_screen(TextScreen(self._styles_of, "Keys", HELP))

    def action_escape(self) -> None:
        """Stop typing, else close the log, else remove the filter."""
        if self._typed is not None:
            self._typed = None
            if not self._in_log:
                self.table.filter(text="")
            self._done()
        elif self.log_view is not None:
            self._close_log()
        else:
            self.table.filter(text="", states="all")
            self._done()

    def action_leave(self) -> None:
        """Close the log, or leave."""
        if self._in_log:
            self._close_log()
        else:
            self.exit()

    def action_interrupt(self) -> None:
        """Leave as Ctrl-C does."""
        self.exit(INTERRUPTED)


def _next(names: Any, name: str) -> str:
    following = [*names]
    return str(following[(following.index(name) + 1) % len(following)])
