"""TorchX's own command line as a user has it: in an environment with TorchX, where the plugin is installed."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WITHIN = 240.0

COMPONENTS = '''
from torchx import specs

def job(program: str, image: str = "image", entrypoint: str = "sh", first: str = "-c", replicas: int = 1,
        role: str = "main") -> specs.AppDef:
    """Run a program.

    Args:
        program: what the entrypoint is given
        image: the image
        entrypoint: what runs it
        first: what stands before it
        replicas: how many
        role: its role
    """
    args = [each for each in (first, program) if each]
    resource = specs.Resource(cpu=1, gpu=0, memMB=64)
    return specs.AppDef("job", [
        specs.Role(role, image, entrypoint=entrypoint, args=args, num_replicas=replicas, resource=resource)
    ])
'''


@dataclass(frozen=True, slots=True)
class Done:
    """What a command has done."""

    code: int
    out: str
    err: str

    @property
    def handle(self) -> str:
        """The handle of the app that it has run."""
        found = re.search(r"^\w+://\S+$", self.out, re.MULTILINE)
        assert found is not None, self.out + self.err
        return found[0]

    @property
    def lines(self) -> list[str]:
        """The lines of replicas that it has shown, wherever it writes them, as ``role/0 text``."""
        texts = (line for line in (self.out + self.err).splitlines() if re.match(r"\w+/\d+ ", line))
        return sorted(texts)


@dataclass(slots=True)
class TorchX:
    """Runs ``torchx`` in a folder.

    Attributes:
        venv: The environment that has TorchX.
        path: What is on Python's path there: the plugin, and where asyncsched comes from.
        folder: The working directory, which is the home as well.
        environment: What is set beside what every command needs.
    """

    venv: Path
    path: Path
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.joinpath("jobs.py").write_text(COMPONENTS)

    @property
    def env(self) -> Mapping[str, str]:
        return {
            "PATH": f"{self.venv}/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(self.folder),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "XDG_RUNTIME_DIR": str(self.folder),
            "PYTHONPATH": str(self.path),
            "LANG": "C.UTF-8",
            **{name: os.environ[name] for name in ("COVERAGE_PROCESS_START", "TMPDIR") if name in os.environ},
            **self.environment,
        }

    def __call__(self, *args: str, **environment: str) -> Done:
        return self._run([str(self.venv / "bin/torchx"), *args], environment)

    def python(self, program: str, *args: str, **environment: str) -> Done:
        """Run a program there."""
        return self._run([str(self.venv / "bin/python"), "-c", program, *args], environment)

    def command(self, *command: str) -> Done:
        """Run another command there."""
        return self._run([*command], {})

    def _run(self, command: list[str], environment: Mapping[str, str]) -> Done:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**self.env, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WITHIN,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def start(self, *args: str, **more: Any) -> subprocess.Popen[str]:
        """Start a command and return at once; its outputs are one."""
        more = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL, **more}
        command = [str(self.venv / "bin/torchx"), *args]
        env = {**self.env, "PYTHONUNBUFFERED": "1"}
        return subprocess.Popen(command, cwd=self.folder, env=env, text=True, **more)

    @property
    def is_old(self) -> bool:
        """Whether it is 0.7, which has no ``delete`` and lets unknown run options pass."""
        return not any(self.venv.glob("lib/python*/site-packages/torchx/plugins"))
