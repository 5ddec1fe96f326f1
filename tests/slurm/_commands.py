"""Stand-ins for the cluster's commands: what they say is given, and what they were asked is kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SEPARATOR = "@SEPARATOR@"
"""Stands in a row for what a command is told to write between its fields."""
FIND = f"""LC_ALL=C sed "s/{SEPARATOR}/$(printf %s "$*" | LC_ALL=C sed 's/.*\\(\x1f[0-9a-f]*\\).*/\\1/')/g" """


class Commands:
    """Programs in front of all others in PATH.

    Args:
        directory: Where they are made.
        monkeypatch: Sets PATH.
    """

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        directory.mkdir()
        self._directory = directory
        monkeypatch.setenv("PATH", f"{directory}:{os.environ.get('PATH', os.defpath)}")
        for name in ("sbatch", "squeue", "sacct", "scancel"):
            self.say(name)

    def say(self, name: str, stdout: str = "", *, stderr: str = "", code: int = 0, times: int = 1_000_000) -> None:
        """Have a command answer so, the first so many times; then it writes 7, which is a job's number."""
        answer, complaint = self._directory / f"{name}.out", self._directory / f"{name}.err"
        answer.write_bytes(stdout.encode(errors="surrogateescape"))
        complaint.write_text(stderr)
        program = self._directory / name
        program.write_text(
            f"#!/bin/sh\necho x >>{program}.asked\n"
            f'[ "$(wc -l <{program}.asked)" -gt {times} ] && exec echo 7\n'
            f"{FIND if SEPARATOR in stdout else 'cat'} {answer}; cat {complaint} >&2; exit {code}\n"
        )
        program.chmod(0o755)

    def hold(self, name: str) -> None:
        """Have a command answer 7 once it is released."""
        program = self._directory / name
        program.write_text(
            f"#!/bin/sh\necho x >>{program}.asked\nuntil [ -e {program}.released ]; do sleep 0.05; done; echo 7\n"
        )

    def release(self, name: str) -> None:
        """Let a command that is held answer."""
        (self._directory / f"{name}.released").touch()

    def asked(self, name: str) -> int:
        """How often a command was run."""
        path = self._directory / f"{name}.asked"
        return len(path.read_text().splitlines()) if path.exists() else 0


def squeue_row(job: str, name: str, state: str, *, status: int = 0, reason: str = "None", restarts: int = 0) -> str:
    """A row, as squeue writes it."""
    return SEPARATOR.join((job, "N/A", state, str(status), str(restarts), "N/A", reason, name)) + SEPARATOR + "\n"


def sacct_row(job: str, name: str, state: str, code: str = "0:0") -> str:
    """A row, as sacct writes it."""
    return SEPARATOR.join((job, state, code, "1700000000", name)) + SEPARATOR + "\n"
