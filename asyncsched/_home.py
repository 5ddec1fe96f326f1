"""Where state is kept on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

__all__ = ["find_home"]


def find_home(environ: Mapping[str, str]) -> list[Path]:
    """Return the directories that may be the state's, the best first."""
    named = environ.get("ASYNCSCHED_HOME")
    if named:
        return [_expanded(named).absolute()]
    # The specification of these variables says that a path which is not absolute is to be ignored.
    state = _expanded(environ.get("XDG_STATE_HOME") or "~/.local/state")
    runtime = Path(environ.get("XDG_RUNTIME_DIR") or ".")
    return [directory / "asyncsched" for directory in (state, runtime) if directory.is_absolute()]


def _expanded(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:  # nobody knows where home is
        return Path(text)
