"""The colours of states in a terminal, from the 256, readable on black and on white."""

from __future__ import annotations

from asyncsched.specs.state import AppState

__all__ = ["FAINT", "STATE_COLORS", "state_number"]

FAINT = 243
"""The number of the colour for less important text."""

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
    """Return the number of a state's colour; None stands for an unknown state."""
    return STATE_COLORS[AppState.UNKNOWN] if state is None else STATE_COLORS.get(state, FAINT)
