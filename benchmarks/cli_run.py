"""How long a whole `run` of a small local job takes, beside the peer's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks._harness import Claim, at_most, in_turns
from benchmarks.cli_start import program, seconds

ROUNDS = 9
PEER = "torchx==0.7.0"

LINE = ("run", "-s", "local_cwd", "utils.echo", "--msg", "hi")


def claims() -> Iterator[Claim]:
    """Run `utils.echo` on local_cwd with both; the peer is the one that TORCHX names, or is installed for this run."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        home.mkdir()
        env = {**os.environ, "HOME": str(home), "XDG_STATE_HOME": str(home)}
        peer = os.environ.get("TORCHX") or _install_peer(Path(folder))
        ours, theirs = (seconds(each, *LINE, cwd=home, env=env) for each in (program(), peer))
        took = in_turns({"asyncsched": ours, "peer": theirs}, ROUNDS)
    yield at_most(
        "`run -s local_cwd utils.echo --msg hi` takes less than half of the peer's time",
        took["asyncsched"] / took["peer"],
        0.5,
        detail=", ".join(f"{name}: {taken * 1000:.0f} ms" for name, taken in took.items()),
    )


def _install_peer(folder: Path) -> str:
    found = shutil.which("torchx")
    if found is not None:
        return found
    subprocess.run([sys.executable, "-m", "venv", str(folder / "peer")], check=True)
    pip = [str(folder / "peer/bin/pip"), "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", PEER], check=True)
    return str(folder / "peer/bin/torchx")
