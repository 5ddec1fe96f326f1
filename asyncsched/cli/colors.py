"""The colours of a terminal: those that can be read on black and on white alike.

Of the 256 colours these have a contrast of at least 4 to 1 to both; no terminal's palette changes them.
"""

from __future__ import annotations

from asyncsched.specs.state import AppState

__all__ = ["BOLD", "FAINT", "REPLICAS", "RESET", "painted", "state_color"]

RESET = "\x1b[0m"
BOLD = "1"
FAINT = "38;5;243"

REPLICAS = ("38;5;30", "38;5;130", "38;5;133", "38;5;28", "38;5;164", "38;5;64", "38;5;96", "38;5;66")
"""Those of replicas: no red, which is for failures, and no blue, which few can read on black."""

_STATES = {
    AppState.FAILED: "1;38;5;196",
    AppState.UNKNOWN: "38;5;164",
    AppState.RUNNING: "38;5;31",
    AppState.PENDING: "38;5;130",
    AppState.SUBMITTED: "38;5;130",
    AppState.SUCCEEDED: "38;5;28",
}


def painted(text: str, color: str) -> str:
    """Return a text in a colour; "" is none."""
    return f"\x1b[{color}m{text}{RESET}" if color and text else text


def state_color(state: AppState | None) -> str:
    """Return the colour of a state; None is one that is not known."""
    return _STATES[AppState.UNKNOWN] if state is None else _STATES.get(state, FAINT)
