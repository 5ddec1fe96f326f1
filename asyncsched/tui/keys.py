"""The keys of the monitor, their help, and the hints in the last line."""

from __future__ import annotations

from textual.binding import Binding, BindingType

__all__ = ["BINDINGS", "HELP", "HINTS", "LOG_HINTS"]

BINDINGS: list[BindingType] = [
    # With priority, keys that arrive together are handled in order, each in the state that the last one left.
    Binding(keys, action, show=False, priority=True)
    for keys, action in (
        ("up,k", "move(-1)"),
        ("down,j", "move(1)"),
        ("pageup", "page(-1)"),
        ("pagedown", "page(1)"),
        ("home,g", "far(-1)"),
        ("end,G", "far(1)"),
        ("left", "sideways(-1)"),
        ("right", "sideways(1)"),
        ("space", "peek"),
        ("enter,l", "log"),
        ("d", "describe"),
        ("x", "replicas"),
        ("m", "mark"),
        ("M", "mark_shown"),
        ("u", "unmark"),
        ("c", "cancel"),
        ("slash", "ask"),
        ("n", "search(1)"),
        ("N", "search(-1)"),
        ("f", "failed"),
        ("t", "state"),
        ("s", "sort"),
        ("a", "attempt"),
        ("z", "larger"),
        ("tab", "other_pane"),
        ("question_mark", "help"),
        ("escape", "escape"),
        ("q", "leave"),
        ("ctrl+c", "interrupt"),
        ("ctrl+z", "suspend_process"),
    )
]

HINTS = (
    *("? help", "q leave", "/ filter", "enter log", "space last lines"),
    *("f failed", "m mark", "c cancel", "x replicas", "s order", "t state", "d describe"),
)
LOG_HINTS = (
    *("? help", "q close", "/ search", "n N next", "end newest"),
    *("z larger", "tab table", "a attempt", "← → long lines"),
)
"""The hints in the last line: as many as fit."""

HELP = """\
up down j k, page up, page down, home g, end G   move
space    show the last 20 lines     enter, l  open the log of the selected apps
d        show the definition        x         show the replicas, similar ones in one row
m        mark or unmark             M         mark all shown apps
u        unmark all                 c         cancel the selected apps, after a question
/        filter by a text           f         show only failed apps
t        filter by state            s         change the order
tab      switch to the log          q         leave; the apps keep running
In the log, the same keys scroll. Left and right show the rest of long lines,
/ searches, n and N go to the next and the previous match, a changes the attempt,
z gives the log the whole screen, q or escape closes it.
The selected apps are the marked ones, or else the one under the cursor.""".splitlines()
