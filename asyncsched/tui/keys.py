"""The keys of the monitor: what each does, and what is told of them."""

from __future__ import annotations

from textual.binding import Binding, BindingType

__all__ = ["BINDINGS", "HELP", "HINTS", "LOG_HINTS"]

BINDINGS: list[BindingType] = [
    # Keys that come at once are taken in turn, each where the one before it has led.
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
"""What stands in the last line, as much of it as fits."""

HELP = """\
up down j k, page up, page down, home g, end G   move
space    the last 20 lines          enter, l  the log of what is chosen
d        what it is made of         x         its replicas, equal ones in one row
m        mark, or unmark            M         mark all that are shown
u        unmark all                 c         cancel what is chosen, after a question
/        show only what has a text  f         only what has failed
t        only one state             s         another order
tab      to the log and back        q         leave; the apps run on
In the log: the keys that move scroll, left and right show the rest of long lines,
/ searches, n and N go to the next and the one before, a chooses the attempt,
z gives the log the whole screen, q or escape closes it.
What is chosen are the marked apps, or else that under the cursor.""".splitlines()
