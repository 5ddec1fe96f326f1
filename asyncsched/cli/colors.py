"""Terminal colours that are readable on black and on white.

Of the 256 colours, these have a contrast of at least 4:1 to both, and terminal palettes do not change them.
"""

from __future__ import annotations

from asyncsched.specs.state import AppState
from asyncsched.views import palette
from asyncsched.views.palette import state_number

__all__ = ["BOLD", "FAINT", "REPLICAS", "RESET", "painted", "state_color"]

RESET = "\x1b[0m"
BOLD = "1"
FAINT = f"38;5;{palette.FAINT}"

REPLICAS = ("38;5;30", "38;5;130", "38;5;133", "38;5;28", "38;5;164", "38;5;64", "38;5;96", "38;5;66")
"""The colours of replicas: no red, which marks failures, and no blue, which is hard to read on black."""


def painted(text: str, color: str) -> str:
    """Return a text in a colour; "" means no colour."""
    return f"\x1b[{color}m{text}{RESET}" if color and text else text


def state_color(state: AppState | None) -> str:
    """Return the colour of a state; None is an unknown state."""
    return f"{'1;' if state is AppState.FAILED else ''}38;5;{state_number(state)}"
