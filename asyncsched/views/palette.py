"""The colours of states in a terminal: of the 256, those that can be read on black and on white alike."""

from __future__ import annotations

from asyncsched.specs.state import AppState

__all__ = ["FAINT", "STATE_COLORS", "state_number"]

FAINT = 243
"""The number of the colour of what matters less."""

STATE_COLORS = {
    AppState.FAILED: 196,
    AppState.UNKNOWN: 164,
    AppState.RUNNING: 31,
    AppState.PENDING: 130,
    AppState.SUBMITTED: 130,
    AppState.SUCCEEDED: 28,
}
"""The numbers of the states' colours."""


def state_number(state: AppState | None) -> int:
    """Return the number of a state's colour; None is one that is not known."""
    return STATE_COLORS[AppState.UNKNOWN] if state is None else STATE_COLORS.get(state, FAINT)
