"""The directory for state on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

__all__ = ["find_home"]


def find_home(environ: Mapping[str, str]) -> list[Path]:
    """Return the candidates for the state directory, the best first."""
    named = environ.get("ASYNCSCHED_HOME")
    if named:
        return [_expanded(named).absolute()]
    # The specification of these variables says to ignore relative paths.
    state = _expanded(environ.get("XDG_STATE_HOME") or "~/.local/state")
    runtime = Path(environ.get("XDG_RUNTIME_DIR") or ".")
    return [directory / "asyncsched" for directory in (state, runtime) if directory.is_absolute()]


def _expanded(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:  # the home directory is unknown
        return Path(text)
