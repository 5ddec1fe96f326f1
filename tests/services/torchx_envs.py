"""Environments that have TorchX, each made once and kept in the user's cache folder.

What asyncsched needs is installed beside it, and asyncsched is not: `run_in` takes it from the working tree.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from tests._services import unavailable

ROOT = Path(__file__).parents[2]

TORCHX = "torchx==0.7.0"
TORCHX_NIGHTLY = "torchx-nightly==2026.10.26"
TORCHX_NIGHTLY_BEFORE = "torchx-nightly==2026.9.18"
"""The last one in which a registered scheduler hides all of TorchX's own."""
VERSIONS = (TORCHX, TORCHX_NIGHTLY)

_INSTALL_TIMEOUT = 900
_READY = ".ready"


def environment(*requirements: str) -> Path:
    """Return the folder of a virtual environment with these requirements, or leave the test out with the reason.

    It is shared by all who ask for the same, in all runs: install nothing into it.
    """
    try:
        return _environment(*requirements)
    except (OSError, subprocess.SubprocessError) as error:
        told = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        unavailable(requirements[0], told[-1] if told else type(error).__name__)


def run_in(
    folder: Path, *args: str, cwd: Path, env: dict[str, str] | None = None, timeout: float = 240
) -> subprocess.CompletedProcess[str]:
    """Run the environment's Python, with the working tree's asyncsched and `cwd` as the home.

    Args:
        folder: The environment.
        args: What Python is given.
        cwd: The working directory.
        env: Further variables.
        timeout: A guard against hangs.
    """
    own = {"HOME": str(cwd), "PATH": f"{folder}/bin:/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
    own |= {"XDG_STATE_HOME": str(cwd / "state"), "PYTHONDONTWRITEBYTECODE": "1", **(env or {})}
    return subprocess.run(
        [str(folder / "bin/python"), *args],
        cwd=cwd,
        env=own,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )


@functools.cache
def _environment(*requirements: str) -> Path:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*requirements, *project["dependencies"]]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "asyncsched-tests"
    key = hashlib.sha256("\n".join([sys.version, sys.base_prefix, *wanted]).encode()).hexdigest()[:12]
    folder = cache / f"{requirements[0].replace('==', '-')}-{key}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed
        if not (folder / _READY).exists():
            shutil.rmtree(folder, ignore_errors=True)
            _make(folder, wanted)
            (folder / _READY).touch()
    return folder


def _make(folder: Path, wanted: list[str]) -> None:
    run = functools.partial(subprocess.run, check=True, capture_output=True, text=True, timeout=_INSTALL_TIMEOUT)
    run([sys.executable, "-m", "venv", str(folder)])
    pip = [str(folder / "bin/python"), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    # The environments stand for those of users, who have what their TorchX was released with.
    run([*pip, *wanted])
