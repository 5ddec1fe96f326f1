"""Ends what this process has started when this process is no more, however it ended."""

from __future__ import annotations

import subprocess
from pathlib import Path

_ROOT = Path(__file__).parents[2]

# It holds the reading end of a pipe whose other end only we hold: a line lets it go, our end is the pipe's end.
_SCRIPT = 'trap "" INT HUP TERM; read -r word || exec "$@"'


class Lifeline:
    """Runs a command once this process has ended, if `release` was not called before.

    The command begins in the project's root, in a session of its own: whatever ends our process group, be it
    Ctrl-C, a time limit or the end of a terminal, does not end it.
    """

    def __init__(self, *command: str) -> None:
        self._process = subprocess.Popen(
            ["sh", "-c", _SCRIPT, "lifeline", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd=_ROOT,
        )

    def release(self) -> None:
        """Let it go: what it was to end has been ended."""
        self._process.communicate(b"\n")
