"""The command line as a user has it: a process of its own, with a home and a folder of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PLUGINS = Path(__file__).parent / "plugins"
BROKEN_PLUGINS = Path(__file__).parent / "broken_plugins"
WITHIN = 240.0


@dataclass(frozen=True, slots=True)
class Done:
    """What a command has done."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def jsonl(self) -> list[Any]:
        return [json.loads(line) for line in self.lines]


@dataclass(slots=True)
class Cli:
    """Runs ``asyncsched`` in a folder.

    Attributes:
        folder: The working directory, which is the home as well.
        environment: What is set beside what every command needs.
        plugins: Folders of installed packages.
        schedulers: Those that are asked where none is named.
    """

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    plugins: list[Path] = field(default_factory=lambda: [PLUGINS])
    schedulers: list[str] = field(default_factory=lambda: ["stage"])

    @property
    def env(self) -> dict[str, str]:
        return {
            "PATH": f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(self.folder),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "XDG_RUNTIME_DIR": str(self.folder),
            "PYTHONPATH": ":".join(map(str, self.plugins)),
            "STAGE_CANCELLED": str(self.folder / "cancelled"),
            "LANG": "C.UTF-8",
            # What else is installed must not matter: a machine may have no Docker, or one with somebody's apps.
            "ASYNCSCHED_SCHEDULERS": ",".join(self.schedulers),
            **{name: os.environ[name] for name in ("COVERAGE_PROCESS_START", "TMPDIR") if name in os.environ},
            **self.environment,
        }

    def command(self, *args: str) -> list[str]:
        return [sys.executable, "-m", "asyncsched", *args]

    def __call__(self, *args: str, **environment: str) -> Done:
        done = subprocess.run(
            self.command(*args),
            cwd=self.folder,
            env=self.env | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WITHIN,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def start(self, *args: str, **more: Any) -> subprocess.Popen[str]:
        """Start a command and return at once."""
        more = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, **more}
        return subprocess.Popen(self.command(*args), cwd=self.folder, env=self.env, text=True, **more)
